"""Name leanings: what people of one name tend to, whatever their group.

    P(y | group, name) ∝ P(y | group) exp(a_name u_f(y) + b_name,f w_f(y))

u_f and w_f are two directions over the outputs of family f, fixed, of mean 0, mean square 1 and
orthogonal to each other; a ~ N(0, across²) is one number for all families of a name, and
b ~ N(0, within²) is one for each name and family; both are in nats. Over two outputs there is only
one such direction, and u_f and w_f are the same. Names are not balanced: a group's leanings do not
sum to zero over any sample of its names, as those of real names do not.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from jaxtyping import Float64
from numpy.polynomial.hermite_e import hermegauss
from scipy.special import log_softmax

from countergen_edit.seeds import generator

NODES = 24
"""Of Gauss-Hermite quadrature for each of the two normal variables."""


@dataclass(frozen=True)
class NameLeanings:
    """How strongly names lean, and in which families.

    Everything is drawn by a generator named after family or name: the leaning of a name depends on
    nothing but the seed and the name, and a name that no corpus holds has one too.
    """

    seed: int
    across: float = 0.0
    """Standard deviation, in nats, of what a name brings to all families."""
    within: float = 0.0
    """Standard deviation, in nats, of what a name brings to one family only."""
    families: tuple[str, ...] = ()
    """The families in which names lean; in all others, people of one group are alike."""

    def directions(self, family: str, outputs: int) -> Float64[np.ndarray, "two output"]:
        """u_f and w_f."""
        return _directions(self.seed, family, outputs)

    def of(self, name: str, family: str, outputs: int) -> Float64[np.ndarray, " output"]:
        """What is added to the log odds of a family's outputs for a name, in nats."""
        if family not in self.families:
            return np.zeros(outputs)
        a = self.across * generator(self.seed, "leaning", name).normal()
        b = self.within * generator(self.seed, "leaning", name, family).normal()
        shift: Float64[np.ndarray, " output"] = np.array([a, b]) @ self.directions(family, outputs)
        return shift

    def population(
        self, family: str, log_p: Float64[np.ndarray, " output"]
    ) -> tuple[Float64[np.ndarray, " node"], Float64[np.ndarray, "node output"]]:
        """All names there could be: quadrature weights, and log P(y | group, name) at each node.

        Expectations over names are sums over nodes; those of these functions, smooth in both normal
        variables, are exact to rounding.

        Args:
            family: whose outputs they are.
            log_p: log P(y | group).
        """
        if family not in self.families:
            return np.ones(1), log_p[None]
        nodes, weights = hermegauss(NODES)
        weights = weights / weights.sum()
        a, b = (grid.ravel() for grid in np.meshgrid(nodes, nodes, indexing="ij"))
        strengths = np.stack([self.across * a, self.within * b], axis=1)
        shifts = strengths @ self.directions(family, len(log_p))
        return np.outer(weights, weights).ravel(), log_softmax(log_p + shifts, axis=1)


@cache
def _directions(seed: int, family: str, outputs: int) -> Float64[np.ndarray, "two output"]:
    u, w = generator(seed, "leaning directions", family).normal(size=(2, outputs))
    u, w = u - u.mean(), w - w.mean()
    if outputs > 2:
        w = w - (w @ u) / (u @ u) * u
    rows = np.stack([u, w if outputs > 2 else u])
    scaled: Float64[np.ndarray, "two output"] = rows / np.sqrt(np.mean(rows**2, 1, keepdims=True))
    return scaled
