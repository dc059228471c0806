"""The preserving problem in closed form, in coordinates in which Σ is diagonal.

    min over M of  E‖M x‖² + λ Σ_b w_b ‖M b‖²   subject to   M A = A

Comes in: the variances, and the vectors to erase and to keep. Goes out: thin factors of M. λ = None
stands for infinity, M B = 0. With a tilde for what Σ^(-1/2) has whitened, B̃ W^(1/2) = U s Vᵀ and
D = (I + λ B̃ W B̃ᵀ)^(-1/2), which is I - U f Uᵀ for f = 1 - (1 + λ s²)^(-1/2):

    M = Σ^(1/2) Ã (D Ã)⁺ D Σ^(-1/2)  =  A (Aᵀ S⁻¹ A)⁻¹ Aᵀ S⁻¹,   S = Σ + λ B W Bᵀ
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from countergen_edit.erasers.demands import Demands
from countergen_edit.erasers.svd import thin_svd


@dataclass(frozen=True)
class Frame:
    """Demands in the metric of Σ at one amount of shrinkage."""

    sigma: Float[np.ndarray, " r"]
    """Standard deviations."""
    whiten: Float[np.ndarray, " r"]
    """Their inverses; 0 where nothing varies."""
    A: Float[np.ndarray, "r a"]
    """Orthonormal columns that span what is to be erased, those first that do most of it."""
    U: Float[np.ndarray, "r u"]
    """The same for what is to be kept."""
    size: Float[np.ndarray, " u"]
    """How much of it lies along each, s."""

    def gain(self, strength: float | None) -> Float[np.ndarray, " u"]:
        """f: how much of each direction that is to be kept is taken out of what M reads."""
        if strength is None:
            return np.ones(len(self.size))
        return np.asarray(1.0 - 1.0 / np.sqrt(1.0 + strength * self.size**2))

    def factors(
        self, rank: int | None, strength: float | None
    ) -> tuple[Float[np.ndarray, "r k"], Float[np.ndarray, "k r"]]:
        """`left` and `right` of M, of at most so many directions."""
        A, U, f = self.A[:, :rank], self.U, self.gain(strength)[:, None]
        rest = A - U @ (f * (U.T @ A))
        if strength is None:  # once more, so that what is kept is kept to rounding
            rest -= U @ (U.T @ rest)
        axes, size, turned = thin_svd(rest)
        sure = size > 1e-15 * size.max(initial=0.0)
        inverse = (turned[sure].T / size[sure]) @ axes[:, sure].T
        inverse -= ((inverse @ U) * f.T) @ U.T
        return self.sigma[:, None] * A, inverse * self.whiten

    def angle(self, rank: int | None) -> float:
        """The smallest between what is to be erased and what is to be kept, in radians."""
        rest = self.A[:, :rank] - self.U @ (self.U.T @ self.A[:, :rank])
        rest -= self.U @ (self.U.T @ rest)
        return float(np.arcsin(np.clip(thin_svd(rest)[1].min(initial=1.0), 0.0, 1.0)))


@dataclass(frozen=True)
class Metric:
    """Σ by its variances, shrunk towards the sphere of the same trace over all `d` dimensions."""

    variances: Float[np.ndarray, " r"]
    d: int
    tolerance: float
    keep_tolerance: float

    def frame(self, demands: Demands, amount: float) -> Frame:
        """The demands in this metric, shrunk by an amount from 0 to 1."""
        sphere = float(self.variances.sum()) / self.d
        sigma = np.sqrt((1.0 - amount) * self.variances + amount * sphere)
        # A direction without variance cannot carry a demand: rounding must not whiten it to one.
        varies = self.variances > self.variances.max(initial=0.0) * 1e-13
        whiten = np.where(varies, 1.0 / np.where(varies, sigma, 1.0), 0.0)
        A, _ = _span(whiten[:, None] * demands.erase, self.tolerance)
        kept = whiten[:, None] * demands.keep * np.sqrt(demands.keep_weight)
        return Frame(sigma, whiten, A, *_span(kept, self.keep_tolerance))


def _span(
    vectors: Float[np.ndarray, "r a"], tolerance: float
) -> tuple[Float[np.ndarray, "r k"], Float[np.ndarray, " k"]]:
    """Orthonormal columns that span `vectors`, without those that are noise, and their sizes."""
    left, size, _ = thin_svd(vectors)
    signal = size > max(tolerance, 1e-12) * size.max(initial=0.0)
    return np.asarray(left[:, signal]), size[signal]
