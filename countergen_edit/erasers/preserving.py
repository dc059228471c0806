"""Erase the group difference in some contexts, and preserve others.

    min over M of  E‖M (x - m)‖²   subject to   M A = A,  M B = 0;      x ↦ x - M (x - m)

`contexts` has the columns of A and B, and the solution. Without B this is LEACE of the group
differences; SPLINCE (2025, https://arxiv.org/abs/2506.10703) keeps a covariance in the same way.
M grows like 1/sin of the angle between Σ^(-1/2) A and Σ^(-1/2) B.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from itertools import product
from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import Ge
from sklearn.covariance import ledoit_wolf_shrinkage

from countergen_edit.core.errors import UserError
from countergen_edit.erasers.affine import AffineErasure
from countergen_edit.erasers.base import BaseEraser, Rank, Share
from countergen_edit.erasers.contexts import folds, most_kept, read_contexts, scores, whitened
from countergen_edit.erasers.convex import keeping_within_cvxpy
from countergen_edit.erasers.labelled import read_background, require_rank
from countergen_edit.erasers.numerics import span_coordinates

_GRID = (1e-4, 1e-3, 1e-2, 0.03, 0.1, 0.3, 0.6, 1.0)
"""Candidate amounts of shrinkage."""
RANKS = (1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64)
"""Candidate ranks, besides all."""


@dataclass(eq=False, repr=False)
class PreservingEraser(BaseEraser):
    """Erase group differences context by context; mean: balanced over the groups.

    "cv" selects from `RANKS` or `_GRID` by held-out scores (`contexts.scores`); with fewer than
    three contexts to erase it means every rank and "ledoit_wolf".

    Parameters
    ----------
    rank : maximum number of directions to erase, those first in which contexts agree
    shrinkage : of Σ towards a sphere, from 0 to 1
    min_angle : smallest angle in radians, in the metric of Σ, between A and B that are kept exactly
    keep_strength : penalty λ on moving what is kept; None keeps it exactly. More than 48 contexts,
        or d / 6 if that is more, are kept by the means of their families. λ ≥ 0 keeps each, and
        adds λ Σ_b w_b ‖M b‖² to the objective instead, w_b being the share of the context's rows.
    keep_within : if above 0, ‖M b‖ ≤ keep_within ‖b‖ in the metric of Σ for every b, solved by
        cvxpy

    Attributes
    ----------
    angle_ : smallest principal angle in radians; π/2 if nothing is to be kept
    shrinkage_ : the amount that was used
    cv_scores_ : for "cv", the score of each fold by (rank, shrinkage)
    """

    no_guarantee_because = "contexts that are kept keep their group difference"

    _: KW_ONLY
    rank: Rank | Literal["cv"] | None = None
    shrinkage: Share | Literal["cv", "ledoit_wolf"] = "cv"
    min_angle: float = 0.01
    keep_strength: Annotated[float, Ge(0)] | None = None
    keep_within: Annotated[float, Ge(0)] = 0.0

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        contexts: Any = None,
        keep: Any = (),
        background: Any = None,
        people: Any = None,
        families: Any = None,
    ) -> PreservingEraser:
        """Fit to rows `X` `[n, d]`, classes `y` and the context of each row.

        `keep` holds ids of contexts to keep, or a boolean per row; `background` enters Σ;
        `people` and `families` define the folds of "cv". `UserError` for invalid input or settings,
        or an angle below `min_angle`.
        """
        rows = self._read(X, y)
        self.row_ids_ = () if contexts is None else ("contexts", "keep")
        n, d = rows.X.shape
        if isinstance(self.rank, int):
            require_rank(self.rank, d)
        exact = self.keep_strength is None and self.keep_within == 0
        most = most_kept(d) if exact else None
        grouped = read_contexts(rows, contexts, keep, families, most)
        kept, pools = grouped.is_kept.sum(), len(np.unique(grouped.pool[grouped.is_kept]))
        self.note_ = ""
        if pools < kept:
            self.note_ = (
                f"{kept} contexts to keep are kept by the means of {pools} "
                f"{'family' if pools == 1 else 'families'}; more than {most} one by one leave "
                "little room for what is to be erased"
            )
        stacked = read_background(self, rows.X, background)
        mean = rows.balanced_mean
        inside, basis = span_coordinates(stacked - mean)
        centred = inside - inside.mean(axis=0)
        variances, axes = np.linalg.eigh(centred.T @ centred / len(centred))
        grouped = replace(grouped, X=inside[:n] @ axes)
        frame_of = partial(whitened, np.clip(variances, 0.0, None), d)
        demands = grouped.demands()
        parts = folds(grouped, people, families) if "cv" in (self.rank, self.shrinkage) else []
        ranks: list[int | None] = [None if isinstance(self.rank, str) else self.rank]
        if parts and self.rank == "cv":
            ranks = [*(r for r in RANKS if r < len(parts[0].erase)), None]
        amounts: Sequence[float] = _GRID
        if not isinstance(self.shrinkage, str):
            amounts = [float(self.shrinkage)]
        elif not parts or self.shrinkage != "cv":
            amounts = [float(ledoit_wolf_shrinkage(stacked)) if d > 1 else 0.0]
        choices = [*product(ranks, amounts)]
        if len(choices) > 1:
            other = inside[n:] if len(inside) > n else inside
            other = (other - other.mean(axis=0)) @ axes
            covariance, strength = other.T @ other / len(other), self.keep_strength
            self.cv_scores_ = scores(parts, frame_of, covariance, ranks, amounts, strength)
            choices.sort(key=lambda choice: float(self.cv_scores_[choice].mean()))
        rank, self.shrinkage_ = choices[0]
        if exact and len(choices) > 1:
            wide = (c for c in choices if frame_of(demands, c[1]).angle(c[0]) >= self.min_angle)
            rank, self.shrinkage_ = next(wide, choices[0])
        frame = frame_of(demands, self.shrinkage_)
        self.angle_ = frame.angle(rank)
        if exact and self.angle_ < self.min_angle:
            raise UserError(  # the angle is rounded, so that equal reasons read alike
                f"the difference to erase comes within {round(self.angle_, 4):g} rad of the one to "
                f"keep (min_angle = {self.min_angle}): keep fewer contexts, or set keep_strength "
                "or a rank; measure a model whose bias was already erased there with eraser=none"
            )
        left, right = frame.factors(rank, self.keep_strength)
        if self.keep_within > 0 and frame.U.shape[1]:
            B = frame.whiten[:, None] * demands.keep
            right = keeping_within_cvxpy(frame.A[:, :rank], B, self.keep_within) * frame.whiten
        to_rows = axes if basis is None else basis @ axes
        self._store(AffineErasure(to_rows @ left, right @ to_rows.T, mean), rows.classes)
        return self
