"""P of group effects that are tested together, by Holm's method."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from countergen_edit.metrics.r.group_effect import GroupEffect
from countergen_edit.metrics.statistics import adjusted

SIGNIFICANT = 0.05
MOST_NAMES = 100
"""The largest number of names per group that a test is said to need."""
TESTED = ("p", "p_adjusted", "least_p_adjusted", "names_to_test")
"""The details of a test in a row."""


def holm_tests(effects: Sequence[GroupEffect]) -> list[dict[str, Any]]:
    """P of each effect, Holm's over all of them, and the smallest that was possible.

    Returns:
        For each effect `p`, `p_adjusted`, `least_p_adjusted` and, where the last is above 0.05,
        `names_to_test`: the least names per group with which it is not. Empty without a test.
    """
    tested = [effect for effect in effects if effect.p_value is not None]
    least = np.array([effect.least_p() for effect in tested])
    corrected, least_corrected = adjusted([e.p_value or 0.0 for e in tested]), adjusted(least)
    needed = np.zeros(len(tested), dtype=int)  # names, had all effects as many
    for names in range(2, MOST_NAMES):
        if needed.all():
            break
        possible = adjusted(np.minimum(least, [effect.least_p(names) for effect in tested]))
        needed[(needed == 0) & (possible <= SIGNIFICANT)] = names
    numbers = zip(corrected, least_corrected, needed, strict=True)
    tests: list[dict[str, Any]] = []
    for effect in effects:
        tests.append({})
        if effect.p_value is not None:
            p, lowest, names = next(numbers)
            tests[-1] = {
                "p": effect.p_value,
                "p_adjusted": float(p),
                "least_p_adjusted": float(lowest),
            }
            if lowest > SIGNIFICANT and names:
                tests[-1]["names_to_test"] = int(names)
    return tests
