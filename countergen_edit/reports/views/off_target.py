"""Table and sentences of the group effect on other axes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from countergen_edit.edits import EditRecord
from countergen_edit.metrics.off_target import CHANGE
from countergen_edit.metrics.r.holm import SIGNIFICANT
from countergen_edit.metrics.r.paired import LEAST
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import Row, set_label
from countergen_edit.reports.blocks import Cell, Number, Section, Table
from countergen_edit.reports.views.base import Quantity, View, alike

LEAST_NATS = 0.01
"""What a group effect must grow by to be called worse, beside `LEAST` of what it was."""


WORSE = (
    ", on axes that no edit was fitted on. * is where an edit made it larger: by "
    f"{100 * LEAST:.0f} % and {LEAST_NATS} nats or more, and P ≤ {SIGNIFICANT} (Holm over axes; "
    "before and after are drawn alike)"
)


def is_worse(before: Row, change: Row | None) -> bool:
    """Whether a row `off_target_change` shows that the group effect of a row grew."""
    if change is None or "p_adjusted" not in change.detail:
        return False
    least = max(LEAST_NATS, LEAST * (before.value or 0.0))
    return change.detail["p_adjusted"] <= SIGNIFICANT and (change.value or 0.0) >= least


def _grown(before: Row, after: Row | None, change: Row) -> str:
    digits = 2 if round(change.lo or 0.0, 2) else 3  # an end above 0 is not shown as 0
    ends = [Number(end, digits=digits, signed=True).text for end in (change.lo, change.hi)]
    was, now = (Number.of(row, digits=2).text for row in (before, after))
    return f"{was} → {now} nats [{', '.join(ends)}]"


def _control(results: Results, edit: EditRecord, rows: Sequence[Row]) -> str:
    """On which axes random directions of equal rank made it worse."""
    control = None if edit.baseline else results.baseline_of(edit)
    if control is None:
        return ""
    grown = [row for row in rows if is_worse(row, results.under(row, control.id, CHANGE))]
    worse = [_axis(row, rows) for row in grown]
    return f"; under random directions {_listed(worse or ['none'])} did"


def _axis(row: Row, rows: Sequence[Row]) -> str:
    """The axis of a set, with the set's name where the axis has several."""
    several = sum(other.axis == row.axis for other in rows) > 1
    return f"{row.axis}, {set_label(row)}" if several else row.axis


def _people(row: Row) -> int:
    """How many people a group a `off_target` row rests on; 0 where words show the groups."""
    return int(row.detail["people"]) if "p_adjusted" in row.detail else 0


def _resting_on(row: Row) -> str:
    people = _people(row)
    return f"{people} people a group" if people else "group words only"


def _listed(parts: Iterable[str]) -> str:
    """Parts as a sentence lists them.

    >>> _listed(["race", "age", "religion"])
    'race, age and religion'
    """
    *most, last = parts
    return f"{', '.join(most)} and {last}" if most else last


class OffTargetView(View):
    """The group effect on axes that no edit was fitted on."""

    def quantities(self, results: Results, split: str = "test") -> list[Quantity]:
        """The group effect on every other axis."""
        rows = results.unedited("off_target", split)
        return [
            Quantity(
                f"group effect on another axis, {_axis(row, rows)}",
                alike(results, row),
                "other",
                main=False,
                drawn=False,
            )
            for row in rows
        ]

    def sections(self, results: Results) -> list[Section]:
        """A line for each other axis, a column for each edit."""
        rows = results.unedited("off_target")
        if not rows:
            return []
        lines: list[tuple[Cell, ...]] = []
        for row in rows:
            cells = []
            for edit in results.compared:
                starred = is_worse(row, results.under(row, edit, CHANGE))
                cells.append(Number.of(results.under(row, edit), starred=starred))
            groups = f"{row.group_a}, {row.group_b}".replace("_", " ")
            lines.append((_axis(row, rows), groups, str(_people(row) or "–"), *cells))
        columns = ("axis", "groups", "people a group", *map(results.label, results.compared))
        table = Table(
            "other_axes",
            "Other axes",
            columns,
            tuple(lines),
            f"Group effect, nats{'' if results.is_unedited else WORSE}. Without people words tell "
            "the groups apart.",
            brief=True,
        )
        return [Section("other_axes", "Other axes", (table,))]

    def remaining(self, results: Results, edit: EditRecord) -> list[str]:
        """The axes that got worse under an edit."""
        rows = results.unedited("off_target")
        changed = [(row, results.under(row, edit.id, CHANGE)) for row in rows]
        return [
            f"group effect on {_axis(row, rows)} {_grown(row, results.under(row, edit.id), change)}"
            for row, change in changed
            if change is not None and is_worse(row, change)
        ]

    def sentences(self, results: Results) -> list[str]:
        """Where another axis got worse, edit by edit; then the edits under which none did."""
        rows = results.unedited("off_target")
        sentences, harmless, judged = [], [], dict[str, Row]()
        for edit in results.shown:
            pairs = [(row, results.under(row, edit.id, CHANGE)) for row in rows]
            known = [(row, change) for row, change in pairs if change is not None]
            tested = [(row, change) for row, change in known if "p_adjusted" in change.detail]
            judged |= {row.dataset: row for row, _ in tested}
            worse = [(row, change) for row, change in tested if is_worse(row, change)]
            if worse:
                several = "Other axes got worse" if len(worse) > 1 else "Another axis got worse"
                grown = [
                    f"{_axis(row, rows)} {_grown(row, results.under(row, edit.id), change)}"
                    for row, change in worse
                ]
                sentences.append(
                    f"{several} under {edit.name_in_text}: {', '.join(grown)}"
                    f"{_control(results, edit, rows)}."
                )
            elif tested:
                harmless.append(edit.name_in_text)
        if harmless:
            under = _listed(dict.fromkeys(harmless))
            axes = _listed(f"{_axis(row, rows)} ({_resting_on(row)})" for row in judged.values())
            sentences.append(
                f"No other axis got worse under {under}: the group effect did not grow beyond its "
                f"interval on {axes}."
            )
        return sentences
