"""Whether a difference between groups is significant: decisions over rows that have a test.

Comes in: effects that are tested together, or their rows. Goes out: P with Holm's adjustment and
the smallest P that was possible, and the class of a row. A row whose smallest possible P is above
0.05 cannot be tested, whatever its size; one without a P is not tested.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np

from countergen_edit.metrics.r.group_effect import GroupEffect
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.statistics import adjusted

SIGNIFICANT = 0.05
MOST_NAMES = 100
"""Names per group up to which those that a test needs are looked for."""
Status = Literal["biased", "not significant", "cannot be tested", "not tested"]


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


def class_of(test: Mapping[str, Any]) -> Status:
    """The class of an effect by what `holm_tests` gave of it, which a row has in its detail."""
    if "p_adjusted" not in test:
        return "not tested"
    if test.get("least_p_adjusted", 0.0) > SIGNIFICANT:
        return "cannot be tested"
    return "biased" if test["p_adjusted"] <= SIGNIFICANT else "not significant"


def by_class(rows: Sequence[Row]) -> dict[Status, list[Row]]:
    """Rows by their class."""
    found: dict[Status, list[Row]] = {status: [] for status in get_args(Status)}
    for row in rows:
        found[class_of(row.detail)].append(row)
    return found


def is_tested(row: Row) -> bool:
    """Whether a row has a test."""
    return class_of(row.detail) != "not tested"


def is_significant(row: Row) -> bool:
    """Whether a row's difference is significant."""
    return class_of(row.detail) == "biased"
