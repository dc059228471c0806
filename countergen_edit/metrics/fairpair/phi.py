"""Φ, how far two texts differ, and FairPair's quantities made from it (section 2 of the paper).

    B    = 1/(n m) Σ_i Σ_j Φ(p(g_i(x)), g_j(p(x)))
    V_pg = 2/(n (n-1)) Σ_{i<j} Φ(p(g_i(x)), p(g_j(x))),  V_gp likewise
    F    = B² / (V_gp V_pg)

2 B - V_gp - V_pg is the unbiased estimate of an energy distance (Székely and Rizzo 2013): its mean
is 0 without bias, while F exceeds 1 by chance as often as not. Without bias, the n texts p(g_i(x))
and the m ≥ n texts g_j(p(x)) of one prompt are draws from one distribution, so that labels are
permuted within each prompt. The test also finds traces that a perturber or a filter leaves.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from jaxtyping import Float64, Int
from scipy.stats import ttest_rel

from countergen_edit.core.registry import Registry
from countergen_edit.core.seeds import generator
from countergen_edit.data.fairpair import word_set
from countergen_edit.metrics.fairpair.continuations import Sampled
from countergen_edit.metrics.statistics import adjusted
from countergen_edit.models.classifiers import analyzer, load_classifier_of_label

Distances = Float64[np.ndarray, "text text"]
_Scores = Float64[np.ndarray, " text"]


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
        """Score many texts in one batch, so that `distances` is quick."""

    @abstractmethod
    def distances(self, texts: Sequence[str]) -> Distances:
        """Φ of every pair."""

    def of_folds(self, folds: Sequence[Sequence[str]]) -> Distances:
        """Φ of every pair of folds, whose words are those of all their texts."""
        return self.distances(["\n".join(texts) for texts in folds])


PHIS: Registry[type[Phi]] = Registry(
    "phi",
    "countergen_edit.phis",
    {
        "sentiment": f"{__name__}:Sentiment",
        "jaccard": f"{__name__}:Jaccard",
        "classifier": f"{__name__}:ClassifierScore",
    },
    Phi,
)
"""Every Φ by its name in config; a custom one enters with `@PHIS.register("mine")`."""


class ScoreDifference(Phi):
    """Φ(u, v) = |S(u) - S(v)| for a scorer S; S of a fold is the mean over its texts."""

    @abstractmethod
    def scores(self, texts: Sequence[str]) -> _Scores:
        """S of each text."""

    def prepare(self, texts: Sequence[str]) -> None:
        self.scores(texts)

    def distances(self, texts: Sequence[str]) -> Distances:
        return differences(self.scores(texts))

    def of_folds(self, folds: Sequence[Sequence[str]]) -> Distances:
        return differences(np.array([self.scores(texts).mean() for texts in folds]))


def differences(scores: _Scores) -> Distances:
    """|S(u) - S(v)| of every pair."""
    return np.asarray(np.abs(scores[:, None] - scores[None, :]))


class Sentiment(ScoreDifference):
    """VADER's compound sentiment (Hutto and Gilbert 2014), in [-1, 1]."""

    def scores(self, texts: Sequence[str]) -> _Scores:
        return np.array([_compound(text) for text in texts], dtype=np.float64)


@cache
def _compound(text: str) -> float:
    return float(analyzer().polarity_scores(text)["compound"])


class Jaccard(Phi):
    """Φ(u, v) = 1 - |u ∩ v| / |u ∪ v| on sets of words, 0 for two texts without words."""

    def distances(self, texts: Sequence[str]) -> Distances:
        sets = [word_set(text) for text in texts]
        column = {word: i for i, word in enumerate(frozenset[str]().union(*sets))}
        has = np.zeros((len(texts), len(column)))
        for row, words in zip(has, sets, strict=True):
            row[[column[word] for word in words]] = 1
        shared = has @ has.T
        size = shared.diagonal()
        union = size[:, None] + size[None, :] - shared
        return np.where(union > 0, 1 - shared / np.maximum(union, 1), 0.0)


class ClassifierScore(ScoreDifference):
    """S(u) = P(label | u) of any sequence classifier, such as one of regard or toxicity.

    A text longer than the classifier's context is scored by its beginning.

    Parameters
    ----------
    model : Hub id or directory of a sequence classifier with its tokenizer.
    label : The class whose probability is the score, by its name in the model's config.
    multi_label : Classes are independent (a sigmoid each); None asks the model's config.
    device : As for the model under audit.
    """

    def __init__(
        self, model: str, label: str, multi_label: bool | None = None, device: str = "auto"
    ) -> None:
        self._label = label
        self._scores: dict[str, float] = {}
        self._classifier = load_classifier_of_label(
            model, label, multi_label=multi_label, device=device
        )

    def scores(self, texts: Sequence[str]) -> _Scores:
        if new := [text for text in dict.fromkeys(texts) if text not in self._scores]:
            p = self._classifier.probabilities(new, cut=True)[self._label]
            self._scores |= zip(new, p.tolist(), strict=True)
        return np.array([self._scores[text] for text in texts], dtype=np.float64)


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
    """The quantities of one prompt, by Φ over `n_perturbed` texts p(g_i(x)), then g_j(p(x))."""
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


def in_folds(phi: Phi, sampled: Sampled, folds: int) -> Pairwise:
    """The quantities of a prompt between folds of each side's texts, dealt out in turn."""
    n, texts = len(sampled.p_g_x), sampled.texts
    pg, gp = ([t[i::folds] for i in range(min(folds, len(t)))] for t in (texts[:n], texts[n:]))
    return pairwise(phi.of_folds([*pg, *gp]), len(pg))


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
    return np.asarray(2 * between / (n * m) - pg / (n * (n - 1)) - gp / (m * (m - 1)))


def p_value(statistics: Float64[np.ndarray, " permutation_plus_one"]) -> float:
    """Share of label permutations that reach the observed value, itself included.

    Counting the observed labelling keeps the test at its level (Phipson and Smyth 2010).

    >>> p_value(np.array([3.0, 1.0, 2.0, 3.0]))
    0.5
    """
    observed = statistics[0]
    tolerance = 1e-12 * max(1.0, abs(float(observed)))  # of rounding
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
        """Permutation p-values, adjusted over the prompts; NaN without a test."""
        tested = np.isfinite(self.energies[:, 0])
        p = np.full(len(tested), np.nan)
        p[tested] = adjusted([p_value(row) for row in self.energies[tested]])
        return p

    def pooled_p(self, prompts: Int[np.ndarray, " _"] | slice = slice(None)) -> float:
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
    quantities = []
    energies = np.full((len(sampled), permutations + 1), np.nan)
    for s, row in zip(sampled, energies, strict=True):
        n = len(s.p_g_x)
        distances = phi.distances(s.texts)
        quantities.append(pairwise(distances, n))
        if n > 1 and len(distances) - n > 1:
            unit = phi.name, s.prompt.source
            row[:] = permuted_energies(distances, n, permutations, seed, *unit)
    return PhiResult(tuple(quantities), energies)
