"""The constraints of a preserving erasure: which vectors go to zero, and which stay.

For each context (a template, say) with group means μ_cg and their mean μ_c:

    erase c:  A gets  μ_cg - μ_c             for every group g
    keep c:   B gets  μ_cg - μ_c,  and  μ_c - m   with m the mean over all groups
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from countergen_edit.erasers.labelled import LabelledRows, as_numpy
from countergen_edit.errors import UserError, unknown


@dataclass(frozen=True)
class Demands:
    """Vectors as columns, with the number of the context each comes from."""

    erase: Float[np.ndarray, "d a"]
    keep: Float[np.ndarray, "d b"]
    erase_context: np.ndarray
    keep_context: np.ndarray

    def without(self, contexts: np.ndarray) -> Demands:
        """Those of the other contexts."""
        a, b = (~np.isin(c, contexts) for c in (self.erase_context, self.keep_context))
        return Demands(
            self.erase[:, a], self.keep[:, b], self.erase_context[a], self.keep_context[b]
        )

    def only(self, contexts: np.ndarray) -> Demands:
        """Those of these contexts."""
        every = np.union1d(self.erase_context, self.keep_context)
        return self.without(np.setdiff1d(every, contexts))

    def along(self, basis: Float[np.ndarray, "d r"]) -> Demands:
        """The same vectors in the coordinates of an orthonormal basis that spans them."""
        return Demands(
            basis.T @ self.erase, basis.T @ self.keep, self.erase_context, self.keep_context
        )


def read_demands(rows: LabelledRows, contexts: Any, keep: Any) -> Demands:
    """Turn contexts and what is to be kept into vectors.

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
    erase: list[tuple[int, np.ndarray]] = []
    stay: list[tuple[int, np.ndarray]] = []
    overall = rows.balanced_mean
    for number, name in enumerate(names):
        here = np.flatnonzero(context == number)
        present = np.unique(rows.codes[here])
        means = np.stack([rows.X[here[rows.codes[here] == g]].mean(axis=0) for g in present])
        centre = means.mean(axis=0)
        if is_kept[number]:
            stay += [(number, v) for v in [*(means - centre), centre - overall]]
        elif len(present) > 1:
            erase += [(number, v) for v in means - centre]
        else:
            raise UserError(
                f"context {str(name)!r} has rows of group {rows.classes[present[0]]!s} only: "
                "drop it, keep it, or add the other groups"
            )
    A, of_a = _columns(erase, rows.X.shape[1])
    B, of_b = _columns(stay, rows.X.shape[1])
    return Demands(A, B, of_a, of_b)


def _columns(columns: list[tuple[int, np.ndarray]], d: int) -> tuple[np.ndarray, np.ndarray]:
    vectors = np.stack([v for _, v in columns], axis=1) if columns else np.zeros((d, 0))
    return vectors, np.array([number for number, _ in columns], dtype=int)


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
