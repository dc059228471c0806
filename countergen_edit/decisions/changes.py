"""The class of a change of bias by an edit, from the interval of the change of the group effect.

Removed: the interval shows half of the effect or more removed; partly removed: some; increased: an
increase; no significant change: it holds 0. Removals and increases are at least 2 %, and a removal
exceeds that by random directions at the same places, else bias is not removed. A bias that was not
significant has a class only if the edit made it significant. Sets without a test and with fewer
than six templates have no significant change; untestable sets have no class.
"""

from __future__ import annotations

from countergen_edit.decisions.significance import class_of, is_significant, is_tested
from countergen_edit.metrics.base import Change
from countergen_edit.metrics.r.effect_rows import HALF, LEAST
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import Row, set_label

FEWEST_TEMPLATES = 6
"""Of fewer, all agreeing, the two-sided P of a sign test is above 0.05."""


def too_few_templates(row: Row) -> bool:
    """Whether a `group_effect` row rests on its templates alone, and these are too few."""
    return not is_tested(row) and row.detail.get("paraphrases", FEWEST_TEMPLATES) < FEWEST_TEMPLATES


def change_of(results: Results, before: Row, edit: str) -> Change | None:
    """The class of the change by an edit.

    Args:
        results: with the rows of the edit and its control.
        before: the row `group_effect` of the unedited model.
        edit: the edit's id.

    Returns:
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
    if value < LEAST or gone.lo <= _by_chance(results, before, edit):
        return "not removed"
    return "removed" if gone.lo >= HALF else "partly removed"


def by_set(results: Results, edit: str) -> dict[str, Change]:
    """The class of every set that has one, by its label."""
    return {set_label(row): change for row, change in classified(results, edit)}


def classified(results: Results, edit: str) -> list[tuple[Row, Change]]:
    """The rows `group_effect_removed` of an edit that have a class, with it."""
    return [
        (gone, change)
        for before in results.unedited("group_effect")
        if (change := change_of(results, before, edit)) is not None
        if (gone := results.under(before, edit, "group_effect_removed")) is not None
    ]


def _by_chance(results: Results, before: Row, edit: str) -> float:
    """The share removed by random directions at the same places."""
    record = results.records.get(edit)
    control = None if record is None or record.baseline else results.baseline_of(record)
    row = control and results.under(before, control.id, "group_effect_removed")
    return row.value or 0.0 if row else 0.0
