"""The view of the group effect on other axes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from countergen_edit.edits import EditRecord
from countergen_edit.metrics.off_target import CHANGE
from countergen_edit.metrics.r.holm import SIGNIFICANT
from countergen_edit.metrics.r.paired import LEAST
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import UNEDITED, Row, set_label
from countergen_edit.reports.blocks import Cell, Number
from countergen_edit.reports.views.base import Quantity, Shown, View, and_list

EFFECT = "off_target"
LEAST_NATS = 0.01
"""What a group effect must grow by to be called worse, beside `LEAST` of what it was."""


class OffTargetView(View):
    """The group effect on axes that no edit was fitted on."""

    shows = (
        Shown(EFFECT, "group effect on another axis", where="card", unit="group effect, nats"),
    )
    place = "other_axes", "Other axes"
    note_of_edits = (
        "No edit was fitted on these axes. * is where an edit made the effect larger: by "
        f"{100 * LEAST:.0f} % and {LEAST_NATS} nats or more, and P ≤ {SIGNIFICANT} (Holm over "
        "axes; before and after are drawn alike)."
    )
    brief = True

    def about(self, row: Row) -> str:
        groups = f"{row.group_a} and {row.group_b}".replace("_", " ")
        names = ", ".join(dict.fromkeys((row.axis, set_label(row))))
        return f"{names} ({groups}, {_resting_on(row)})"

    def cell(self, results: Results, quantity: Quantity, edit: str) -> Cell:
        """The effect under an edit, with a star where it is worse."""
        row = quantity.rows.get(edit)
        change = None if row is None else results.under(row, edit, CHANGE)
        starred = _is_worse(quantity.rows[UNEDITED], change)
        return Number.of(row, starred=starred)

    def remaining(self, results: Results, edit: EditRecord) -> list[str]:
        """The axes that got worse under an edit."""
        return [f"group effect on {grown}" for grown in _worse(results, edit)]

    def sentences(self, results: Results) -> list[str]:
        """Where another axis got worse, edit by edit; then the edits under which none did."""
        rows = results.unedited(EFFECT)
        sentences, harmless, judged = [], [], dict[str, str]()
        for edit in results.shown:
            tested = [row for row, change in _changes(results, edit) if _is_tested(change)]
            judged |= {row.dataset: f"{_axis(row, rows)} ({_resting_on(row)})" for row in tested}
            if worse := _worse(results, edit):
                several = "Other axes got worse" if len(worse) > 1 else "Another axis got worse"
                sentences.append(
                    f"{several} under {edit.name_in_text}: {', '.join(worse)}"
                    f"{_control(results, edit, rows)}."
                )
            elif tested:
                harmless.append(edit.name_in_text)
        if harmless:
            sentences.append(
                f"No other axis got worse under {and_list(dict.fromkeys(harmless))}: the group "
                f"effect did not grow beyond its interval on {and_list(judged.values())}."
            )
        return sentences


def _changes(results: Results, edit: EditRecord) -> Iterator[tuple[Row, Row]]:
    """The effect on every axis before an edit, and its change."""
    for row in results.unedited(EFFECT):
        if (change := results.under(row, edit.id, CHANGE)) is not None:
            yield row, change


def _is_tested(change: Row) -> bool:
    return "p_adjusted" in change.detail


def _is_worse(before: Row, change: Row | None) -> bool:
    if change is None or not _is_tested(change):
        return False
    least = max(LEAST_NATS, LEAST * (before.value or 0.0))
    return change.detail["p_adjusted"] <= SIGNIFICANT and (change.value or 0.0) >= least


def _worse(results: Results, edit: EditRecord) -> list[str]:
    """The axes that got worse under an edit, with the effect before and after."""
    rows, worse = results.unedited(EFFECT), []
    for before, change in _changes(results, edit):
        if _is_worse(before, change):
            digits = 2 if round(change.lo or 0.0, 2) else 3  # an end above 0 is not shown as 0
            lo, hi = (Number(v, digits=digits, signed=True).text for v in (change.lo, change.hi))
            was, now = (Number.of(r, 2).text for r in (before, results.under(before, edit.id)))
            worse.append(f"{_axis(before, rows)} {was} → {now} nats [{lo}, {hi}]")
    return worse


def _control(results: Results, edit: EditRecord, rows: Sequence[Row]) -> str:
    """On which axes random directions of equal rank made it worse."""
    control = None if edit.baseline else results.baseline_of(edit)
    if control is None:
        return ""
    worse = [
        _axis(row, rows) for row, change in _changes(results, control) if _is_worse(row, change)
    ]
    return f"; under random directions {and_list(worse or ['none'])} did"


def _axis(row: Row, rows: Sequence[Row]) -> str:
    """The axis of a set, with the set's name where the axis has several."""
    several = sum(other.axis == row.axis for other in rows) > 1
    return f"{row.axis}, {set_label(row)}" if several else row.axis


def _people(row: Row) -> int:
    """How many people a group a row rests on; 0 where words show the groups."""
    return int(row.detail["people"]) if "p_adjusted" in row.detail else 0


def _resting_on(row: Row) -> str:
    people = _people(row)
    return f"{people} people a group" if people else "group words only"
