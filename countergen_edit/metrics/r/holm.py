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
    corrected, nulls = adjusted([e.p_value or 0.0 for e in tested]), adjusted(least)
    needed = _names_to_test(tested, least)
    found = iter(
        {"p": e.p_value, "p_adjusted": float(p), "least_p_adjusted": float(within_group_null)}
        | ({"names_to_test": names} if within_group_null > SIGNIFICANT and names else {})
        for e, p, within_group_null, names in zip(tested, corrected, nulls, needed, strict=True)
    )
    return [{} if effect.p_value is None else next(found) for effect in effects]


def _names_to_test(tested: Sequence[GroupEffect], least: np.ndarray) -> list[int | None]:
    """Of each effect the least names per group, had all as many, with which P may be 0.05."""
    needed: list[int | None] = [None] * len(tested)
    for names in range(2, MOST_NAMES):
        with_names = np.minimum(least, [effect.least_p(names) for effect in tested])
        nulls = adjusted(with_names)
        needed = [
            names if own is None and within_group_null <= SIGNIFICANT else own
            for own, within_group_null in zip(needed, nulls, strict=True)
        ]
        if None not in needed:
            break
    return needed
