"""The views of costs and of effects on other axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from countergen_edit.decisions import JUDGEMENT
from countergen_edit.decisions.significance import is_significant
from countergen_edit.edits import EditRecord
from countergen_edit.metrics.r.effect_rows import LEAST, OFF_TARGET_CHANGE, SIGNIFICANT
from countergen_edit.metrics.results import Results, State
from countergen_edit.metrics.rows import UNEDITED, Row, set_label
from countergen_edit.reports.blocks import Cell, Number
from countergen_edit.reports.panels import Panel
from countergen_edit.reports.views import base

_EFFECT = "off_target"
LEAST_NATS = 0.01
"""Least growth of a group effect that is called worse, besides the share `LEAST` of it."""


class PerplexityView(base.CostView, declared="perplexity"):
    """The ratio to the unedited model, and perplexity itself."""

    def shown(self, results: Results) -> tuple[base.Shown, ...]:
        if not results.is_unedited:
            return super().shown(results)
        return tuple(replace(how, where="overview") for how in self.shows)


class AgreementView(base.CostView, declared="agreement"):
    """Agreement of both groups together, in figures, and of each, in tables."""

    def glance(self, states: Sequence[State]) -> list[Panel]:
        """With an edit, the axis covers the losses and the budget: most losses are small."""
        panels, results = super().glance(states), states[0].results
        if not panels or results.is_unedited:
            return panels
        budgets = dict(*(row.detail["budgets"] for row in results.of(JUDGEMENT)[:1]))
        budget, first = budgets.get(self.name, self.metric.default_budget), panels[0].series[0]
        ends = {str(x): y - budget for x, y in zip(first.x, first.y, strict=True)}
        least = base.mark("budget", ends)
        series, top = (*panels[0].series, least), (max(first.y), max(first.y))
        return [replace(panels[0], title="Agreement (axis cut)", series=series, limits=top)]

    def about(self, row: Row) -> str | None:
        return base.in_form(f"{row.group_a} / {row.group_b}" if row.group_b else row.group_a, row)

    def quantities(self, results: Results, split: str = "test") -> list[base.Quantity]:
        """Both groups together in figures and each apart in the table of all sets."""
        return [
            replace(q, how=replace(q.how, where="card"))
            if q.rows[UNEDITED].group_b
            else replace(q, how=replace(q.how, drawn=False))
            for q in super().quantities(results, split)
        ]

    def outcome(self, results: Results, edit: EditRecord) -> str:
        changes = [
            f"{row.group_a} {Number.of(row).text} → {Number.of(after).text}"
            for row in results.unedited(self.metric.counts)
            if not row.group_b and (after := results.under(row, edit.id))
        ]
        return f"agreement {', '.join(changes)}" if changes else ""


class OffTargetView(base.View, declared="off_target"):
    """The group effect on axes that no edit was fitted on."""

    note_of_edits = (
        "No edit was fitted on these axes. * is where an edit made the effect larger: by "
        f"{100 * LEAST:.0f} % and {LEAST_NATS} nats or more, and P ≤ {SIGNIFICANT} (Holm over "
        "axes; before and after are drawn alike)."
    )

    def about(self, row: Row) -> str:
        return f"{_axis(row)} ({base.groups_of(row)}, {_resting_on(row)})"

    def cell(self, results: Results, quantity: base.Quantity, edit: str) -> Cell:
        worse = [before for before, _ in _worse(results, edit)]
        return Number.of(quantity.rows.get(edit), starred=quantity.rows[UNEDITED] in worse)

    def remaining(self, results: Results, edit: EditRecord) -> list[str]:
        return [f"group effect on {_grown(results, *w)}" for w in _worse(results, edit.id)]

    def sentences(self, results: Results) -> list[str]:
        """Where another axis got worse, edit by edit; then the edits under which none did."""
        sentences, harmless, judged = [], dict[str, None](), dict[str, None]()
        for edit in results.shown:
            tested = [row for row, _ in _tested(results, edit.id)]
            judged |= dict.fromkeys(f"{_axis(row)} ({_resting_on(row)})" for row in tested)
            if worse := _worse(results, edit.id):
                grown = ", ".join(_grown(results, *pair) for pair in worse)
                if control := None if edit.baseline else results.baseline_of(edit):
                    others = [_axis(before) for before, _ in _worse(results, control.id)]
                    grown += f"; under random directions {base.and_list(others or ['none'])} did"
                which = "Other axes" if len(worse) > 1 else "Another axis"
                sentences.append(f"{which} got worse under {edit.name_in_text}: {grown}.")
            elif tested:
                harmless[edit.name_in_text] = None
        if harmless:
            axes = base.and_list(judged)
            sentences.append(self.say("harmless", edits=base.and_list(harmless), axes=axes))
        return sentences


def _tested(results: Results, edit: str) -> list[tuple[Row, Row]]:
    """The effect on every axis before an edit, and its change, where that was tested."""
    rows = results.unedited(_EFFECT)
    pairs = [(row, results.under(row, edit, OFF_TARGET_CHANGE)) for row in rows]
    return [(row, c) for row, c in pairs if c is not None and "p_adjusted" in c.detail]


def _worse(results: Results, edit: str) -> list[tuple[Row, Row]]:
    return [
        (before, change)
        for before, change in _tested(results, edit)
        if is_significant(change)
        and (change.value or 0.0) >= max(LEAST_NATS, LEAST * (before.value or 0.0))
    ]


def _grown(results: Results, before: Row, change: Row) -> str:
    digits = 2 if round(change.lo or 0.0, 2) else 3  # an end above 0 is not shown as 0
    lo, hi = (Number(end, digits=digits, signed=True).text for end in (change.lo, change.hi))
    was, now = (Number.of(r, 2).text for r in (before, results.under(before, change.edit)))
    return f"{_axis(before)} {was} → {now} nats [{lo}, {hi}]"


def _axis(row: Row) -> str:
    """The axis of a set, and the set's name where it is another."""
    return ", ".join(dict.fromkeys((row.axis, set_label(row))))


def _resting_on(row: Row) -> str:
    people = row.detail["people"] if "p_adjusted" in row.detail else 0
    return f"{people} people a group" if people else "group words only"
