"""One generator per unit of work, derived from the run's seed and the unit's name.

Nothing here draws from global state, so a result depends on the seed and on what is being
computed, never on batch size, order, resume or the number of processes.
"""

from __future__ import annotations

import hashlib

import numpy as np


def unit_seed(seed: int, *unit: object) -> int:
    """A 63-bit seed for the unit of work named by `unit`.

    >>> unit_seed(0, "bootstrap", "occupations") == unit_seed(0, "bootstrap", "occupations")
    True
    >>> unit_seed(0, "a", "b") == unit_seed(0, "ab")
    False
    """
    key = "\x1f".join([str(int(seed)), *map(str, unit)])
    return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest(), "big") >> 1


def generator(seed: int, *unit: object) -> np.random.Generator:
    """A NumPy generator for the unit of work named by `unit`."""
    return np.random.default_rng(unit_seed(seed, *unit))
