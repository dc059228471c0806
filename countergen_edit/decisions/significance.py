"""Whether a difference between groups is significant.

A row whose smallest possible P is above 0.05 cannot be tested, whatever its size; one without a P
is not tested.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, get_args

import numpy as np

from countergen_edit.data.counterfactual import CounterfactualSet
from countergen_edit.metrics.r.effect_rows import SIGNIFICANT, TESTED, holm_tests
from countergen_edit.metrics.r.group_effect import GroupEffect
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.scores import SetScores

Status = Literal["biased", "not significant", "cannot be tested", "not tested"]


def class_of(test: Mapping[str, Any]) -> Status:
    """The class of an effect by what `holm_tests` gave of it, which a row has in its detail."""
    if "p_adjusted" not in test:
        return "not tested"
    if test.get("least_p_adjusted", 0.0) > SIGNIFICANT:
        return "cannot be tested"
    return "biased" if test["p_adjusted"] <= SIGNIFICANT else "not significant"


def smallest_p(data: CounterfactualSet) -> dict[str, Any]:
    """The smallest P that the names of a set can give, as in `holm_tests`, and their number."""
    prompts = sum(len(sample.outputs) * len(sample.variations) for sample in data.samples)
    effect = GroupEffect(SetScores.of(data, np.zeros(prompts)))
    return holm_tests([effect])[0] | {"people": effect.people.fewest}


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


BIAS_SIGNIFICANT = "bias_significant"
"""The row that is 0 where there is no bias to remove."""


def significant_bias(rows: Sequence[Row]) -> list[Row]:
    """The row `bias_significant` of the unedited model on validation data; none without rows.

    It is 1 where the bias of any set is significant or not tested, else 0; `detail` has the test
    with the smallest P.

    Parameters
    ----------
    rows : the rows `group_effect` of the unedited model on validation data, among others
    """
    effects = [row for row in rows if (row.metric, row.split) == ("group_effect", "validation")]
    if not effects:
        return []
    found = [{key: row.detail[key] for key in TESTED if key in row.detail} for row in effects]
    is_biased = any(class_of(test) in ("biased", "not tested") for test in found)
    least = min(filter(None, found), key=lambda test: test["p_adjusted"], default={})
    names = "+".join(dict.fromkeys(row.dataset for row in effects))
    blank: dict[str, Any] = {"facets": {}, "lo": None, "hi": None, "n": 0}
    row = replace(effects[0], metric=BIAS_SIGNIFICANT, value=float(is_biased), dataset=names)
    return [replace(row, detail=least, **blank)]


def has_significant_bias(rows: Sequence[Row]) -> bool:
    """Whether there is a bias to remove, by the row that says so; without one there is."""
    return all(row.value != 0 for row in rows if row.metric == BIAS_SIGNIFICANT)
