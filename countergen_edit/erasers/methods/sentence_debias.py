"""Principal directions of counterfactual pairs.

    C = Σ over pairs p, groups g of (x_pg - x̄_p)(x_pg - x̄_p)ᵀ,   D = top-k eigenvectors of C

Bolukbasi et al. (2016, https://arxiv.org/abs/1607.06520); for sentences, Liang et al. (2020,
https://aclanthology.org/2020.acl-main.488).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from countergen_edit.core.errors import UserError
from countergen_edit.erasers.affine import AffineErasure
from countergen_edit.erasers.base import BaseEraser
from countergen_edit.erasers.labelled import LabelledRows, read_per_row, require_rank
from countergen_edit.erasers.solvers.spectral import fix_signs, thin_svd


class SentenceDebias(BaseEraser):
    """Erase the leading principal directions of pairs; mean: balanced over the groups.

    Parameters
    ----------
    rank : int
        Dimensions to erase.

    Examples
    --------
    >>> X = np.array([[1.0, 5.0, 0.0], [0.0, 5.0, 0.0], [1.0, 9.0, 1.0], [0.0, 9.0, 1.0]])
    >>> eraser = SentenceDebias(rank=1).fit(X, ["f", "m", "f", "m"], pairs=[0, 0, 1, 1])
    >>> eraser.erasure_.right.round(6).tolist()
    [[1.0, 0.0, 0.0]]
    """

    __metadata_request__fit: ClassVar[Mapping[str, bool]] = {"pairs": True}
    no_guarantee_because = "principal directions of pairs need not span the differences of means"

    def __init__(self, rank: int = 1) -> None:
        self.rank = rank

    def fit(self, X: Any, y: Any, *, pairs: Any = None) -> SentenceDebias:
        """Fit to rows `X` `[n, d]`, classes `y` and the pair of each row.

        Without `pairs` the class means form one pair, which has at most c - 1 directions.

        Raises
        ------
        UserError
            For invalid input, a pair with rows of one group, or too few directions for `rank`.
        """
        rows = self._read(X, y)
        self.row_ids_ = () if pairs is None else ("pairs",)
        require_rank(self.rank, rows.X.shape[1])
        _, size, right = thin_svd(_differences(rows, pairs))
        components = right[size > max(1e-10 * size[0], 1e-300)]
        if len(components) < self.rank:
            raise UserError(
                f"rank = {self.rank}, but the pairs differ in only {len(components)} directions: "
                "use at most that, or pass more pairs (fit(…, pairs=ids))"
            )
        directions = fix_signs(components[: self.rank])
        self._store(AffineErasure.orthogonal(directions, rows.balanced_mean), rows.classes)
        return self


def _differences(rows: LabelledRows, pairs: Any) -> Float[np.ndarray, "member d"]:
    if pairs is None:
        return np.asarray(rows.class_means - rows.balanced_mean)
    ids = read_per_row(pairs, "pairs", len(rows.codes))
    names, pair = np.unique(ids, return_inverse=True)
    c = len(rows.classes)
    member = pair * c + rows.codes  # rows of one pair and group are averaged
    count = np.bincount(member, minlength=len(names) * c).reshape(len(names), c)
    alone = np.flatnonzero((count > 0).sum(axis=1) < 2)
    if len(alone):
        raise UserError(
            f"pair {str(names[alone[0]])!r} has rows of one group only (so have "
            f"{len(alone) - 1} more): "
            "drop it, or add its counterfactual"
        )
    total = np.zeros((len(names) * c, rows.X.shape[1]))
    np.add.at(total, member, rows.X)
    means = total.reshape(len(names), c, -1) / np.maximum(count, 1)[:, :, None]
    there = count > 0
    centre = (means * there[:, :, None]).sum(axis=1) / there.sum(axis=1)[:, None]
    return np.asarray((means - centre[:, None])[there])
