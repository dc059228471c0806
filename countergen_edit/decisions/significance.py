"""Whether a difference between groups is significant, and whether an edit changes it.

A row whose smallest possible P is above 0.05 cannot be tested, whatever its size; one without a P
is not tested.

The class of a change is from the interval of the change of the group effect. Removed: it shows half
of the effect or more removed; partly removed: some; increased: an increase; no significant change:
it holds 0. Removals and increases are at least 2 %, and a removal exceeds that by random directions
at the same places, else bias is not removed. A bias that was not significant has a class only if
the edit made it significant. Sets without a test and with fewer than six templates have no
significant change; untestable sets have no class.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, get_args

import numpy as np

from countergen_edit.data.counterfactual import CounterfactualSet
from countergen_edit.metrics.base import Change
from countergen_edit.metrics.r.effect_rows import HALF, LEAST, SIGNIFICANT, TESTED, holm_tests
from countergen_edit.metrics.r.group_effect import GroupEffect
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.scores import SetScores

FEWEST_TEMPLATES = 6
"""Of fewer, all agreeing, the two-sided P of a sign test is above 0.05."""
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
    classes: dict[Status, list[Row]] = {status: [] for status in get_args(Status)}
    for row in rows:
        classes[class_of(row.detail)].append(row)
    return classes


def is_tested(row: Row) -> bool:
    """Whether a row has a test."""
    return class_of(row.detail) != "not tested"


def is_significant(row: Row) -> bool:
    """Whether a row's difference is significant."""
    return class_of(row.detail) == "biased"


BIAS_SIGNIFICANT = "bias_significant"
"""The row that is 0 where no bias is left to remove."""


def significant_bias(rows: Sequence[Row]) -> list[Row]:
    """The row `bias_significant` of the unedited model on validation data; none without rows.

    It is 1 where the bias of any set is significant or not tested, else 0; `detail` has the test
    with the smallest P. `rows` may have others, too.
    """
    effects = [row for row in rows if (row.metric, row.split) == ("group_effect", "validation")]
    if not effects:
        return []
    tests = [{key: row.detail[key] for key in TESTED if key in row.detail} for row in effects]
    is_biased = any(class_of(test) in ("biased", "not tested") for test in tests)
    least = min(filter(None, tests), key=lambda test: test["p_adjusted"], default={})
    names = "+".join(dict.fromkeys(row.dataset for row in effects))
    blank: dict[str, Any] = {"facets": {}, "lo": None, "hi": None, "n": 0}
    row = replace(effects[0], metric=BIAS_SIGNIFICANT, value=float(is_biased), dataset=names)
    return [replace(row, detail=least, **blank)]


def has_significant_bias(rows: Sequence[Row]) -> bool:
    """Whether the row `bias_significant` shows a bias to remove; true without that row."""
    return all(row.value != 0 for row in rows if row.metric == BIAS_SIGNIFICANT)


def too_few_templates(row: Row) -> bool:
    """Whether a `group_effect` row rests on its templates alone, and these are too few."""
    return not is_tested(row) and row.detail.get("paraphrases", FEWEST_TEMPLATES) < FEWEST_TEMPLATES


def change_of(results: Results, before: Row, edit: str) -> Change | None:
    """The class of the change by an edit of a row `group_effect` of the unedited model.

    None without a bias that could change, or without a measurement of the edit.
    """
    gone = results.under(before, edit, "group_effect_removed")
    after, status = results.under(before, edit), class_of(before.detail)
    if gone is None or after is None or status == "cannot be tested":
        return None
    if status == "not significant":
        nats = results.under(before, edit, "group_effect_change")
        is_above = nats is not None and nats.lo is not None and nats.lo > 0
        return "increased" if is_above and is_significant(after) else None
    if too_few_templates(before) or gone.lo is None or gone.hi is None or gone.lo <= 0 <= gone.hi:
        return "no significant change"
    value = gone.value or 0.0
    if value <= -LEAST:
        return "increased"
    record = results.records.get(edit)
    control = None if record is None or record.baseline else results.baseline_of(record)
    row = control and results.under(before, control.id, "group_effect_removed")
    by_chance = row.value or 0.0 if row else 0.0
    if value < LEAST or gone.lo <= by_chance:
        return "not removed"
    return "removed" if gone.lo >= HALF else "partly removed"


def classified(results: Results, edit: str) -> list[tuple[Row, Change]]:
    """The rows `group_effect_removed` of an edit that have a class, with it."""
    return [
        (gone, change)
        for before in results.unedited("group_effect")
        if (change := change_of(results, before, edit)) is not None
        if (gone := results.under(before, edit, "group_effect_removed")) is not None
    ]
