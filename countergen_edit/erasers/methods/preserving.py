"""Erase the group difference in some contexts, and leave others as they are.

    min over M of  E‖M (x - m)‖²   subject to   M A = A,  M B = 0;      x ↦ x - M (x - m)

so that P = I - M has P a = 0 for what must go and P b = b for what must stay. Row by row this is a
least-norm problem in the metric of Σ = cov(x), and its solution does not depend on how the change
is measured, only on Σ. With Ã = Σ^(-1/2) A, B̃ likewise, and R = I - B̃ B̃⁺:

    M = Σ^(1/2) Ã (R Ã)⁺ Σ^(-1/2)

With B empty this is LEACE of the group differences; SPLINCE (2025, https://arxiv.org/abs/2506.10703)
keeps a covariance in the same way. Where Ã comes close to the span of B̃ the two demands conflict:
M grows like 1/sin of the angle between them, which is therefore reported, and refused when small.
Instead of a demand, what is to be kept can have a price: `keep_strength`, `solvers.oblique`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float
from sklearn.covariance import ledoit_wolf_shrinkage

from countergen_edit.erasers.affine import AffineErasure
from countergen_edit.erasers.base import BaseEraser
from countergen_edit.erasers.demands import Contexts, read_contexts
from countergen_edit.erasers.held_out import Choice, folds, scores
from countergen_edit.erasers.labelled import read_features, require_rank
from countergen_edit.erasers.solvers.cvxpy_reference import keeping_within_cvxpy
from countergen_edit.erasers.solvers.logistic import span_coordinates
from countergen_edit.erasers.solvers.oblique import Frame, Metric
from countergen_edit.errors import UserError

GRID = (1e-4, 1e-3, 1e-2, 0.03, 0.1, 0.3, 0.6, 1.0)
"""Amounts of shrinkage to choose from."""
RANKS = (1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64)
"""Ranks to choose from, besides all."""
STRENGTHS = (0.0, 1.0, 10.0, 100.0, None)
"""Strengths to choose from; None keeps exactly."""


class PreservingEraser(BaseEraser):
    """Erase group differences context by context; mean: balanced over the groups.

    Args:
        rank: directions to erase at most, those first in which contexts agree. None takes all above
            `tolerance`, which makes the groups equal in every context that was given; "cv" takes
            from `RANKS`, for contexts that were not, in which the last directions are noise.
        tolerance: directions of A with a singular value below this share of the largest (whitened)
            are noise and left alone. What they hold of a group difference stays.
        keep_tolerance: the same for B; 0 but for rounding keeps every demand exactly.
        shrinkage: of Σ towards a sphere: "ledoit_wolf", a number from 0 to 1, or "cv", which takes
            from `GRID`. What "cv" chooses between, here and for `rank` and `keep_strength`, is
            scored on contexts, and where `fit` is told of them people, that it was not fitted on
            (`held_out`): what is left of differences, what is changed of those to be kept, and what
            is changed of all else. It takes the best of those that
            demands allow. With fewer than three contexts to erase there are no folds: "cv" is
            "ledoit_wolf", every rank, and exact.
        min_angle: smallest angle, in radians and in the metric of Σ, between what must go and what
            must stay, where that is to stay exactly.
        keep_strength: None keeps exactly. A number λ from 0 makes it a price: E‖M (x - m)‖² plus
            λ Σ_b w_b ‖M b‖² is least, with contexts weighed by their rows, so that what is to be
            kept is 1 + λ times as dear to change as anything else. "cv" takes from `STRENGTHS`. On
            a real model what is kept exactly here is not kept better elsewhere: 10 does as well,
            and changes less of everything else.
        keep_within: 0 leaves that as it is. Above 0, ‖M b‖ ≤ keep_within ‖b‖ in the metric of Σ for
            every b, which has no closed form and is solved by cvxpy: in 0.15 s for 8 directions to
            erase and 40 to keep, 1 s for 16 and 60, 5 s for 24 and 100.
        n_folds: folds of contexts for "cv".
        random_state: seed of these folds.

    Attributes:
        angle_: smallest principal angle in radians; π/2 where nothing is to be kept.
        shrinkage_: the amount used.
        keep_strength_: the strength used; None for exactly.
        cv_scores_: for "cv", of each (rank, shrinkage, strength) the score of each fold.
    """

    __metadata_request__fit: ClassVar[Mapping[str, bool]] = {
        "contexts": True,
        "keep": True,
        "background": True,
        "people": True,
        "families": True,
    }
    no_guarantee_because = "contexts that are kept keep their group difference"

    def __init__(
        self,
        *,
        rank: int | str | None = None,
        tolerance: float = 1e-6,
        keep_tolerance: float = 1e-10,
        shrinkage: str | float = "cv",
        min_angle: float = 0.01,
        keep_strength: float | str | None = None,
        keep_within: float = 0.0,
        n_folds: int = 5,
        random_state: int = 0,
    ) -> None:
        self.rank = rank
        self.tolerance = tolerance
        self.keep_tolerance = keep_tolerance
        self.shrinkage = shrinkage
        self.min_angle = min_angle
        self.keep_strength = keep_strength
        self.keep_within = keep_within
        self.n_folds = n_folds
        self.random_state = random_state

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
        """Fit to rows `X` `[row, d]`, classes `y` and the context of each row.

        Args:
            X: rows.
            y: their classes.
            contexts: an id per row (template, prompt); None for one context, to be erased.
            keep: the ids to be kept, or a boolean per row. All other contexts are erased.
            background: rows `[other, d]` without a class, of whatever else the map will meet. They
                enter Σ only: directions in which they vary become dear to change.
            people: an id per row of who is spoken of (a name), for "cv".
            families: an id per row of what is spoken of (a family of wordings), for "cv": with
                five or more to erase, it chooses what serves families held out.

        Raises:
            UserError: bad rows, labels, background or ids of rows, a `rank`, `shrinkage` or
                `keep_strength` that is none, or a conflict: an angle below `min_angle`.
        """
        rows = self._read(X, y)
        self.row_ids_ = () if contexts is None else ("contexts", "keep")
        d = rows.X.shape[1]
        self._check_settings(d)
        mean, found = rows.balanced_mean, read_contexts(rows, contexts, keep)
        every = rows.X
        if background is not None:
            every = np.vstack([rows.X, read_features(self, background).astype(np.float64)])
        inside, basis = span_coordinates(every - mean)
        centred = inside - inside.mean(axis=0)
        variances, axes = np.linalg.eigh(centred.T @ centred / len(centred))
        found = replace(found, X=inside[: len(rows.X)] @ axes)
        metric = Metric(np.clip(variances, 0.0, None), d, self.tolerance, self.keep_tolerance)
        others = inside[len(rows.X) :] if len(inside) > len(rows.X) else inside
        rank, self.shrinkage_, self.keep_strength_ = self._choice(
            every, found, (people, families), metric, (others - others.mean(axis=0)) @ axes
        )
        frame = metric.frame(found.demands(), self.shrinkage_)
        self.angle_ = frame.angle(rank)
        exact = self.keep_strength_ is None and self.keep_within == 0
        if exact and self.angle_ < self.min_angle:
            raise UserError(
                f"what must go comes within {self.angle_:.2g} rad of what must stay (min_angle = "
                f"{self.min_angle}): keep fewer contexts, or set keep_strength, or a rank; of a "
                "model whose bias was erased there nothing is left: eraser=none measures it alone"
            )
        left, right = frame.factors(rank, self.keep_strength_)
        if self.keep_within > 0 and frame.U.shape[1]:
            right = self._reading(frame, found, rank)
        to_rows = axes if basis is None else basis @ axes
        self._store(AffineErasure(to_rows @ left, right @ to_rows.T, mean), rows.classes)
        return self

    def _check_settings(self, d: int) -> None:
        if isinstance(self.rank, str) and self.rank != "cv":
            raise UserError(f"rank = {self.rank!r}: use 'cv', a number, or None for all")
        if isinstance(self.rank, int):
            require_rank(self.rank, d)
        shrinkage, strength = self.shrinkage, self.keep_strength
        named = shrinkage in ("cv", "ledoit_wolf")
        if not named and (isinstance(shrinkage, str) or not 0 <= shrinkage <= 1):
            raise UserError(
                f"shrinkage = {shrinkage!r}: use 'cv', 'ledoit_wolf', or a number from 0 to 1"
            )
        number = strength is None or (not isinstance(strength, str) and 0 <= strength < np.inf)
        if strength != "cv" and not number:
            raise UserError(
                f"keep_strength = {strength!r}: use a number from 0, 'cv', or None to keep exactly"
            )

    def _choice(
        self,
        every: Float[np.ndarray, "row d"],
        found: Contexts,
        ids: tuple[Any, Any],
        metric: Metric,
        others: Float[np.ndarray, "other r"],
    ) -> Choice:
        """Rank, shrinkage and strength, as given or by cross-validation."""
        wanted = "cv" in (self.rank, self.shrinkage, self.keep_strength)
        people, families = ids
        seed = self.random_state
        parts = folds(found, people, self.n_folds, seed, families) if wanted else []
        ranks: list[int | None] = [None if isinstance(self.rank, str) else self.rank]
        if parts and self.rank == "cv":
            most = len(parts[0].erase)
            ranks = [*(r for r in RANKS if r < most), None]
        to_choose = parts and self.shrinkage == "cv"
        amounts: Sequence[float] = GRID if to_choose else (self._amount(every),)
        strengths = [None if isinstance(self.keep_strength, str) else self.keep_strength]
        if parts and self.keep_strength == "cv":
            strengths = [*STRENGTHS]
        choices = [(r, a, s) for r in ranks for a in amounts for s in strengths]
        if len(choices) == 1:
            return choices[0]
        self.cv_scores_ = scores(
            parts, metric, others.T @ others / len(others), ranks, amounts, strengths
        )
        choices.sort(key=lambda choice: float(self.cv_scores_[choice].mean()))
        return next((c for c in choices if self._is_possible(c, found, metric)), choices[0])

    def _is_possible(self, choice: Choice, found: Contexts, metric: Metric) -> bool:
        """Whether demands that are to be met exactly do not conflict on all rows."""
        rank, amount, strength = choice
        if strength is not None or self.keep_within > 0:
            return True
        return metric.frame(found.demands(), amount).angle(rank) >= self.min_angle

    def _amount(self, every: Float[np.ndarray, "row d"]) -> float:
        if isinstance(self.shrinkage, str):
            return float(ledoit_wolf_shrinkage(every)) if every.shape[1] > 1 else 0.0
        return float(self.shrinkage)

    def _reading(self, frame: Frame, found: Contexts, rank: int | None) -> Float[np.ndarray, "k r"]:
        A, keep = frame.A[:, :rank], frame.whiten[:, None] * found.demands().keep
        return np.asarray(keeping_within_cvxpy(A, keep, self.keep_within) * frame.whiten)
