"""Held-out scores by which a preserving eraser selects rank, shrinkage and strength.

The score of a fold is a sum of three shares of sums of squares:

    remaining group difference in held-out contexts to erase
  + change of group differences in held-out contexts to keep
  + change of the background (of all rows without one)

On SmolLM2, layer 20, a map that changes a share s of the background costs about s nats per token
of natural text. All ranks follow from one Cholesky factorisation, whose leading blocks factorise
the leading blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from scipy.linalg import solve_triangular

from countergen_edit.core.seeds import generator
from countergen_edit.erasers.demands import Contexts, Demands, Frame, Metric
from countergen_edit.erasers.labelled import read_per_row

Choice = tuple[int | None, float, float | None]
"""Rank (None for all), shrinkage and strength (None for infinity)."""
FAMILIES = 5
"""Minimum number of families to erase from which folds leave out whole families."""
ALMOST = 1e-12
"""Keeps scores finite where demands conflict."""


@dataclass(frozen=True)
class Fold:
    """Demands of the training rows, and Σ v vᵀ over held-out differences to erase and to keep."""

    demands: Demands
    erase: Float[np.ndarray, "d d"]
    keep: Float[np.ndarray, "d d"]


def folds(
    contexts: Contexts, people: Any, n_folds: int, seed: int, families: Any = None
) -> list[Fold]:
    """Folds over contexts, and over people if every group has two per fold; [] below 3 contexts."""
    rng = generator(seed, "folds of contexts")
    sets = [rng.permutation(contexts.numbers(kept=kept)) for kept in (False, True)]
    if len(sets[0]) < 3:
        return []
    by_family = _families(contexts, families, sets[0])
    n_folds = min(n_folds, len(by_family))
    erased = [np.concatenate(some) for some in _split(by_family, n_folds)]
    parts = [erased, np.array_split(sets[1], n_folds)]
    who = _folds_of_people(contexts, people, n_folds, seed)
    made = []
    for i, held_out in enumerate(np.concatenate(pair) for pair in zip(*parts, strict=True)):
        out = np.isin(contexts.context, held_out)
        train, test = (~out, out) if who is None else (~out & (who != i), out & (who == i))
        seen = contexts[test]
        moments = (seen.differences(kept=kept, unbiased=who is not None) for kept in (False, True))
        made.append(Fold(contexts[train].demands(), *moments))
    return made


def _families(
    contexts: Contexts, families: Any, numbers: Int[np.ndarray, " context"]
) -> list[Int[np.ndarray, " _"]]:
    """Contexts that are left out together."""
    alone = list(numbers[:, None])
    if families is None:
        return alone
    ids = read_per_row(families, "families", len(contexts.codes))
    _, first = np.unique(contexts.context, return_index=True)
    own = ids[first[numbers]]
    together = [numbers[own == family] for family in np.unique(own)]
    return together if len(together) >= FAMILIES else alone


def _split(
    parts: Sequence[Int[np.ndarray, " _"]], n_folds: int
) -> list[list[Int[np.ndarray, " _"]]]:
    """Divide parts into `n_folds` folds, in order."""
    return [[parts[i] for i in some] for some in np.array_split(np.arange(len(parts)), n_folds)]


def _folds_of_people(contexts: Contexts, people: Any, n_folds: int, seed: int) -> np.ndarray | None:
    if people is None:
        return None
    ids = read_per_row(people, "people", len(contexts.codes))
    names, first, person = np.unique(ids, return_index=True, return_inverse=True)
    group, rng = contexts.codes[first], generator(seed, "folds of people")
    fold = np.zeros(len(names), dtype=int)
    for code in np.unique(group):
        own = rng.permutation(np.flatnonzero(group == code))
        if len(own) < 2 * n_folds:
            return None
        fold[own] = np.arange(len(own)) % n_folds
    return np.asarray(fold[person])


def scores(
    parts: Sequence[Fold],
    metric: Metric,
    others: Float[np.ndarray, "d d"],
    ranks: Sequence[int | None],
    amounts: Iterable[float],
    strengths: Sequence[float | None],
) -> dict[Choice, Float[np.ndarray, " fold"]]:
    """The score of each choice in each fold; `others` is the covariance of all else.

    Sums are normalised by their means over folds, as one with few people may hold next to nothing.
    """
    differ = [[fold.erase for fold in parts], [fold.keep for fold in parts]]
    whole = [max(float(np.mean([np.trace(m) for m in of_fold])), 1e-300) for of_fold in differ]
    variance = max(float(np.trace(others)), 1e-300)
    found: dict[Choice, list[float]] = {}
    for amount in amounts:
        for fold in parts:
            frame = metric.frame(fold.demands, amount)
            of_strength = _squares(frame, others, fold, strengths)
            for strength, (left, changed, moved) in zip(strengths, of_strength, strict=True):
                sums = left / whole[0] + changed / whole[1] + moved / variance
                for rank in ranks:
                    at = frame.A.shape[1] if rank is None else min(rank, frame.A.shape[1])
                    found.setdefault((rank, amount, strength), []).append(float(sums[at]))
    return {choice: np.array(values) for choice, values in found.items()}


def _squares(
    frame: Frame,
    others: Float[np.ndarray, "r r"],
    fold: Fold,
    strengths: Sequence[float | None],
) -> Iterable[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """tr (I-M) C (I-M)ᵀ of what is erased, and tr M C Mᵀ of the rest, for ranks 0, 1, …

    With M = L G⁻¹ K R, L = Σ^(1/2) A and R = [A U]ᵀ Σ^(-1/2).
    """
    A, U = frame.A, frame.U
    left = frame.sigma[:, None] * A
    read = np.hstack([A, U]).T * frame.whiten
    erased, kept = read @ fold.erase, read @ fold.keep
    within = [erased @ read.T, kept @ read.T, read @ others @ read.T]
    onto, gram, across = erased @ left, left.T @ left, U.T @ A
    total = float(np.trace(fold.erase))
    for strength in strengths:
        taken = np.minimum(1.0 - (1.0 - frame.gain(strength)) ** 2, 1.0 - ALMOST)
        K = np.hstack([np.eye(A.shape[1]), -across.T * taken])
        factor = np.linalg.cholesky(np.eye(A.shape[1]) - (across.T * taken) @ across)
        N = _between(factor, gram)
        once = np.append(0.0, np.cumsum(np.diag(_between(factor, K @ onto))))
        twice = [_leading_sums(_between(factor, K @ C @ K.T) * N) for C in within]
        yield total - 2 * once + twice[0], twice[1], twice[2]


def _between(
    factor: Float[np.ndarray, "a a"], matrix: Float[np.ndarray, "a a"]
) -> Float[np.ndarray, "a a"]:
    """F⁻¹ C F⁻ᵀ."""
    half = solve_triangular(factor, matrix, lower=True, check_finite=False)
    return np.asarray(solve_triangular(factor, half.T, lower=True, check_finite=False).T)


def _leading_sums(matrix: Float[np.ndarray, "a a"]) -> Float[np.ndarray, " ranks"]:
    """Sums over the leading blocks, from the empty one on."""
    return np.append(0.0, np.diag(matrix.cumsum(axis=0).cumsum(axis=1)))
