"""How far to pull a sample covariance S towards the sphere of the same trace.

    Σ = (1 - s) S + s (tr S / d) I

Bodnar, Gupta and Parolya (2014, https://arxiv.org/abs/1308.2608) give the s that is asymptotically
best in the Frobenius norm, whatever the distribution:  s = (tr S)² / n / (‖S‖² - (tr S)² / d).
It needs S and n only, so it suits a stream; Ledoit and Wolf's needs the rows.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float


def optimal_shrinkage(covariance: Float[np.ndarray, "d d"], n: float) -> float:
    """The s of Bodnar et al. for a covariance (divided by n) of `n` rows, in [0, 1].

    >>> optimal_shrinkage(np.diag([4.0, 1.0, 1.0]), 1e9) < 1e-6
    True
    """
    trace = float(np.trace(covariance))
    excess = float((covariance**2).sum()) - trace**2 / len(covariance)
    if excess <= np.finfo(np.float64).eps * trace**2:
        return 1.0  # S is a sphere already
    return min(1.0, trace**2 / n / excess)


def shrunk(covariance: Float[np.ndarray, "d d"], amount: float) -> Float[np.ndarray, "d d"]:
    """`(1 - amount) S + amount tr(S)/d I`."""
    sphere = amount * np.trace(covariance) / len(covariance)
    result = (1.0 - amount) * covariance
    result.flat[:: len(result) + 1] += sphere
    return np.asarray(result)
