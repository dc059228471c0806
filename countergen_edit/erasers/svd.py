"""The singular value decomposition that every eraser uses.

In: a finite matrix. Out: its thin factors. LAPACK's fast driver (divide and conquer) gives up on a
few well-behaved matrices; the slower one (QR iteration) does not.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
from jaxtyping import Float


def thin_svd(
    matrix: Float[np.ndarray, "m n"],
) -> tuple[Float[np.ndarray, "m k"], Float[np.ndarray, " k"], Float[np.ndarray, "k n"]]:
    """U, s and Vᵀ with k = min(m, n), largest first.

    Raises:
        ValueError: the matrix holds NaN or infinity.
    """
    try:
        left, size, right = np.linalg.svd(matrix, full_matrices=False)
    except np.linalg.LinAlgError:
        left, size, right = scipy.linalg.svd(matrix, full_matrices=False, lapack_driver="gesvd")
    return left, size, right
