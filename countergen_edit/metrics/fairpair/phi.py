"""Φ, how far two texts differ, and FairPair's quantities made from it (section 2 of the paper).

    B    = 1/(n m) Σ_i Σ_j Φ(p(g_i(x)), g_j(p(x)))
    V_pg = 2/(n (n-1)) Σ_{i<j} Φ(p(g_i(x)), p(g_j(x))),  V_gp likewise
    F    = B² / (V_gp V_pg)

n and m differ where the filters leave some perturbations out. 2 B - V_gp - V_pg is the unbiased
estimate of an energy distance (Székely and Rizzo 2013): its mean is 0 without bias, while F exceeds
1 by chance as often as not.

Without bias, the n texts p(g_i(x)) and the m texts g_j(p(x)) of one prompt are draws from one
distribution. So labels are permuted within a prompt, never across prompts, and for the pooled test
in all prompts independently. The test also finds traces that a perturber or a filter leaves.

A custom Φ is a `Phi`, or a `ScoreDifference` with its `scores`, in a file:

    metric.fairpair.phi={mine:{kind:mine.py:Mine}}
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64, Int
from scipy import sparse
from scipy.stats import ttest_rel

from countergen_edit.core.registry import Registry
from countergen_edit.core.seeds import generator
from countergen_edit.data.fairpair import words_of
from countergen_edit.metrics.fairpair.continuations import Sampled
from countergen_edit.metrics.statistics import adjusted
from countergen_edit.models.classifiers import analyzer

Distances = Float64[np.ndarray, "text text"]


class Phi(ABC):
    """A dissimilarity of texts, symmetric and 0 between equal texts."""

    @property
    def name(self) -> str:
        """The registered name, which seeds permutations.

        >>> Jaccard().name
        'jaccard'
        """
        return PHIS.name_of(self).rpartition(":")[2]

    def prepare(self, texts: Sequence[str]) -> None:  # noqa: B027 (nothing by default)
        """Score many texts in one batch, so that `represent` is quick."""

    @abstractmethod
    def represent(self, texts: Sequence[str]) -> Any:
        """Scores or sets of words that stand for the texts."""

    @abstractmethod
    def pool(self, represented: Any, fold: Int[np.ndarray, " text"]) -> Any:
        """One representation a fold, of the texts whose `fold` it is (FairPair, section 2)."""

    @abstractmethod
    def distances(self, represented: Any) -> Distances:
        """Φ of every pair."""


PHIS: Registry[type[Phi]] = Registry(
    "phi",
    "countergen_edit.phis",
    {
        "sentiment": "countergen_edit.metrics.fairpair.phi:Sentiment",
        "jaccard": "countergen_edit.metrics.fairpair.phi:Jaccard",
        "classifier": "countergen_edit.metrics.fairpair.phi:ClassifierScore",
    },
    Phi,
)
"""Every Φ by its name in config; a custom one enters with `@PHIS.register("mine")`."""


class ScoreDifference(Phi):
    """Φ(u, v) = |S(u) - S(v)| for a scorer S; a fold's value is the mean of its scores."""

    @abstractmethod
    def scores(self, texts: Sequence[str]) -> Float64[np.ndarray, " text"]:
        """S of each text."""

    def prepare(self, texts: Sequence[str]) -> None:
        self.scores(texts)

    def represent(self, texts: Sequence[str]) -> Float64[np.ndarray, " text"]:
        return self.scores(texts)

    def pool(
        self, represented: Float64[np.ndarray, " text"], fold: Int[np.ndarray, " text"]
    ) -> Float64[np.ndarray, " fold"]:
        means: Float64[np.ndarray, " fold"] = np.bincount(fold, represented) / np.bincount(fold)
        return means

    def distances(self, represented: Float64[np.ndarray, " text"]) -> Distances:
        apart: Distances = np.abs(represented[:, None] - represented[None, :])
        return apart


class Sentiment(ScoreDifference):
    """VADER's compound sentiment (Hutto and Gilbert 2014), in [-1, 1].

    Args:
        processes: Most processes that score; None takes all cores.
    """

    _POOL_FROM = 2000  # fewer texts are scored sooner than processes start

    def __init__(self, processes: int | None = None) -> None:
        self.processes = processes
        self._known: dict[str, float] = {}

    def scores(self, texts: Sequence[str]) -> Float64[np.ndarray, " text"]:
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        self._known |= zip(new, self._compounds(new), strict=True)
        return np.array([self._known[text] for text in texts], dtype=np.float64)

    def _compounds(self, texts: list[str]) -> list[float]:
        from joblib import Parallel, cpu_count, delayed  # late: slow to import

        analyser = analyzer()
        processes = self.processes or cpu_count()
        if len(texts) < self._POOL_FROM or processes == 1:
            return [float(analyser.polarity_scores(text)["compound"]) for text in texts]
        # Workers get VADER's own method, so that they import nothing of this package.
        run = Parallel(n_jobs=processes, batch_size=1 + len(texts) // (4 * processes))
        scored = run(delayed(analyser.polarity_scores)(text) for text in texts)
        return [float(score["compound"]) for score in scored]


class Jaccard(Phi):
    """Φ(u, v) = 1 - |u ∩ v| / |u ∪ v| on sets of words, 0 for two texts without words.

    The set of a fold is the union of those of its texts.
    """

    def represent(self, texts: Sequence[str]) -> sparse.csr_matrix:
        """A row a text, a column a word; ones where the text has the word."""
        vocabulary: dict[str, int] = {}
        sets = [words_of(text) for text in texts]
        columns = [
            vocabulary.setdefault(word, len(vocabulary)) for words in sets for word in sorted(words)
        ]
        ends = np.cumsum([0, *map(len, sets)])
        shape = (len(texts), max(1, len(vocabulary)))
        return sparse.csr_matrix((np.ones(len(columns)), columns, ends), shape=shape)

    def pool(
        self, represented: sparse.csr_matrix, fold: Int[np.ndarray, " text"]
    ) -> sparse.csr_matrix:
        ones = np.ones(len(fold))
        member = sparse.csr_matrix((ones, (fold, np.arange(len(fold)))))
        union: sparse.csr_matrix = member @ represented
        union.data[:] = 1.0
        return union

    def distances(self, represented: sparse.csr_matrix) -> Distances:
        both = (represented @ represented.T).toarray()
        size = both.diagonal()
        either = size[:, None] + size[None, :] - both
        return np.where(either > 0, 1 - both / np.maximum(either, 1), 0.0)


class ClassifierScore(ScoreDifference):
    """S(u) = P(label | u) of any sequence classifier, such as one of regard or toxicity.

        metric.fairpair.phi={toxicity:{kind:classifier,model:unitary/toxic-bert,label:toxic}}

    A text longer than the classifier's context is scored by its beginning.

    Args:
        model: Hub id or directory of a sequence classifier with its tokenizer.
        label: The class whose probability is the score, by its name in the model's config.
        multi_label: Classes are independent (a sigmoid each); None asks the model's config.
        device: As for the model under audit.

    Raises:
        UserError: the model cannot be loaded, is no classifier or has no such label.
    """

    def __init__(
        self, model: str, label: str, multi_label: bool | None = None, device: str = "auto"
    ) -> None:
        from countergen_edit.models.classifiers import load_classifier_of_label

        self._label = label
        self._classifier = load_classifier_of_label(
            model, label, multi_label=multi_label, device=device
        )
        self._known: dict[str, float] = {}

    def scores(self, texts: Sequence[str]) -> Float64[np.ndarray, " text"]:
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        p = self._classifier.probabilities(new, cut=True)[self._label]
        self._known |= zip(new, p.tolist(), strict=True)
        return np.array([self._known[text] for text in texts], dtype=np.float64)


@dataclass(frozen=True)
class Pairwise:
    """B, both V, F and 2 B - V - V of one prompt; NaN where undefined, with the reason."""

    bias: float
    v_gp: float
    v_pg: float
    reason: str = ""
    """Why F is undefined; empty where it is defined."""

    @property
    def f(self) -> float:
        """B² / (V_gp V_pg); NaN where a V is 0 or unknown, never infinite."""
        return float("nan") if self.reason else self.bias**2 / (self.v_gp * self.v_pg)

    @property
    def energy(self) -> float:
        """2 B - V_gp - V_pg."""
        return 2 * self.bias - self.v_gp - self.v_pg


def pairwise(distances: Distances, n_perturbed: int) -> Pairwise:
    """The quantities of one prompt.

    Args:
        distances: Φ over the texts p(g_i(x)), followed by the texts g_j(p(x)).
        n_perturbed: The number of texts p(g_i(x)).
    """
    n, m = n_perturbed, len(distances) - n_perturbed
    pg, gp, between = distances[:n, :n], distances[n:, n:], distances[:n, n:]
    v_pg = float(pg.sum() / (n * (n - 1))) if n > 1 else float("nan")
    v_gp = float(gp.sum() / (m * (m - 1))) if m > 1 else float("nan")
    bias = float(between.mean()) if n and m else float("nan")
    reason = ""
    if n < 2 or m < 2:
        reason = f"{min(n, m)} of the texts on one side are left: V needs two"
    elif v_gp == 0 or v_pg == 0:
        reason = "V = 0: all texts of one side are alike"
    return Pairwise(bias, v_gp, v_pg, reason)


def in_folds(phi: Phi, texts: Sequence[str], n_perturbed: int, folds: int) -> Pairwise:
    """The quantities between k folds of each side instead of between texts (Figure 4).

    Text i of a side is in fold i modulo k; a side with fewer than k texts has a fold for each.
    """
    n, m = n_perturbed, len(texts) - n_perturbed
    if not n or not m:
        return pairwise(np.zeros((n + m, n + m)), n)
    k_pg, k_gp = min(folds, n), min(folds, m)
    fold = np.concatenate([np.arange(n) % k_pg, k_pg + np.arange(m) % k_gp])
    return pairwise(phi.distances(phi.pool(phi.represent(texts), fold)), k_pg)


def permuted_energies(
    distances: Distances, n_perturbed: int, permutations: int, seed: int, *unit: object
) -> Float64[np.ndarray, " permutation_plus_one"]:
    """2 B - V_gp - V_pg under permuted labels of one prompt; the first value is the observed one.

    All three are quadratic forms in the labels, so the permutations are one matrix product.
    """
    total = len(distances)
    n, m = n_perturbed, total - n_perturbed
    rng = generator(seed, "permutations", *unit)
    labels = np.zeros((permutations + 1, total))
    labels[0, :n] = 1
    labels[1:] = rng.permuted(np.broadcast_to(labels[0], (permutations, total)), axis=1)
    rows = labels @ distances
    pg = np.einsum("ij,ij->i", rows, labels)
    between = rows.sum(axis=1) - pg
    gp = distances.sum() - pg - 2 * between
    energies: Float64[np.ndarray, " permutation_plus_one"] = (
        2 * between / (n * m) - pg / (n * (n - 1)) - gp / (m * (m - 1))
    )
    return energies


def p_value(statistics: Float64[np.ndarray, " permutation_plus_one"]) -> float:
    """Share of label permutations that reach the observed value, itself included.

    Counting the observed labelling keeps the test at its level (Phipson and Smyth 2010). Values
    within rounding error of the observed one count as reaching it.

    >>> p_value(np.array([3.0, 1.0, 2.0, 3.0]))
    0.5
    """
    observed = statistics[0]
    tolerance = 1e-12 * max(1.0, abs(float(observed)))
    return float(np.mean(statistics >= observed - tolerance))


QUANTITIES = ("f", "bias", "v_gp", "v_pg", "energy")


@dataclass(frozen=True)
class PhiResult:
    """The quantities of one Φ over the prompts of one model and edit."""

    prompts: tuple[Pairwise, ...]
    energies: Float64[np.ndarray, "prompt permutation_plus_one"]
    """2 B - V - V under permutations; rows of prompts without a test are NaN."""

    def values(self, quantity: str) -> Float64[np.ndarray, " prompt"]:
        """One of `QUANTITIES` for every prompt."""
        return np.array([getattr(p, quantity) for p in self.prompts], dtype=np.float64)

    @property
    def prompt_p(self) -> Float64[np.ndarray, " prompt"]:
        """Permutation p-values, adjusted over the prompts; NaN where there is no test."""
        tested = np.isfinite(self.energies[:, 0])
        p = np.full(len(tested), np.nan)
        p[tested] = adjusted([p_value(row) for row in self.energies[tested]])
        return p

    def pooled_p(self, prompts: slice = slice(None)) -> float:
        """p of the mean of 2 B - V - V over prompts; NaN where no prompt has a test."""
        energies = self.energies[prompts]
        tested = energies[np.isfinite(energies[:, 0])]
        return p_value(tested.mean(axis=0)) if len(tested) else float("nan")

    @property
    def t_p(self) -> dict[str, float | None]:
        """Paired t-tests over prompts of B against V_pg, as the paper's, and against V_gp."""
        values: dict[str, float | None] = {}
        for side in ("v_pg", "v_gp"):
            pairs = np.array([self.values("bias"), self.values(side)])
            pairs = pairs[:, np.isfinite(pairs).all(axis=0)]
            spread = np.ptp(pairs[0] - pairs[1]) if pairs.size else 0.0
            values[f"t_p_{side}"] = float(ttest_rel(*pairs).pvalue) if spread > 0 else None
        return values


def evaluate(phi: Phi, sampled: Sequence[Sampled], permutations: int, seed: int) -> PhiResult:
    """All quantities of one Φ over sampled prompts."""
    phi.prepare([text for s in sampled for text in s.texts])
    name = phi.name
    quantities, energies = [], np.full((len(sampled), permutations + 1), np.nan)
    for k, s in enumerate(sampled):
        distances = phi.distances(phi.represent(s.texts))
        n = len(s.p_g_x)
        quantities.append(pairwise(distances, n))
        if n > 1 and len(distances) - n > 1:
            energies[k] = permuted_energies(distances, n, permutations, seed, name, s.prompt.source)
    return PhiResult(tuple(quantities), energies)


def of_first_texts(phi: Phi, sampled: Sequence[Sampled], size: int) -> list[Pairwise]:
    """Every prompt's quantities from the first `size` texts of each side (Figure 3)."""
    quantities = []
    for s in sampled:
        n = len(s.p_g_x)
        represented = phi.represent([*s.texts[:n][:size], *s.texts[n:][:size]])
        quantities.append(pairwise(phi.distances(represented), min(n, size)))
    return quantities
