"""What an edit did to the bias of each set: one class, from the interval of the change.

Comes in: rows of `R` without and with an edit. Goes out: the class of each set, or of each pair of
groups on it, whose bias is significant or not tested. It is removed where the interval shows half
of the group effect or more gone; partly removed where it shows some gone; increased where it shows
growth; without a significant change where it holds 0. What is gone or grew must be 2 % or more, and
what is gone more than random directions at the same places take: else bias is not removed. A set
whose bias was not significant has a class only where an edit increased it: the bias is then
significant, and the interval of the change lies above 0. Of a set without a test and of fewer than
six templates no change is significant. What cannot be tested has no class.
"""

from __future__ import annotations

from countergen_edit.decisions.significance import class_of, is_significant, is_tested
from countergen_edit.metrics.base import Change
from countergen_edit.metrics.r.paired import HALF, LEAST
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
        results: with the rows of the edit, and of its control where it has one.
        before: the row `group_effect` of the unedited model.
        edit: the edit's id.

    Returns:
        None where there is no bias that could change, or the edit was not measured there.
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
    found = []
    for before in results.unedited("group_effect"):
        change = change_of(results, before, edit)
        gone = results.under(before, edit, "group_effect_removed")
        if change is not None and gone is not None:
            found.append((gone, change))
    return found


def _by_chance(results: Results, before: Row, edit: str) -> float:
    """The share that is gone under random directions at the same places."""
    record = results.records.get(edit)
    control = None if record is None or record.baseline else results.baseline_of(record)
    row = control and results.under(before, control.id, "group_effect_removed")
    return row.value or 0.0 if row else 0.0
