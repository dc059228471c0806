"""Bias against sampling variability, from the matrix of Φ over two sets of texts (FairPair, 2).

    B    = 1/(n m) Σ_i Σ_j Φ(p(g_i(x)), g_j(p(x)))
    V_pg = 2/(n (n-1)) Σ_{i<j} Φ(p(g_i(x)), p(g_j(x))),  V_gp likewise
    F    = B² / (V_gp V_pg)

n and m differ where the filters left some perturbations out. 2 B - V_gp - V_pg is the unbiased
estimate of an energy distance (Székely and Rizzo 2013): its mean is 0 without bias, whatever the
variability, while F exceeds 1 by chance as often as not.

**What is exchangeable.** Without bias, and with a p that leaves no traces, the n texts p(g_i(x))
and the m texts g_j(p(x)) of one prompt are independent draws from one distribution: every way of
calling n of them "perturbed" is as likely as the one observed. So labels are permuted within a
prompt, never across prompts, and for the pooled test in all prompts at once and independently.
A perturber that leaves traces (a "he" overlooked), or a filter that passes some kinds of
perturbed text more often than others, is found by the test as well: it is a difference too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from countergen_edit.core.seeds import generator
from countergen_edit.metrics.fairpair.phi import Distances, Phi


@dataclass(frozen=True)
class Pairwise:
    """B, both V, F and 2B - V - V of one prompt; NaN where undefined, with the reason."""

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
        n_perturbed: How many of the texts are p(g_i(x)).
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
    """The same between k folds of each side instead of between texts.

    Text i of a side goes into fold i modulo k. A side with fewer than k texts has as many folds
    as texts.
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
