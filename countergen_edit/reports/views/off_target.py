"""The view of the group effect on other axes."""

from __future__ import annotations

from countergen_edit.edits import EditRecord
from countergen_edit.metrics.off_target import CHANGE
from countergen_edit.metrics.r.effect_rows import LEAST, SIGNIFICANT
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
        return f"{_axis(row)} ({groups}, {_resting_on(row)})"

    def cell(self, results: Results, quantity: Quantity, edit: str) -> Cell:
        """The effect under an edit, with a star where it is worse."""
        starred = quantity.rows[UNEDITED] in _worse(results, edit)
        return Number.of(quantity.rows.get(edit), starred=starred)

    def remaining(self, results: Results, edit: EditRecord) -> list[str]:
        """The axes that got worse under an edit."""
        return [f"group effect on {_grown(results, r, edit.id)}" for r in _worse(results, edit.id)]

    def sentences(self, results: Results) -> list[str]:
        """Where another axis got worse, edit by edit; then the edits under which none did."""
        sentences, harmless, judged = [], dict[str, None](), dict[str, None]()
        for edit in results.shown:
            tested = [row for row, _ in _tested(results, edit.id)]
            judged |= dict.fromkeys(f"{_axis(row)} ({_resting_on(row)})" for row in tested)
            if worse := _worse(results, edit.id):
                several = "Other axes got worse" if len(worse) > 1 else "Another axis got worse"
                grown = ", ".join(_grown(results, row, edit.id) for row in worse)
                control = None if edit.baseline else results.baseline_of(edit)
                if control is not None:
                    axes = [*map(_axis, _worse(results, control.id))]
                    grown += f"; under random directions {and_list(axes or ['none'])} did"
                sentences.append(f"{several} under {edit.name_in_text}: {grown}.")
            elif tested:
                harmless[edit.name_in_text] = None
        if harmless:
            sentences.append(
                f"No other axis got worse under {and_list(harmless)}: the group effect did not "
                f"grow beyond its interval on {and_list(judged)}."
            )
        return sentences


def _tested(results: Results, edit: str) -> list[tuple[Row, Row]]:
    """The effect on every axis before an edit, and its change, where that was tested."""
    pairs = [(row, results.under(row, edit, CHANGE)) for row in results.unedited(EFFECT)]
    return [(row, c) for row, c in pairs if c is not None and "p_adjusted" in c.detail]


def _worse(results: Results, edit: str) -> list[Row]:
    """The effect before an edit on the axes that got worse."""
    return [
        row
        for row, change in _tested(results, edit)
        if change.detail["p_adjusted"] <= SIGNIFICANT
        and (change.value or 0.0) >= max(LEAST_NATS, LEAST * (row.value or 0.0))
    ]


def _grown(results: Results, before: Row, edit: str) -> str:
    """An axis with the effect before and after an edit."""
    change, after = results.under(before, edit, CHANGE), results.under(before, edit)
    ends = (change.lo, change.hi) if change else (None, None)
    digits = 2 if round(ends[0] or 0.0, 2) else 3  # an end above 0 is not shown as 0
    lo, hi = (Number(end, digits=digits, signed=True).text for end in ends)
    was, now = (Number.of(row, 2).text for row in (before, after))
    return f"{_axis(before)} {was} → {now} nats [{lo}, {hi}]"


def _axis(row: Row) -> str:
    """The axis of a set, and the set's name where it is another."""
    return ", ".join(dict.fromkeys((row.axis, set_label(row))))


def _resting_on(row: Row) -> str:
    people = row.detail["people"] if "p_adjusted" in row.detail else 0
    return f"{people} people a group" if people else "group words only"
