"""Principal directions of counterfactual pairs (Bolukbasi et al. 2016, https://arxiv.org/abs/1607.06520;
for sentences, Liang et al. 2020, https://aclanthology.org/2020.acl-main.488).

    C = Σ over pairs p, groups g of (x_pg - x̄_p)(x_pg - x̄_p)ᵀ,   D = top-k eigenvectors of C

Each pair (the same text in every group) is centred on its own mean, so what differs between texts
drops out before the principal directions are taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from countergen_edit.erasers.affine import AffineErasure
from countergen_edit.erasers.base import BaseEraser
from countergen_edit.erasers.labelled import LabelledRows, as_numpy, require_rank
from countergen_edit.erasers.svd import thin_svd
from countergen_edit.errors import UserError


class SentenceDebias(BaseEraser):
    """Erase the leading principal directions of the pairs; mean: balanced over the groups.

    Args:
        rank: dimensions to erase.

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
        """Fit to rows `X` `[row, d]`, classes `y` and an id of the pair each row belongs to.

        Without `pairs` all rows form one, of which the class means are the members; there are then
        c - 1 directions at most for c classes.

        Raises:
            UserError: bad rows or labels, an id with rows of one group only, `rank` not in
                1 … d - 1, or a `rank` above the number of directions of the pairs.
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
        components = components[: self.rank]
        sign = np.sign(components[np.arange(len(components)), np.abs(components).argmax(axis=1)])
        directions = components * sign[:, None]
        self._store(AffineErasure.orthogonal(directions, rows.balanced_mean), rows.classes)
        return self


def _differences(rows: LabelledRows, pairs: Any) -> Float[np.ndarray, "member d"]:
    if pairs is None:
        return np.asarray(rows.class_means - rows.balanced_mean)
    ids = np.asarray(as_numpy(pairs))
    if ids.shape != rows.codes.shape:
        raise UserError(
            f"pairs has shape {ids.shape} for {len(rows.codes)} rows: give one id to each row"
        )
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
