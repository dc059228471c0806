"""One Φ over the prompts of one model and edit: B, V, F, the energy distance, and their tests.

Comes in: sampled prompts. Goes out: a `PhiResult`. Nothing is refused: where a prompt has too few
texts its figures are NaN, and it takes no part in a test.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from countergen_edit.metrics.fairpair.continuations import Sampled
from countergen_edit.metrics.fairpair.pairwise import (
    Pairwise,
    in_folds,
    p_value,
    pairwise,
    permuted_energies,
)
from countergen_edit.metrics.fairpair.phi import Phi
from countergen_edit.metrics.statistics import adjusted

QUANTITIES = ("f", "bias", "v_gp", "v_pg", "energy")


@dataclass(frozen=True)
class PhiResult:
    """One Φ of one model and edit."""

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

    @property
    def pooled_p(self) -> float:
        """Of the mean of 2 B - V - V over all prompts; NaN where no prompt has a test."""
        return self.pooled_over(slice(None))

    def pooled_over(self, prompts: slice) -> float:
        """The same of some prompts."""
        energies = self.energies[prompts]
        tested = energies[np.isfinite(energies[:, 0])]
        return p_value(tested.mean(axis=0)) if len(tested) else float("nan")

    @property
    def t_p(self) -> dict[str, float | None]:
        """Paired t-tests over prompts of B against V_pg, as the paper's, and against V_gp."""
        from scipy.stats import ttest_rel

        values: dict[str, float | None] = {}
        for side in ("v_pg", "v_gp"):
            pairs = np.array([self.values("bias"), self.values(side)])
            pairs = pairs[:, np.isfinite(pairs).all(axis=0)]
            # A difference that is the same everywhere has no spread to be tested against.
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


def between_folds(phi: Phi, sampled: Sequence[Sampled], folds: int) -> list[Pairwise]:
    """Every prompt's quantities between so many folds instead of between texts (Figure 4)."""
    return [in_folds(phi, s.texts, len(s.p_g_x), folds) for s in sampled]


def of_first_texts(phi: Phi, sampled: Sequence[Sampled], size: int) -> list[Pairwise]:
    """Every prompt's quantities from the first so many texts of each side (Figure 3)."""
    quantities = []
    for s in sampled:
        n = len(s.p_g_x)
        represented = phi.represent([*s.texts[:n][:size], *s.texts[n:][:size]])
        quantities.append(pairwise(phi.distances(represented), min(n, size)))
    return quantities
