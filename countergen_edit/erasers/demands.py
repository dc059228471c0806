"""The constraints of a preserving erasure: which vectors go to zero, and which stay.

Comes in: rows with a context (a template, say) each, and which contexts are to be kept. Goes out:
vectors. For each context with group means μ_cg and their mean μ_c, of rows centred on the mean of
all groups:

    erase c:  A gets  μ_cg - μ_c    for every group g
    keep c:   B gets  μ_cg - μ_c,   and  μ_c

A vector of B weighs as much as its rows are of all rows to be kept. So Σ_b w_b ‖M b‖² is what the
map changes in the mean square of these rows, but for what people of one group differ by.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from countergen_edit.erasers.labelled import LabelledRows, as_numpy
from countergen_edit.errors import UserError, unknown


@dataclass(frozen=True)
class Demands:
    """Vectors as columns."""

    erase: Float[np.ndarray, "d a"]
    keep: Float[np.ndarray, "d b"]
    keep_weight: Float[np.ndarray, " b"]


@dataclass(frozen=True)
class Contexts:
    """Rows by context, centred on the mean of all groups, in any coordinates."""

    X: Float[np.ndarray, "row d"]
    codes: Int[np.ndarray, " row"]
    """The group of each row."""
    context: Int[np.ndarray, " row"]
    is_kept: Bool[np.ndarray, " context"]

    def __getitem__(self, some: Bool[np.ndarray, " row"]) -> Contexts:
        """Some of the rows."""
        return replace(self, X=self.X[some], codes=self.codes[some], context=self.context[some])

    def numbers(self, *, kept: bool) -> Int[np.ndarray, " some"]:
        """Of the contexts that are to be kept, or of the others."""
        return np.flatnonzero(self.is_kept == kept)

    def cells(self) -> list[tuple[int, list[Float[np.ndarray, "some d"]]]]:
        """Of each context the rows of each group it has."""
        order = np.lexsort((self.codes, self.context))
        cell = np.stack([self.context, self.codes])[:, order]
        starts = np.flatnonzero((np.diff(cell, axis=1) != 0).any(axis=0)) + 1
        by_context: dict[int, list[np.ndarray]] = {}
        for rows in np.split(order, starts) if len(order) else []:
            by_context.setdefault(int(self.context[rows[0]]), []).append(self.X[rows])
        return list(by_context.items())

    def demands(self) -> Demands:
        """What the rows demand; a context to erase with rows of one group demands nothing."""
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

        Unbiased, what the few people of each mean add to it is taken off, and contexts in which a
        group has one row are left out.
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
    """Rows by context.

    Args:
        rows: the data.
        contexts: an id per row; None for one context that is to be erased.
        keep: the ids to be kept, or a boolean per row.

    Raises:
        UserError: an unknown id, a context that is both, one that is to be erased but has rows of
            one group only, or nothing to erase.
    """
    n = len(rows.codes)
    ids = np.zeros(n, dtype=int) if contexts is None else np.asarray(as_numpy(contexts))
    if ids.shape != (n,):
        raise UserError(f"contexts has shape {ids.shape} for {n} rows: give one id to each row")
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
    if keep.shape != context.shape:
        raise UserError(
            f"keep has {keep.size} booleans for {len(context)} rows: give one to each row"
        )
    share = np.bincount(context, keep) / np.bincount(context)
    torn = np.flatnonzero((share > 0) & (share < 1))
    if len(torn):
        raise UserError(
            f"context {str(names[torn[0]])!r} is both to be kept and erased: split it in two"
        )
    return np.asarray(share == 1)
