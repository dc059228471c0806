"""Erase the group difference in some contexts, and leave others exactly as they are.

    min over M of  E‖M (x - m)‖²   subject to   M A = A,  M B = 0;      x ↦ x - M (x - m)

so that P = I - M has P a = 0 for what must go and P b = b for what must stay. Row by row this is a
least-norm problem in the metric of Σ = cov(x), and its solution does not depend on how the change
is measured, only on Σ. With Ã = Σ^(-1/2) A, B̃ likewise, and R = I - B̃ B̃⁺:

    M = Σ^(1/2) Ã (R Ã)⁺ Σ^(-1/2)

With B empty this is LEACE of the group differences; SPLINCE (2025, https://arxiv.org/abs/2506.10703)
keeps a covariance in the same way. Where Ã comes close to the span of B̃ the two demands conflict:
M grows like 1/sin of the angle between them, which is therefore reported, and refused when small.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float
from sklearn.covariance import ledoit_wolf_shrinkage

from countergen_edit.erasers.affine import AffineErasure
from countergen_edit.erasers.base import BaseEraser
from countergen_edit.erasers.demands import Demands, read_demands
from countergen_edit.erasers.labelled import read_features, require_rank
from countergen_edit.erasers.solvers.cvxpy_reference import preserving_cvxpy
from countergen_edit.erasers.solvers.logistic import span_coordinates
from countergen_edit.erasers.svd import thin_svd
from countergen_edit.errors import UserError
from countergen_edit.seeds import generator

GRID = (1e-4, 1e-3, 1e-2, 0.03, 0.1, 0.3, 1.0)
"""Amounts of shrinkage to choose from."""
RANKS = (1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64)
"""Ranks to choose from, besides all."""


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
            from `GRID`. The choice is what, fitted without a fold of the contexts, leaves least of
            the group differences there and changes least of what is to be kept; of all within one
            standard error of that, the fewest directions and then the most shrinkage. With fewer
            than three contexts to erase there are no folds: "cv" is "ledoit_wolf", and every rank.
        min_angle: smallest angle, in radians and in the metric of Σ, between what must go and what
            must stay.
        keep_within: 0 keeps exactly. Above 0, ‖M b‖ ≤ keep_within ‖b‖ in the metric of Σ for every
            b, which has no closed form and is solved by cvxpy: the remedy where demands conflict.
        n_folds: folds of contexts for "cv".
        random_state: seed of these folds.

    Attributes:
        angle_: smallest principal angle in radians; π/2 where nothing is to be kept.
        shrinkage_: the amount used.
        cv_scores_: for "cv", the scores `[fold]` of each rank and amount: the share of the group
            differences left, plus the share of what is kept that was changed, in contexts held out.
    """

    __metadata_request__fit: ClassVar[Mapping[str, bool]] = {
        "contexts": True,
        "keep": True,
        "background": True,
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
        keep_within: float = 0.0,
        n_folds: int = 5,
        random_state: int = 0,
    ) -> None:
        self.rank = rank
        self.tolerance = tolerance
        self.keep_tolerance = keep_tolerance
        self.shrinkage = shrinkage
        self.min_angle = min_angle
        self.keep_within = keep_within
        self.n_folds = n_folds
        self.random_state = random_state

    def fit(
        self, X: Any, y: Any, *, contexts: Any = None, keep: Any = (), background: Any = None
    ) -> PreservingEraser:
        """Fit to rows `X` `[row, d]`, classes `y` and the context of each row.

        Args:
            X: rows.
            y: their classes.
            contexts: an id per row (template, prompt); None for one context, to be erased.
            keep: the ids to be kept, or a boolean per row. All other contexts are erased.
            background: rows `[other, d]` without a class, of whatever else the map will meet. They
                enter Σ only: directions in which they vary become dear to change.

        Raises:
            UserError: bad rows, labels, contexts or background, a `rank` or `shrinkage` that is
                none, or a conflict: an angle below `min_angle`.
        """
        rows = self._read(X, y)
        self.row_ids_ = () if contexts is None else ("contexts", "keep")
        d = rows.X.shape[1]
        if isinstance(self.rank, str) and self.rank != "cv":
            raise UserError(f"rank = {self.rank!r}: use 'cv', a number, or None for all")
        if isinstance(self.rank, int):
            require_rank(self.rank, d)
        mean = rows.balanced_mean
        demands = read_demands(rows, contexts, keep)
        every = rows.X
        if background is not None:
            every = np.vstack([rows.X, read_features(self, background).astype(np.float64)])
        inside, basis = span_coordinates(every - mean)
        if basis is not None:
            demands = demands.along(basis)
        centred = inside - inside.mean(axis=0)
        variances, axes = np.linalg.eigh(centred.T @ centred / len(centred))
        solver = _Solver(np.clip(variances, 0.0, None), d, self)
        demands = demands.along(axes)
        rank, self.shrinkage_ = self._choice(every, demands, solver)
        left, right, self.angle_ = solver.solve(demands, rank, self.shrinkage_)
        if self.angle_ < self.min_angle and self.keep_within == 0:
            raise UserError(
                f"what must go comes within {self.angle_:.2g} rad of what must stay (min_angle = "
                f"{self.min_angle}): keep fewer contexts, or set keep_within above 0, or a rank"
            )
        to_rows = axes if basis is None else basis @ axes
        erasure = AffineErasure(to_rows @ left, right @ to_rows.T, mean)
        self._store(erasure, rows.classes)
        return self

    def _choice(
        self, X: Float[np.ndarray, "row d"], demands: Demands, solver: _Solver
    ) -> tuple[int | None, float]:
        """Rank (None for all) and shrinkage, as given or by cross-validation."""
        folds = len(np.unique(demands.erase_context)) >= 3
        fixed: int | None = None if isinstance(self.rank, str) else self.rank
        ranks: list[int | None] = [fixed]
        if self.rank == "cv" and folds:
            ranks = [*(r for r in RANKS if r < demands.erase.shape[1]), None]
        amounts = GRID if self.shrinkage == "cv" and folds else (self._amount(X),)
        if len(ranks) * len(amounts) == 1:
            return ranks[0], amounts[0]
        scores = {amount: self._scores(demands, solver, ranks, amount) for amount in amounts}
        self.cv_scores_ = {
            (rank, amount): scores[amount][rank] for rank in ranks for amount in amounts
        }
        best = min(self.cv_scores_.values(), key=np.mean)
        limit = best.mean() + best.std(ddof=1) / np.sqrt(len(best))
        close = [choice for choice, scores in self.cv_scores_.items() if scores.mean() <= limit]
        return min(close, key=lambda choice: (choice[0] or np.inf, -choice[1]))

    def _amount(self, X: Float[np.ndarray, "row d"]) -> float:
        choice = self.shrinkage
        if choice in ("cv", "ledoit_wolf"):
            return float(ledoit_wolf_shrinkage(X)) if X.shape[1] > 1 else 0.0
        if isinstance(choice, str) or not 0 <= choice <= 1:
            raise UserError(
                f"shrinkage = {choice!r}: use 'cv', 'ledoit_wolf', or a number from 0 to 1"
            )
        return float(choice)

    def _scores(
        self, demands: Demands, solver: _Solver, ranks: Sequence[int | None], amount: float
    ) -> dict[int | None, Float[np.ndarray, " fold"]]:
        """Of each rank, the share of A left plus that of B changed, in each fold held out."""
        rng = generator(self.random_state, "folds of contexts")
        sets = [
            rng.permutation(np.unique(c)) for c in (demands.erase_context, demands.keep_context)
        ]
        parts = [np.array_split(s, min(self.n_folds, len(sets[0]))) for s in sets]
        scores: dict[int | None, list[float]] = {rank: [] for rank in ranks}
        for erase_fold, keep_fold in zip(*parts, strict=True):
            out = np.concatenate([erase_fold, keep_fold])
            frame = solver.frame(demands.without(out), amount)
            test = demands.only(out)
            for rank, values in scores.items():
                left, right, _ = solver.within(frame, rank)
                remains = test.erase - left @ (right @ test.erase)
                changed = left @ (right @ test.keep)
                shares = [
                    float((part**2).sum() / max((whole**2).sum(), 1e-300))
                    for part, whole in ((remains, test.erase), (changed, test.keep))
                ]
                values.append(sum(shares))
        return {rank: np.array(values) for rank, values in scores.items()}


@dataclass(frozen=True)
class _Frame:
    """Whitened demands at one amount of shrinkage, and what spans them."""

    sigma: Float[np.ndarray, " r"]
    whiten: Float[np.ndarray, "r 1"]
    A: Float[np.ndarray, "r a"]
    B: Float[np.ndarray, "r b"]
    keep: Float[np.ndarray, "r c"]


@dataclass(frozen=True)
class _Solver:
    """The closed form, in coordinates in which Σ is diagonal."""

    variances: Float[np.ndarray, " r"]
    d: int
    options: PreservingEraser

    def solve(
        self, demands: Demands, rank: int | None, amount: float
    ) -> tuple[Float[np.ndarray, "r k"], Float[np.ndarray, "k r"], float]:
        """Thin factors of M, and the smallest angle between the two demands."""
        return self.within(self.frame(demands, amount), rank)

    def frame(self, demands: Demands, amount: float) -> _Frame:
        """What does not depend on the rank, of which cross-validation tries several."""
        options = self.options
        sphere = float(self.variances.sum()) / self.d
        sigma = np.sqrt((1.0 - amount) * self.variances + amount * sphere)
        # A direction without variance cannot carry a demand: rounding must not whiten it to one.
        varies = self.variances > self.variances.max(initial=0.0) * 1e-13
        whiten = np.where(varies, 1.0 / np.where(varies, sigma, 1.0), 0.0)[:, None]
        A = _span(whiten * demands.erase, options.tolerance)
        B = _span(whiten * demands.keep, options.keep_tolerance)
        return _Frame(sigma, whiten, A, B, whiten * demands.keep)

    def within(
        self, frame: _Frame, rank: int | None
    ) -> tuple[Float[np.ndarray, "r k"], Float[np.ndarray, "k r"], float]:
        """`solve`, of at most so many directions."""
        A, B = frame.A[:, :rank], frame.B
        rest = A - B @ (B.T @ A)
        rest -= B @ (B.T @ rest)
        axes, sines, turned = thin_svd(rest)
        angle = float(np.arcsin(np.clip(sines.min(initial=1.0), 0.0, 1.0)))
        left = frame.sigma[:, None] * A
        if self.options.keep_within > 0 and B.shape[1]:
            return left, self._reading(A, frame.keep) * frame.whiten.T, angle
        sure = sines > 1e-15 * sines.max(initial=0.0)
        inverse = (turned[sure].T / sines[sure]) @ axes[:, sure].T
        return left, inverse * frame.whiten.T, angle

    def _reading(
        self, A: Float[np.ndarray, "r k"], keep: Float[np.ndarray, "r c"]
    ) -> Float[np.ndarray, "k r"]:
        # An optimal M reads only the span of both demands and writes only the span of A, so the
        # problem shrinks to their size before cvxpy sees it.
        both, _ = np.linalg.qr(np.hstack([A, keep]))
        M = preserving_cvxpy(both.T @ A, both.T @ keep, keep_within=self.options.keep_within)
        return np.asarray(A.T @ both @ M @ both.T)


def _span(vectors: Float[np.ndarray, "r a"], tolerance: float) -> Float[np.ndarray, "r k"]:
    """Orthonormal columns that span `vectors`, without those that are noise."""
    left, size, _ = thin_svd(vectors)
    signal = size > max(tolerance, 1e-12) * size.max(initial=0.0)
    return np.asarray(left[:, signal])
