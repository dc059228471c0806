"""Constraints of a preserving erasure, its closed form where Σ is diagonal, and held-out scores.

For each context with group means μ_cg and their mean μ_c, of rows centred on the balanced mean:

    erase c:  A gets  μ_cg - μ_c    for every group g
    keep c:   B gets  μ_cg - μ_c,   and  μ_c

More than `most_kept(d)` contexts to keep are pooled: B gets the means of these columns over each
family, as more columns would leave little room for what is to be erased.

A column of B has the weight of its share of all rows to keep. The problem is

    min over M of  E‖M x‖² + λ Σ_b w_b ‖M b‖²   subject to   M A = A

where λ = None stands for infinity, M B = 0. With a tilde for whitening by Σ^(-1/2), B̃ W^(1/2) =
U s Vᵀ and D = (I + λ B̃ W B̃ᵀ)^(-1/2) = I - U f Uᵀ for f = 1 - (1 + λ s²)^(-1/2):

    M = Σ^(1/2) Ã (D Ã)⁺ D Σ^(-1/2)

Rank and shrinkage are selected by the sum of three shares of squares in held-out contexts: the
group difference left where it is to be erased, its change where it is to be kept, and the change of
the background (of all rows without one). On SmolLM2, layer 20, changing a share s of the background
costs about s nats per token of natural text. All ranks follow from one Cholesky factorisation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.linalg import solve_triangular

from countergen_edit.core.errors import UserError, unknown
from countergen_edit.core.seeds import generator
from countergen_edit.erasers.labelled import LabelledRows, as_numpy, read_per_row
from countergen_edit.erasers.numerics import Square, thin_svd, triangular

Choice = tuple[int | None, float]
"""Rank (None for all) and shrinkage."""
_FOLDS = 5
FAMILIES = 5
"""Minimum number of families to erase from which folds leave out whole families."""
TOLERANCE, KEEP_TOLERANCE = 1e-6, 1e-10
"""Directions below this share of the largest whitened singular value are noise."""
LEAST_KEPT, KEPT_SHARE = 48, 1 / 6
"""Contexts that are kept one by one: at most 48 or a sixth of the dimensions, whichever is more.
The testbed's 128 dimensions have room for its 43 and a rank of 8. After block 20 of SmolLM2, with
407 contexts to keep, rank 16 on means of two families leaves 49 % of the squared difference and
costs 0.08 of agreement on validation data; on 96 random contexts 52 % and 0.14.
"""
ALMOST = 1e-12
"""Keeps scores finite where demands conflict."""


@dataclass(frozen=True)
class Demands:
    """Columns to erase, columns to keep, and the weights of the latter."""

    erase: Float[np.ndarray, "d a"]
    keep: Float[np.ndarray, "d b"]
    keep_weight: Float[np.ndarray, " b"]

    @cached_property
    def compact(self) -> tuple[Float[np.ndarray, "d a"], Float[np.ndarray, "d b"]]:
        """A and B W^(1/2) in at most d columns with the same products A Aᵀ and B W Bᵀ."""
        return triangular(self.erase), triangular(self.keep * np.sqrt(self.keep_weight))


@dataclass(frozen=True)
class Contexts:
    """Rows by context, centred on the balanced mean, with their group codes."""

    X: Float[np.ndarray, "row d"]
    codes: Int[np.ndarray, " row"]
    context: Int[np.ndarray, " row"]
    is_kept: Bool[np.ndarray, " context"]
    pool: Int[np.ndarray, " context"]
    """Contexts to keep with the same number are kept by their means."""

    def __getitem__(self, mask: Bool[np.ndarray, " row"]) -> Contexts:
        return replace(self, X=self.X[mask], codes=self.codes[mask], context=self.context[mask])

    def by_context(self) -> Iterable[tuple[int, list[Float[np.ndarray, "member d"]]]]:
        """Each context with the rows of each group."""
        order = np.argsort(self.context, kind="stable")
        numbers, first = np.unique(self.context[order], return_index=True)
        for number, here in zip(numbers, np.split(order, first[1:]), strict=False):
            codes = self.codes[here]
            yield int(number), [self.X[here[codes == code]] for code in np.unique(codes)]

    def demands(self) -> Demands:
        """The demands, without contexts to erase of one group; pools use those with most groups."""
        erase, keep, weight = list[np.ndarray](), list[np.ndarray](), list[int]()
        pools: dict[int, list[tuple[np.ndarray, list[int]]]] = {}
        for number, groups in self.by_context():
            means = np.stack([rows.mean(axis=0) for rows in groups])
            centre = means.mean(axis=0)
            if self.is_kept[number]:
                sizes = [len(rows) for rows in groups]
                columns = np.vstack([means - centre, centre])
                pools.setdefault(int(self.pool[number]), []).append((columns, [*sizes, sum(sizes)]))
            elif len(groups) > 1:
                erase += [*(means - centre)]
        for members in pools.values():
            most = max(len(columns) for columns, _ in members)
            whole = [member for member in members if len(member[0]) == most]
            keep += [*np.mean([columns for columns, _ in whole], axis=0)]
            weight += [*np.sum([sizes for _, sizes in whole], axis=0)]
        d = self.X.shape[1]
        A, B = (np.stack(v, axis=1) if v else np.zeros((d, 0)) for v in (erase, keep))
        share = np.array(weight, dtype=float) / max(int(self.is_kept[self.context].sum()), 1)
        return Demands(A, B, share)

    def differences(self, *, kept: bool, unbiased: bool) -> Square:
        """Σ (μ_cg - μ_c)(μ_cg - μ_c)ᵀ over the contexts to keep, or over those to erase.

        `unbiased` subtracts the part due to the sampling of people, and skips groups of one row.
        """
        columns, noise = ([np.zeros((1, self.X.shape[1]))] for _ in range(2))
        for number, groups in self.by_context():
            few = len(groups) < 2 or (unbiased and min(map(len, groups)) < 2)
            if self.is_kept[number] != kept or few:
                continue
            means = np.stack([rows.mean(axis=0) for rows in groups])
            columns.append(means - means.mean(axis=0))
            if unbiased:
                share = 1.0 - 1.0 / len(groups)
                noise += [
                    (rows - mean) * np.sqrt(share / (len(rows) * (len(rows) - 1)))
                    for rows, mean in zip(groups, means, strict=True)
                ]
        seen, chance = np.vstack(columns), np.vstack(noise)
        return np.asarray(seen.T @ seen - chance.T @ chance)


def most_kept(d: int) -> int:
    """The number of contexts that are kept one by one, at most."""
    return max(LEAST_KEPT, int(KEPT_SHARE * d))


def read_contexts(
    rows: LabelledRows, contexts: Any, keep: Any, families: Any = None, most: int | None = None
) -> Contexts:
    """Group rows by context; `keep` holds ids, or a boolean per row.

    More than `most` contexts to keep are pooled by family; None pools none. `UserError` for an
    unknown id, a context both kept and erased or with rows of one group, or nothing to erase.
    """
    n = len(rows.codes)
    ids = np.zeros(n, int) if contexts is None else read_per_row(contexts, "contexts", n)
    names, context = np.unique(ids, return_inverse=True)
    is_kept = _is_kept(names, context, keep)
    if is_kept.all():
        raise UserError(f"all {len(names)} contexts are to be kept: leave at least one to erase")
    c = len(rows.classes)
    there = np.bincount(context * c + rows.codes, minlength=len(names) * c).reshape(-1, c) > 0
    alone = np.flatnonzero(~is_kept & (there.sum(axis=1) < 2))
    if len(alone):
        raise UserError(
            f"context {str(names[alone[0]])!r} has rows of group "
            f"{rows.classes[there[alone[0]]][0]!s} only: drop it, keep it, or add the other groups"
        )
    pool = np.arange(len(names))
    if most is not None and is_kept.sum() > most:
        pool = _family_of(families, context)
    return Contexts(rows.X - rows.balanced_mean, rows.codes, context, is_kept, pool)


def _family_of(families: Any, context: Int[np.ndarray, " row"]) -> Int[np.ndarray, " context"]:
    """The family of each context; without families all are of one."""
    n, (_, first) = len(context), np.unique(context, return_index=True)
    ids = np.zeros(n) if families is None else read_per_row(families, "families", n)
    return np.unique(ids[first], return_inverse=True)[1]


def _is_kept(names: np.ndarray, context: np.ndarray, keep: Any) -> Bool[np.ndarray, " context"]:
    keep = np.asarray(as_numpy(keep))
    if keep.dtype != bool:
        for name in keep.ravel():
            if name not in names:
                raise unknown("context to keep", name, names)
        return np.isin(names, keep)
    share = np.bincount(context, read_per_row(keep, "keep", len(context))) / np.bincount(context)
    torn = np.flatnonzero((share > 0) & (share < 1))
    if len(torn):
        raise UserError(f"context {str(names[torn[0]])!r} is both to be kept and erased: split it")
    return np.asarray(share == 1)


@dataclass(frozen=True)
class Frame:
    """Demands whitened by Σ at one amount of shrinkage."""

    sigma: Float[np.ndarray, " r"]
    """Standard deviations."""
    whiten: Float[np.ndarray, " r"]
    """Their inverses, 0 where nothing varies."""
    A: Float[np.ndarray, "r a"]
    """Orthonormal basis of the directions to erase, strongest first."""
    U: Float[np.ndarray, "r u"]
    """The same of the directions to keep."""
    size: Float[np.ndarray, " u"]
    """Singular values s of U."""

    def gain(self, strength: float | None) -> Float[np.ndarray, " u"]:
        """f: the share of each direction to keep that M does not read."""
        if strength is None:
            return np.ones(len(self.size))
        return np.asarray(1.0 - 1.0 / np.sqrt(1.0 + strength * self.size**2))

    def factors(
        self, rank: int | None, strength: float | None
    ) -> tuple[Float[np.ndarray, "r k"], Float[np.ndarray, "k r"]]:
        """Factors L and R of M = L R, with at most `rank` directions."""
        A, U, f = self.A[:, :rank], self.U, self.gain(strength)[:, None]
        axes, size, turned = thin_svd(self._outside(rank, strength))
        sure = size > 1e-15 * size.max(initial=0.0)
        inverse = (turned[sure].T / size[sure]) @ axes[:, sure].T
        inverse -= ((inverse @ U) * f.T) @ U.T
        return self.sigma[:, None] * A, inverse * self.whiten

    def angle(self, rank: int | None) -> float:
        """Smallest angle between directions to erase and to keep, in radians."""
        sines = thin_svd(self._outside(rank, None))[1]
        return float(np.arcsin(np.clip(sines.min(initial=1.0), 0.0, 1.0)))

    def _outside(self, rank: int | None, strength: float | None) -> Float[np.ndarray, "r k"]:
        """D Ã."""
        A, U = self.A[:, :rank], self.U
        outside = A - U @ (self.gain(strength)[:, None] * (U.T @ A))
        if strength is None:  # again, so that the directions are kept to rounding
            outside -= U @ (U.T @ outside)
        return np.asarray(outside)


def whitened(variances: Float[np.ndarray, " r"], d: int, demands: Demands, amount: float) -> Frame:
    """Demands under variances that are shrunk by `amount` (0 to 1) towards a sphere."""
    sphere = float(variances.sum()) / d
    sigma = np.sqrt((1.0 - amount) * variances + amount * sphere)
    # A direction without variance cannot carry a demand: rounding must not whiten it to one.
    varies = variances > variances.max(initial=0.0) * 1e-13
    whiten = np.where(varies, 1.0 / np.where(varies, sigma, 1.0), 0.0)
    erase, keep = (whiten[:, None] * columns for columns in demands.compact)
    A, _ = _span(erase, TOLERANCE)
    return Frame(sigma, whiten, A, *_span(keep, KEEP_TOLERANCE))


def _span(
    vectors: Float[np.ndarray, "r a"], tolerance: float
) -> tuple[Float[np.ndarray, "r k"], Float[np.ndarray, " k"]]:
    """Orthonormal basis of columns without noise, and its singular values."""
    left, size, _ = thin_svd(vectors)
    signal = size > tolerance * size.max(initial=0.0)
    return np.asarray(left[:, signal]), size[signal]


@dataclass(frozen=True)
class ContextFold:
    """Training demands, and Σ v vᵀ over held-out differences to erase and to keep."""

    demands: Demands
    erase: Square
    keep: Square


def folds(contexts: Contexts, people: Any = None, families: Any = None) -> list[ContextFold]:
    """Folds over contexts, and over people if every group has two per fold; [] below 3 contexts."""
    rng = generator(0, "folds of contexts")
    erase, keep = (
        rng.permutation(np.flatnonzero(contexts.is_kept == kept)) for kept in (False, True)
    )
    if len(erase) < 3:
        return []
    together = list(erase[:, None])  # contexts that are left out together
    if families is not None:
        family = _family_of(families, contexts.context)[erase]
        if len(np.unique(family)) >= FAMILIES:
            together = [erase[family == code] for code in np.unique(family)]
    n = min(_FOLDS, len(together))
    parts = np.array_split(np.arange(len(together)), n)
    left_out = [np.concatenate([together[j] for j in part]) for part in parts]
    who = _folds_of_people(contexts, people, n)
    splits = []
    for i, pair in enumerate(zip(left_out, np.array_split(keep, n), strict=True)):
        out = np.isin(contexts.context, np.concatenate(pair))
        train, test = (~out, out) if who is None else (~out & (who != i), out & (who == i))
        seen = contexts[test]
        moments = (seen.differences(kept=kept, unbiased=who is not None) for kept in (False, True))
        splits.append(ContextFold(contexts[train].demands(), *moments))
    return splits


def _folds_of_people(contexts: Contexts, people: Any, n: int) -> Int[np.ndarray, " row"] | None:
    """The fold of each row's person; None if a group has fewer than two people per fold."""
    if people is None:
        return None
    ids = read_per_row(people, "people", len(contexts.codes))
    _, first, person = np.unique(ids, return_index=True, return_inverse=True)
    group, rng = contexts.codes[first], generator(0, "folds of people")
    fold = np.zeros_like(first)
    for code in np.unique(group):
        members = rng.permutation(np.flatnonzero(group == code))
        if len(members) < 2 * n:
            return None
        fold[members] = np.arange(len(members)) % n
    return fold[person]


def scores(
    parts: Sequence[ContextFold],
    frame_of: Callable[[Demands, float], Frame],
    background: Square,
    ranks: Sequence[int | None],
    amounts: Iterable[float],
    strength: float | None,
) -> dict[Choice, Float[np.ndarray, " fold"]]:
    """The score of each choice in each fold; `background` is a covariance.

    Sums are divided by their means over folds, as one with few people may be close to zero; sums
    with a mean that is not positive are left out.
    """
    means = [np.mean([np.trace(fold.erase) for fold in parts])]
    means += [np.mean([np.trace(fold.keep) for fold in parts]), np.trace(background)]
    weights = np.array([1.0 / float(mean) if mean > 0.0 else 0.0 for mean in means])
    by_choice: dict[Choice, list[float]] = {}
    for amount in amounts:
        for fold in parts:
            frame = frame_of(fold.demands, amount)
            sums = weights @ np.array(_squares(frame, background, fold, strength))
            for rank in ranks:
                at = len(sums) - 1 if rank is None else min(rank, len(sums) - 1)
                by_choice.setdefault((rank, amount), []).append(float(sums[at]))
    return {choice: np.array(values) for choice, values in by_choice.items()}


def _squares(
    frame: Frame, background: Square, fold: ContextFold, strength: float | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """tr (I-M) C (I-M)ᵀ of differences to erase, tr M C Mᵀ of the other two, for ranks 0, 1, …

    With M = L G⁻¹ K R, L = Σ^(1/2) A and R = [A U]ᵀ Σ^(-1/2).
    """
    A, U = frame.A, frame.U
    left = frame.sigma[:, None] * A
    read = np.hstack([A, U]).T * frame.whiten
    across = U.T @ A
    unread = np.minimum(1.0 - (1.0 - frame.gain(strength)) ** 2, 1.0 - ALMOST)
    K = np.hstack([np.eye(A.shape[1]), -across.T * unread])
    factor = np.linalg.cholesky(np.eye(A.shape[1]) - (across.T * unread) @ across)
    N = _between(factor, left.T @ left)

    def over_ranks(half: np.ndarray) -> np.ndarray:
        blocks = (_between(factor, K @ (half @ read.T) @ K.T) * N).cumsum(axis=0).cumsum(axis=1)
        return np.append(0.0, np.diag(blocks))

    erase = read @ fold.erase
    once = np.append(0.0, np.cumsum(np.diag(_between(factor, K @ (erase @ left)))))
    remaining = float(np.trace(fold.erase)) - 2 * once + over_ranks(erase)
    return remaining, over_ranks(read @ fold.keep), over_ranks(read @ background)


def _between(factor: Square, matrix: Square) -> Square:
    """F⁻¹ C F⁻ᵀ."""
    half = solve_triangular(factor, matrix, lower=True, check_finite=False)
    return np.asarray(solve_triangular(factor, half.T, lower=True, check_finite=False).T)
