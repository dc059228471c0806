"""Constraints of a preserving erasure, and its closed form where Σ is diagonal.

For each context with group means μ_cg and their mean μ_c, of rows centred on the balanced mean:

    erase c:  A gets  μ_cg - μ_c    for every group g
    keep c:   B gets  μ_cg - μ_c,   and  μ_c

A column of B has the weight of its share of all rows to keep. The problem is

    min over M of  E‖M x‖² + λ Σ_b w_b ‖M b‖²   subject to   M A = A

where λ = None stands for infinity, M B = 0. With a tilde for whitening by Σ^(-1/2), B̃ W^(1/2) =
U s Vᵀ and D = (I + λ B̃ W B̃ᵀ)^(-1/2) = I - U f Uᵀ for f = 1 - (1 + λ s²)^(-1/2):

    M = Σ^(1/2) Ã (D Ã)⁺ D Σ^(-1/2)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from countergen_edit.core.errors import UserError, unknown
from countergen_edit.erasers.labelled import LabelledRows, as_numpy, read_per_row
from countergen_edit.erasers.solvers.spectral import thin_svd


@dataclass(frozen=True)
class Demands:
    """Columns to erase, columns to keep and the weights of the latter."""

    erase: Float[np.ndarray, "d a"]
    keep: Float[np.ndarray, "d b"]
    keep_weight: Float[np.ndarray, " b"]


@dataclass(frozen=True)
class Contexts:
    """Rows by context, centred on the balanced mean, with the group code of each row."""

    X: Float[np.ndarray, "row d"]
    codes: Int[np.ndarray, " row"]
    context: Int[np.ndarray, " row"]
    is_kept: Bool[np.ndarray, " context"]

    def __getitem__(self, some: Bool[np.ndarray, " row"]) -> Contexts:
        return replace(self, X=self.X[some], codes=self.codes[some], context=self.context[some])

    def numbers(self, *, kept: bool) -> Int[np.ndarray, " some"]:
        """Numbers of the contexts to keep, or of those to erase."""
        return np.flatnonzero(self.is_kept == kept)

    def cells(self) -> list[tuple[int, list[Float[np.ndarray, "some d"]]]]:
        """The rows of each group, by context."""
        order = np.lexsort((self.codes, self.context))
        cell = np.stack([self.context, self.codes])[:, order]
        starts = np.flatnonzero((np.diff(cell, axis=1) != 0).any(axis=0)) + 1
        by_context: dict[int, list[np.ndarray]] = {}
        for rows in np.split(order, starts) if len(order) else []:
            by_context.setdefault(int(self.context[rows[0]]), []).append(self.X[rows])
        return list(by_context.items())

    def demands(self) -> Demands:
        """The demands of the rows; a context to erase with rows of one group demands nothing."""
        erase: list[np.ndarray] = []
        keep: list[np.ndarray] = []
        weight: list[int] = []
        for number, groups in self.cells():
            means = np.stack([rows.mean(axis=0) for rows in groups])
            centre = means.mean(axis=0)
            if self.is_kept[number]:
                keep += [*(means - centre), centre]
                sizes = [len(rows) for rows in groups]
                weight += [*sizes, sum(sizes)]
            elif len(groups) > 1:
                erase += [*(means - centre)]
        d = self.X.shape[1]
        A, B = (np.stack(v, axis=1) if v else np.zeros((d, 0)) for v in (erase, keep))
        share = np.array(weight, dtype=float) / max(int(self.is_kept[self.context].sum()), 1)
        return Demands(A, B, share)

    def differences(self, *, kept: bool, unbiased: bool) -> Float[np.ndarray, "d d"]:
        """Σ (μ_cg - μ_c)(μ_cg - μ_c)ᵀ over the contexts to keep, or over those to erase.

        `unbiased` subtracts what sampling of people adds, and skips groups of one row.
        """
        d = self.X.shape[1]
        columns, noise = [np.zeros((1, d))], [np.zeros((1, d))]
        for number, groups in self.cells():
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


def read_contexts(rows: LabelledRows, contexts: Any, keep: Any) -> Contexts:
    """Group rows by context; `keep` holds ids, or a boolean per row.

    Raises a `UserError` for an unknown id, a context both kept and erased or with rows of one
    group, or nothing to erase.
    """
    n = len(rows.codes)
    ids = np.zeros(n, int) if contexts is None else read_per_row(contexts, "contexts", n)
    names, context = np.unique(ids, return_inverse=True)
    is_kept = _kept(names, context, keep)
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
    return Contexts(rows.X - rows.balanced_mean, rows.codes, context, is_kept)


def _kept(names: np.ndarray, context: np.ndarray, keep: Any) -> Bool[np.ndarray, " context"]:
    keep = np.asarray(as_numpy(keep))
    if keep.dtype != bool:
        for name in keep.ravel():
            if name not in names:
                raise unknown("context to keep", name, names)
        return np.isin(names, keep)
    share = np.bincount(context, read_per_row(keep, "keep", len(context))) / np.bincount(context)
    torn = np.flatnonzero((share > 0) & (share < 1))
    if len(torn):
        raise UserError(
            f"context {str(names[torn[0]])!r} is both to be kept and erased: split it in two"
        )
    return np.asarray(share == 1)


@dataclass(frozen=True)
class Frame:
    """Demands whitened by Σ at one amount of shrinkage.

    Attributes
    ----------
    sigma, whiten : arrays of shape (r,)
        Standard deviations and their inverses, 0 where nothing varies.
    A : array of shape (r, a)
        Orthonormal basis of what is to be erased, strongest first.
    U, size : arrays of shape (r, u) and (u,)
        The same of what is to be kept, with singular values s.
    """

    sigma: Float[np.ndarray, " r"]
    whiten: Float[np.ndarray, " r"]
    A: Float[np.ndarray, "r a"]
    U: Float[np.ndarray, "r u"]
    size: Float[np.ndarray, " u"]

    def gain(self, strength: float | None) -> Float[np.ndarray, " u"]:
        """f: the share of each direction to keep that is removed from what M reads."""
        if strength is None:
            return np.ones(len(self.size))
        return np.asarray(1.0 - 1.0 / np.sqrt(1.0 + strength * self.size**2))

    def factors(
        self, rank: int | None, strength: float | None
    ) -> tuple[Float[np.ndarray, "r k"], Float[np.ndarray, "k r"]]:
        """Factors L and R of M = L R, with at most `rank` directions."""
        A, U, f = self.A[:, :rank], self.U, self.gain(strength)[:, None]
        rest = A - U @ (f * (U.T @ A))
        if strength is None:  # once more, so that what is kept is kept to rounding
            rest -= U @ (U.T @ rest)
        axes, size, turned = thin_svd(rest)
        sure = size > 1e-15 * size.max(initial=0.0)
        inverse = (turned[sure].T / size[sure]) @ axes[:, sure].T
        inverse -= ((inverse @ U) * f.T) @ U.T
        return self.sigma[:, None] * A, inverse * self.whiten

    def angle(self, rank: int | None) -> float:
        """Smallest angle between what is to be erased and what is to be kept, in radians."""
        rest = self.A[:, :rank] - self.U @ (self.U.T @ self.A[:, :rank])
        rest -= self.U @ (self.U.T @ rest)
        return float(np.arcsin(np.clip(thin_svd(rest)[1].min(initial=1.0), 0.0, 1.0)))


@dataclass(frozen=True)
class Metric:
    """Variances of Σ over `d` dimensions, and tolerances of singular values."""

    variances: Float[np.ndarray, " r"]
    d: int
    tolerance: float
    keep_tolerance: float

    def frame(self, demands: Demands, amount: float) -> Frame:
        """The demands under Σ shrunk by `amount`, from 0 to 1, towards a sphere."""
        sphere = float(self.variances.sum()) / self.d
        sigma = np.sqrt((1.0 - amount) * self.variances + amount * sphere)
        # A direction without variance cannot carry a demand: rounding must not whiten it to one.
        varies = self.variances > self.variances.max(initial=0.0) * 1e-13
        whiten = np.where(varies, 1.0 / np.where(varies, sigma, 1.0), 0.0)
        A, _ = _span(whiten[:, None] * demands.erase, self.tolerance)
        kept = whiten[:, None] * demands.keep * np.sqrt(demands.keep_weight)
        return Frame(sigma, whiten, A, *_span(kept, self.keep_tolerance))


def _span(
    vectors: Float[np.ndarray, "r a"], tolerance: float
) -> tuple[Float[np.ndarray, "r k"], Float[np.ndarray, " k"]]:
    """Orthonormal basis of the columns of `vectors` without noise, and its singular values."""
    left, size, _ = thin_svd(vectors)
    signal = size > max(tolerance, 1e-12) * size.max(initial=0.0)
    return np.asarray(left[:, signal]), size[signal]
