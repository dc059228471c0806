"""How a preserving erasure does on contexts, and people, that it was not fitted on.

Comes in: rows by context. Goes out: of every choice of rank, shrinkage and strength, for each fold,
a sum of three shares, each of a sum of squares:

    of the group differences that are to go, what is left
  + of the group differences that are to stay, what is changed
  + of the variance of all else (the background, or without one all rows), what is changed

Without the third nothing speaks for what the map does to everything else, and a rank that rewrites
half of the space wins by what it erases. On a real model (SmolLM2, layer 20) a map that changes a
share s of the background costs natural text about s nats a token, from s = 0.007 to 0.1, in plain
Euclidean squares. Where the people of rows are known, a fold has other people too: what is only
these people's is no group difference, and would be erased as if it were. All ranks come of one
factorisation: the leading blocks of a Cholesky factor are the factors of the leading blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from scipy.linalg import solve_triangular

from countergen_edit.erasers.demands import Contexts, Demands
from countergen_edit.erasers.labelled import as_numpy
from countergen_edit.erasers.solvers.oblique import Frame, Metric
from countergen_edit.errors import UserError
from countergen_edit.seeds import generator

Choice = tuple[int | None, float, float | None]
"""Rank (None for all), shrinkage and strength (None for infinity)."""
FAMILIES = 5
"""From so many on, families are left out whole. On the testbed, fitted on five and asked about
others, that takes more directions and leaves less; with three, two are too few to fit on."""
ALMOST = 1e-12
"""Where what must go is what must stay, a score is to be huge, not infinite."""


@dataclass(frozen=True)
class Fold:
    """What is fitted on, and Σ v vᵀ over the group differences held out."""

    demands: Demands
    erase: Float[np.ndarray, "d d"]
    keep: Float[np.ndarray, "d d"]


def folds(
    contexts: Contexts, people: Any, n_folds: int, seed: int, families: Any = None
) -> list[Fold]:
    """Folds of contexts, and of people where every group has two in each; [] below 3 contexts.

    Where `FAMILIES` or more are to be erased, a fold leaves out whole families.

    Raises:
        UserError: `people` or `families` is not one id a row.
    """
    rng = generator(seed, "folds of contexts")
    sets = [rng.permutation(contexts.numbers(kept=kept)) for kept in (False, True)]
    if len(sets[0]) < 3:
        return []
    by_family = _families(contexts, families, sets[0])
    n_folds = min(n_folds, len(by_family))
    erased = [np.concatenate(some) for some in _dealt(by_family, n_folds)]
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
) -> list[Int[np.ndarray, " some"]]:
    """Contexts that are left out together: a family, or each by itself where these are few."""
    alone = list(numbers[:, None])
    if families is None:
        return alone
    ids = _ids(families, contexts, "families")
    _, first = np.unique(contexts.context, return_index=True)
    own = ids[first[numbers]]
    together = [numbers[own == family] for family in np.unique(own)]
    return together if len(together) >= FAMILIES else alone


def _dealt(
    parts: Sequence[Int[np.ndarray, " some"]], n_folds: int
) -> list[list[Int[np.ndarray, " some"]]]:
    """Parts in as many folds, in their order."""
    return [[parts[i] for i in some] for some in np.array_split(np.arange(len(parts)), n_folds)]


def _ids(values: Any, contexts: Contexts, name: str) -> np.ndarray:
    """One id a row.

    Raises:
        UserError: there are more or fewer.
    """
    ids = np.asarray(as_numpy(values))
    if ids.shape != contexts.codes.shape:
        raise UserError(
            f"{name} has shape {ids.shape} for {len(contexts.codes)} rows: give one id to each row"
        )
    return ids


def _folds_of_people(contexts: Contexts, people: Any, n_folds: int, seed: int) -> np.ndarray | None:
    if people is None:
        return None
    ids = _ids(people, contexts, "people")
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
    """The sum of the three shares, of each choice in each fold.

    `others` is the covariance of all else. Shares are of the mean over folds, of which one with few
    people may hold next to nothing.
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

    With M = L G⁻¹ K R, L = Σ^(1/2) A and R = [A U]ᵀ Σ^(-1/2), all is said by matrices no larger
    than the demands are many.
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
    """The sum over each leading block, the empty one first."""
    return np.append(0.0, np.diag(matrix.cumsum(axis=0).cumsum(axis=1)))
