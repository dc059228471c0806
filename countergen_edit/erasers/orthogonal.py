"""Orthogonal closed forms: mean difference, SAL, SentenceDebias and random directions."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from countergen_edit.core.errors import UserError
from countergen_edit.core.seeds import generator
from countergen_edit.erasers.base import BaseEraser, Rank
from countergen_edit.erasers.labelled import LabelledRows, read_per_row, require_rank
from countergen_edit.erasers.leace import cross_covariance_span
from countergen_edit.erasers.numerics import fix_signs, thin_svd


class MeanDifference(BaseEraser):
    """Erase orthogonally the span of { μ_g - μ̄ }, of rank c - 1 for c classes; mean: μ̄.

    All class means then coincide: no linear probe beats the constant one (see `certificate`).

    >>> X = np.array([[0.0, 1.0, 0.0], [2.0, 1.0, 1.0], [0.0, 3.0, 0.0], [2.0, 3.0, 1.0]])
    >>> MeanDifference().fit(X, ["f", "f", "m", "m"]).erasure_.right.round(6).tolist()
    [[0.0, 1.0, 0.0]]
    """

    def fit(self, X: Any, y: Any) -> MeanDifference:
        rows = self._read(X, y)
        self._store_orthogonal(span_of_means(rows.class_means), rows)
        return self


def span_of_means(means: Float[np.ndarray, "c d"]) -> Float[np.ndarray, "k d"]:
    """Orthonormal rows that span the differences of class means, strongest first."""
    _, size, right = thin_svd(means - means.mean(axis=0))
    # Means are known to rounding of their own size, not of their difference's.
    noise = np.finfo(np.float64).eps * np.abs(means).max(initial=0.0) * np.sqrt(means.size)
    return fix_signs(right[: len(means) - 1][size[: len(means) - 1] > max(noise, 1e-10 * size[0])])


@dataclass(eq=False, repr=False)
class SAL(BaseEraser):
    """Erase the leading left singular vectors of cov(x, z); mean: balanced over the groups.

    Shao, Ziser and Cohen (2023, https://aclanthology.org/2023.eacl-main.118). Without a `rank` it
    erases all c - 1, the same span as `MeanDifference`.
    """

    rank: Rank | None = None
    """Dimensions to erase; None erases c - 1."""

    def fit(self, X: Any, y: Any) -> SAL:
        """Fit to rows and classes; `UserError` for a `rank` above c - 1."""
        rows = self._read(X, y)
        span = cross_covariance_span(rows)
        if self.rank is not None:
            require_rank(self.rank, len(span))
            if self.rank > span.shape[1]:
                raise UserError(
                    f"rank = {self.rank}, but cov(x, z) of {len(rows.classes)} classes has only "
                    f"{span.shape[1]} directions: use at most that, or eraser 'inlp'"
                )
            span = span[:, : self.rank]
        self._store_orthogonal(span.T, rows)
        return self


@dataclass(eq=False, repr=False)
class SentenceDebias(BaseEraser):
    """Erase the `rank` leading principal directions of pairs; mean: balanced over the groups.

        C = Σ over pairs p, groups g of (x_pg - x̄_p)(x_pg - x̄_p)ᵀ

    Bolukbasi et al. (2016, https://arxiv.org/abs/1607.06520); for sentences, Liang et al. (2020,
    https://aclanthology.org/2020.acl-main.488).

    >>> X = np.array([[1.0, 5.0, 0.0], [0.0, 5.0, 0.0], [1.0, 9.0, 1.0], [0.0, 9.0, 1.0]])
    >>> eraser = SentenceDebias(rank=1).fit(X, ["f", "m", "f", "m"], pairs=[0, 0, 1, 1])
    >>> eraser.erasure_.right.round(6).tolist()
    [[1.0, 0.0, 0.0]]
    """

    no_guarantee_because = "principal directions of pairs need not span the differences of means"

    rank: Rank = 1
    """Dimensions to erase."""

    def fit(self, X: Any, y: Any, *, pairs: Any = None) -> SentenceDebias:
        """Fit to rows `X` `[n, d]`, classes `y` and the pair of each row.

        Without `pairs` the class means form one pair, which has at most c - 1 directions.
        `UserError` for invalid input, a pair with rows of one group, or too few directions.
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
        self._store_orthogonal(fix_signs(components[: self.rank]), rows)
        return self


def _differences(rows: LabelledRows, pairs: Any) -> Float[np.ndarray, "member d"]:
    """The mean of each group in each pair, less the pair's mean."""
    if pairs is None:
        return np.asarray(rows.class_means - rows.balanced_mean)
    ids = read_per_row(pairs, "pairs", len(rows.codes))
    names, pair = np.unique(ids, return_inverse=True)
    count = np.zeros((len(names), len(rows.classes)))
    np.add.at(count, (pair, rows.codes), 1)
    there = count > 0
    alone = np.flatnonzero(there.sum(axis=1) < 2)
    if len(alone):
        raise UserError(
            f"pair {str(names[alone[0]])!r} has rows of one group only (so have "
            f"{len(alone) - 1} more): drop it, or add its counterfactual"
        )
    total = np.zeros((*count.shape, rows.X.shape[1]))
    np.add.at(total, (pair, rows.codes), rows.X)
    means = total / np.maximum(count, 1)[:, :, None]
    centre = (means * there[:, :, None]).sum(axis=1) / there.sum(axis=1)[:, None]
    return np.asarray((means - centre[:, None])[there])


@dataclass(eq=False, repr=False)
class RandomDirections(BaseEraser):
    """Erase a uniformly drawn subspace, the control of CounterGen's Figure 1; mean: balanced."""

    is_baseline: ClassVar[bool] = True
    no_guarantee_because = "random directions do not look at the classes"

    rank: Rank = 1
    """Dimensions to erase."""
    _: KW_ONLY
    random_state: int = 0
    """Seed of the subspace."""

    def fit(self, X: Any, y: Any) -> RandomDirections:
        """Draw the subspace; the rows give only the mean."""
        rows = self._read(X, y)
        d = rows.X.shape[1]
        require_rank(self.rank, d)
        normal = generator(self.random_state, "random directions", d).normal(size=(d, self.rank))
        basis, _ = np.linalg.qr(normal)
        self._store_orthogonal(basis.T, rows)
        return self
