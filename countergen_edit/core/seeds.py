"""One random generator per unit of work, derived from the run's seed and the unit's name.

No global state is used: results do not depend on batch size, order, resume or process count.
"""

from __future__ import annotations

import hashlib

import numpy as np


def unit_seed(seed: int, *unit: object) -> int:
    """A 63-bit seed for the named unit of work.

    >>> unit_seed(0, "bootstrap", "occupations") == unit_seed(0, "bootstrap", "occupations")
    True
    >>> unit_seed(0, "a", "b") == unit_seed(0, "ab")
    False
    """
    key = "\x1f".join([str(int(seed)), *map(str, unit)])
    return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest(), "big") >> 1


def generator(seed: int, *unit: object) -> np.random.Generator:
    """A NumPy generator for the named unit of work."""
    return np.random.default_rng(unit_seed(seed, *unit))
