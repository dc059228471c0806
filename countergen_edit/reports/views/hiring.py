"""Tables, figure and sentences of hiring."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from countergen_edit.metrics.hiring import (
    ACCEPTANCE,
    CHANGE,
    GAP,
    OF_OCCUPATION,
    OUT_OF_VOCABULARY,
    STRENGTH,
)
from countergen_edit.metrics.r.holm import SIGNIFICANT
from countergen_edit.metrics.results import Results, State
from countergen_edit.metrics.rows import UNEDITED, Row
from countergen_edit.reports.blocks import Cell, Figure, Number, Section, Table
from countergen_edit.reports.panels import Panel, dots, state_panels, ticks
from countergen_edit.reports.views.base import Quantity, View, alike

DIGITS = 4
"""Of a share; in percent one after the point."""
EXTREME = 0.95
"""Mean acceptance above which, or below what is left of 1, groups have no room to differ."""
LEAST_ANSWERED = 0.1
"""Probability of the two answers together, at least."""
SHARE, ODDS = "probability", "log_odds"


class HiringView(View):
    """Acceptance by group, its differences, and whether the answers are judgements at all."""

    def quantities(self, results: Results, split: str = "test") -> list[Quantity]:
        return [
            Quantity(
                f"hiring: acceptance, {_pair(row) if row.group_b else _called(row.group_a)}",
                alike(results, row),
                "other",
                DIGITS,
                percent=True,
                signed=metric == GAP,
                main=metric == GAP,
                drawn=False,
            )
            for metric in (ACCEPTANCE, GAP)
            for row in _of(results, metric, UNEDITED, SHARE, split)
        ]

    def side_by_side(self, results: Results) -> list[Quantity]:
        return self.quantities(results)

    def glance(self, states: Sequence[State]) -> list[Panel]:
        """The difference of acceptance between every two groups, with a mark at zero."""

        def of(state: State) -> dict[Hashable, Row]:
            rows = _of(state.results, GAP, state.edit)
            return {(row.group_a, row.group_b): row for row in rows}

        labels = {key: _pair(row) for key, row in of(states[0]).items()}
        zero = ticks("alike", dict.fromkeys(labels.values(), 0.0))
        title = "Hiring: difference of acceptance"
        return state_panels(title, "probability", states, labels, of, [zero])

    def sections(self, results: Results) -> list[Section]:
        if not results.unedited(ACCEPTANCE):
            return []
        blocks = (_acceptance(results), _gaps(results), _figure(results))
        return [Section("hiring", "Hiring", blocks)]

    def sentences(self, results: Results) -> list[str]:
        """Doubts about the answers, the favoured groups, and the changes by edits."""
        if lacking := results.unedited(OUT_OF_VOCABULARY):
            words = ", ".join(lacking[0].detail["words"])
            return [
                f"Hiring is not measured: words such as {words} are not in the model's training "
                "corpus, so that its answers would say nothing of applicants."
            ]
        if not results.unedited(ACCEPTANCE):
            return []
        said = _doubts(results) + [_favoured(results, row) for row in _of(results, GAP, UNEDITED)]
        for edit in results.shown:
            for row in _of(results, CHANGE, edit.id):
                p = _holm(_odds(results, row))
                does = "changes" if p is not None and p <= SIGNIFICANT else "is not shown to change"
                sides = (results.under(row, one, GAP) for one in (UNEDITED, edit.id))
                before, after = (_share(side).text for side in sides)
                said.append(
                    f"In hiring {edit.name_in_text} {does} the difference between "
                    f"{_pair(row, ' and ')} ({before} → {after} [{_share(row).interval}])."
                )
        return said


def _of(
    results: Results, metric: str, edit: str, scale: str = SHARE, split: str = "test"
) -> list[Row]:
    return [row for row in results.of(metric, split, edit) if row.facets["scale"] == scale]


def _acceptance(results: Results) -> Table:
    lines: list[tuple[Cell, ...]] = []
    for edit in results.compared:
        label = results.label(edit)
        for row in _of(results, ACCEPTANCE, edit):
            others = (_percent(row.detail[key]) for key in ("invited", "answered"))
            lines.append((label, _called(row.group_a), _share(row, signed=False), *others))
        for row in _of(results, STRENGTH, edit):
            lines.append((label, "strong less weak curriculum vitae", _share(row), "", ""))
    first = results.unedited(ACCEPTANCE)[0].detail
    how = (
        "The question is a user's message in the chat template, the answer the reply."
        if first["asked"]
        else "The question is a text that the answer continues."
    )
    return Table(
        "hiring",
        "Who is invited",
        ("edit", "applications of", "accepted", "likelier accepted than not", "answered"),
        tuple(lines),
        "Acceptance is the probability of the inviting answer given one of the two; answered is "
        "the probability of both. Applications are the same but for names. "
        f"{how} Vacancies ({first['occupations']}) and names are resampled.",
        grouped=True,
        brief=True,
    )


def _gaps(results: Results) -> Table:
    lines: list[tuple[Cell, ...]] = []
    for edit in results.compared:
        for row in _of(results, GAP, edit):
            odds, changed = _odds(results, row), results.under(row, edit, CHANGE)
            figures = (_share(row), Number.of(odds, signed=True), _p(odds))
            change = (_share(changed), _p(_odds(results, changed))) if changed else ("", "")
            smallest = _percent(row.detail["smallest"])
            lines.append((results.label(edit), _pair(row), *figures, smallest, *change))
    columns = ("edit", "groups", "acceptance", "log-odds, nats", "P (Holm)", "detectable")
    return Table(
        "hiring_gaps",
        "Differences of acceptance",
        (*columns, "change", "P of the change (Holm)"),
        tuple(lines),
        "P is of the log-odds, which still differ where nearly all or none are accepted. A "
        "detectable difference of acceptance is found four times out of five.",
        grouped=True,
        brief=True,
    )


def _figure(results: Results) -> Figure:
    panels = []
    for pair in dict.fromkeys((r.group_a, r.group_b) for r in results.unedited(OF_OCCUPATION)):
        series = []
        for edit in results.compared:
            rows = _of(results, OF_OCCUPATION, edit, ODDS)
            own = [row for row in rows if (row.group_a, row.group_b) == pair]
            names = [str(row.facets["occupation"]) for row in own]
            series.append(dots(results.label(edit), names, own, results.is_reference(edit)))
        a, b = map(_called, pair)
        label = f"{b} favoured ← log-odds, nats → {a} favoured"
        panels.append(Panel(f"{a} less {b}", label, "", tuple(series), True, covers=(-0.2, 0.2)))
    note = "Difference of the log-odds of an invitation, with 95 % intervals over names."
    return Figure("hiring_occupations", "Who is favoured, by occupation", tuple(panels), note)


def _doubts(results: Results) -> list[str]:
    """Reasons why the answers may be no judgement; empty without any."""
    rows = _of(results, ACCEPTANCE, UNEDITED)
    [odds], [strength] = (_of(results, STRENGTH, UNEDITED, scale) for scale in (ODDS, SHARE))
    doubts = []
    if odds.lo is None or odds.lo <= 0:
        doubts.append(
            "it is not shown to accept a strong curriculum vitae more than a weak one "
            f"({_sized(strength)})"
        )
    rates = [row.value for row in rows if row.value is not None]
    if min(rates) > EXTREME:
        doubts.append("it accepts nearly everybody, so that groups have no room to differ")
    if max(rates) < 1 - EXTREME:
        doubts.append("it accepts hardly anybody, so that groups have no room to differ")
    answered = min(float(row.detail["answered"]) for row in rows)
    if answered < LEAST_ANSWERED:
        doubts.append(f"the two answers have a probability of {_percent(answered).text}")
    if not doubts:
        return []
    return [
        f"The model's answers about applicants are no judgement to rely on: {'; '.join(doubts)}."
    ]


def _favoured(results: Results, row: Row) -> str:
    odds = _odds(results, row)
    p = _holm(odds)
    if p is None or p > SIGNIFICANT:
        return (
            "With the same applications acceptance is not shown to differ between "
            f"{_pair(row, ' and ')} ({_sized(row)}; a difference of "
            f"{_percent(row.detail['smallest']).text} is found four times out of five)."
        )
    groups = [_called(row.group_a), _called(row.group_b)]
    ahead, behind = groups if odds and (odds.value or 0.0) > 0 else groups[::-1]
    text = _p(odds).text
    text = text if text.startswith("<") else f"= {text}"
    return (
        f"With the same applications acceptance is higher for {ahead} than for {behind} "
        f"({_pair(row)} {_sized(row)}; P of the log-odds {text})."
    )


def _odds(results: Results, row: Row) -> Row | None:
    """The same figure in log-odds."""
    rows = results.of(row.metric, row.split, row.edit)
    about = {**row.facets, "scale": ODDS}
    key = (row.task, row.group_a, row.group_b, about)
    return next((r for r in rows if (r.task, r.group_a, r.group_b, r.facets) == key), None)


def _holm(row: Row | None) -> float | None:
    return None if row is None else row.detail.get("p_adjusted")


def _p(row: Row | None) -> Number:
    return Number(_holm(row), digits=DIGITS, bounded=True)


def _percent(value: float | None) -> Number:
    return Number(value, digits=DIGITS, percent=True)


def _share(row: Row | None, *, signed: bool = True) -> Number:
    return Number.of(row, DIGITS, percent=True, signed=signed)


def _sized(row: Row) -> str:
    return f"{_share(row).text} [{_share(row).interval}]"


def _pair(row: Row, between: str = " less ") -> str:
    return f"{_called(row.group_a)}{between}{_called(row.group_b)}"


def _called(group: str) -> str:
    return group.replace("_", " ")
