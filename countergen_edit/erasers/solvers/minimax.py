"""The minimax game of RLACE, played in the span of the centred rows.

    V(P) = min over W, b of  loss((I - P) x; W, b) + penalty/2 ‖W‖²,     max V(P) over P in F_k

The adversary is solved to tolerance at every P, so by Danskin's theorem the game has the gradient

    ∇V(P) = -sym(C Wᵀ),   C = Σ_i ω_i x_i (p_i - z_i)ᵀ,

and P climbs along it, projected to the Fantope, with steps that never lower V. Two bounds stop it:
V is at most the label entropy H(z), and <∇V, Q - P> over the best Q in F_k (the top-k eigenvectors
of ∇V) says how much is to be gained to first order. The penalty is needed: without it the relaxed
game is flat at V(0) for every P ≺ I, whose complement I - P the adversary simply inverts. A large
one makes the game easy (W tends to -(I - P)C / penalty, and P to the span of the class means), so
the game is played with penalties that fall to the given one, each begun where the last ended.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from countergen_edit.erasers.labelled import LabelledRows
from countergen_edit.erasers.solvers.fantope import leading_directions
from countergen_edit.erasers.solvers.logistic import Probe, label_entropy

Adversary = Callable[[LabelledRows, float, Probe | None], Probe]
Projection = Callable[[Float[np.ndarray, "r r"], int], Float[np.ndarray, "r r"]]

EASIER = (1000.0, 100.0, 10.0, 1.0)
"""The penalties of the stages, in units of the last."""


@dataclass(frozen=True)
class Game:
    """How a game ended; losses in nats, the adversary's penalty included."""

    P: Float[np.ndarray, "r r"]
    directions: Float[np.ndarray, "k r"]
    relaxed_loss: float
    rounded_loss: float
    gap: float
    n_iter: int


@dataclass(frozen=True)
class Board:
    """The rows, in coordinates of their span and centred, and the rules that stay the same."""

    rows: LabelledRows
    k: int
    adversary: Adversary
    project: Projection

    def value(
        self, P: Float[np.ndarray, "r r"], penalty: float, warm: Probe | None
    ) -> tuple[float, Probe]:
        """V(P), and the adversary that attains it."""
        X = self.rows.X - self.rows.X @ P
        probe = self.adversary(replace(self.rows, X=X), penalty, warm)
        return probe.loss + 0.5 * penalty * float((probe.weights**2).sum()), probe

    def slope(self, P: Float[np.ndarray, "r r"], probe: Probe) -> Float[np.ndarray, "r r"]:
        """∇V(P)."""
        X, omega = self.rows.X, self.rows.weight / self.rows.weight.sum()
        target = np.eye(len(self.rows.classes))[self.rows.codes]
        residual = probe.probabilities(X - X @ P) - target
        # With one logit column for two classes, that of the second class is it.
        cross = (X.T * omega) @ residual[:, -probe.weights.shape[1] :]
        slope = -cross @ probe.weights.T
        return np.asarray((slope + slope.T) / 2)


def play(
    board: Board, start: Float[np.ndarray, "r r"], *, penalty: float, tol: float, max_iter: int
) -> Game:
    """Play all stages, then round P to its top-k eigenvectors.

    Args:
        board: rows and rules.
        start: a point of the Fantope.
        penalty: of the last stage.
        tol: gap in nats at which a stage ends.
        max_iter: steps of P in a stage.
    """
    P, gap, n_iter, probe = start, np.inf, 0, None
    for factor in EASIER:
        P, gap, steps, probe = _climb(board, P, probe, factor * penalty, tol, max_iter)
        n_iter += steps
    directions = leading_directions(P, board.k)
    relaxed, _ = board.value(P, penalty, probe)
    rounded, _ = board.value(directions.T @ directions, penalty, probe)
    return Game(P, directions, relaxed, rounded, max(gap, 0.0), n_iter)


def _climb(
    board: Board,
    P: Float[np.ndarray, "r r"],
    warm: Probe | None,
    penalty: float,
    tol: float,
    max_iter: int,
) -> tuple[Float[np.ndarray, "r r"], float, int, Probe]:
    """Raise V from `P` until the gap is at most `tol`: the new P, gap, steps and adversary."""
    bound = label_entropy(board.rows)
    now, probe = board.value(P, penalty, warm)
    slope = board.slope(P, probe)
    step, gap = 1.0 / max(float(np.linalg.norm(slope, 2)), 1e-300), np.inf
    n_iter = 0
    while n_iter < max_iter:
        n_iter += 1
        best = leading_directions(slope, board.k)
        gap = min(bound - now, float(np.trace(best @ slope @ best.T) - (slope * P).sum()))
        if gap <= tol:
            break
        for _ in range(30):
            trial = board.project(P + step * slope, board.k)
            then, fitted = board.value(trial, penalty, probe)
            # Armijo's rule along the projected arc: a fixed share of what the slope promises.
            if then >= now + 1e-4 * float((slope * (trial - P)).sum()):
                break
            step *= 0.3
        else:
            break  # no step raises V beyond rounding
        moved, turned = trial - P, board.slope(trial, fitted) - slope
        P, now, probe, slope = trial, then, fitted, slope + turned
        # Barzilai and Borwein's step, from the curvature just met; ten times as long without any.
        bend = abs(float((moved * turned).sum()))
        step = min(float((moved**2).sum()) / bend if bend > 0 else np.inf, 10.0 * step)
    return P, gap, n_iter, probe
