"""Tables, figure and sentences of hiring.

A model that ignores applications, invites everybody or nobody, or does not answer is said to do so
first.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from countergen_edit.metrics.hiring.decisions import (
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
from countergen_edit.reports.blocks import Block, Cell, Figure, Number, Section, Table
from countergen_edit.reports.panels import Panel, dots, state_panels, ticks
from countergen_edit.reports.views.base import Quantity, View, alike

DIGITS = 4
"""Of a share; in percent one after the point."""
EXTREME = 0.95
"""Mean acceptance from which on, or below what is left of 1, groups have no room to differ."""
LEAST_ANSWERED = 0.1
"""Share of the probability that the two answers take at least where the question is answered."""


def _of(rows: Sequence[Row], scale: str) -> list[Row]:
    return [row for row in rows if row.facets["scale"] == scale]


def quantities(results: Results, split: str) -> list[Quantity]:
    """Acceptance of each group and its difference between every two."""
    titles = {
        ACCEPTANCE: "hiring: acceptance, {a}",
        GAP: "hiring: acceptance, {a} less {b}",
    }
    return [
        Quantity(
            title.format(a=_called(row.group_a), b=_called(row.group_b)),
            alike(results, row),
            "other",
            DIGITS,
            percent=True,
            signed=metric == GAP,
            main=metric == GAP,
            drawn=False,
        )
        for metric, title in titles.items()
        for row in _of(results.unedited(metric, split), "probability")
    ]


def glance(states: Sequence[State]) -> list[Panel]:
    """The difference of acceptance between every two groups, with a mark at zero."""

    def of(state: State) -> dict[Hashable, Row]:
        rows = _of(state.results.of(GAP, edit=state.edit), "probability")
        return {(row.group_a, row.group_b): row for row in rows}

    labels = {key: _pair(row) for key, row in of(states[0]).items()}
    alike = ticks("alike", dict.fromkeys(labels.values(), 0.0))
    title = "Hiring: difference of acceptance"
    return state_panels(title, "probability", states, labels, of, [alike])


def sections(results: Results) -> list[Section]:
    """A tab, if hiring was measured."""
    if not results.unedited(ACCEPTANCE):
        return []
    blocks: list[Block] = [_acceptance(results), _gaps(results), _occupations(results)]
    return [Section("hiring", "Hiring", (*blocks, _figure(results)))]


def _acceptance(results: Results) -> Table:
    lines: list[tuple[Cell, ...]] = []
    for edit in results.compared:
        for row in _of(results.of(ACCEPTANCE, edit=edit), "probability"):
            invited, answered = (
                Number(row.detail[key], digits=DIGITS, percent=True)
                for key in ("invited", "answered")
            )
            rate = _share(row, signed=False)
            lines.append((results.label(edit), _called(row.group_a), rate, invited, answered))
        for row in _of(results.of(STRENGTH, edit=edit), "probability"):
            name = "strong less weak curriculum vitae"
            lines.append((results.label(edit), name, _share(row), "", ""))
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
        "Acceptance is the probability of the answer that invites where one of the two is given; "
        "answered is what of the probability both take. All send the same applications, with "
        f"their own names. {how} Vacancies ({first['occupations']}) and people are drawn.",
        grouped=True,
        brief=True,
    )


def _gaps(results: Results) -> Table:
    lines: list[tuple[Cell, ...]] = []
    for edit in results.compared:
        for row in _of(results.of(GAP, edit=edit), "probability"):
            odds = _other_scale(results, row)
            changed = results.under(row, edit, CHANGE)
            lines.append(
                (
                    results.label(edit),
                    _pair(row),
                    _share(row),
                    Number.of(odds, signed=True),
                    _p(odds),
                    Number(row.detail["smallest"], digits=DIGITS, percent=True),
                    _share(changed) if changed else "",
                    _p(_other_scale(results, changed)) if changed else "",
                )
            )
    return Table(
        "hiring_gaps",
        "Differences of acceptance",
        (
            *("edit", "groups", "acceptance", "log-odds, nats", "P (Holm)"),
            *("smallest that is found", "change", "P of the change (Holm)"),
        ),
        tuple(lines),
        "P is of the log-odds, which still differ where nearly all are accepted or nobody is. The "
        "smallest true difference of acceptance that such data find four times out of five.",
        grouped=True,
        brief=True,
    )


def _occupations(results: Results) -> Table:
    lines: list[tuple[Cell, ...]] = [
        (
            results.label(edit),
            str(row.facets["occupation"]),
            _pair(row),
            _share(row),
            Number.of(_other_scale(results, row), signed=True),
            _p(_other_scale(results, row)),
        )
        for edit in results.compared
        for row in _of(results.of(OF_OCCUPATION, edit=edit), "probability")
    ]
    return Table(
        "hiring_occupations",
        "Differences by occupation",
        ("edit", "occupation", "groups", "acceptance", "log-odds, nats", "P (Holm)"),
        tuple(lines),
        "Of one vacancy people alone are drawn: its figure is of this advertisement. P is adjusted "
        "over all occupations of an edit.",
        grouped=True,
    )


def _figure(results: Results) -> Figure:
    panels = []
    for pair in dict.fromkeys((r.group_a, r.group_b) for r in results.unedited(OF_OCCUPATION)):
        series = []
        for edit in results.compared:
            rows = _of(results.of(OF_OCCUPATION, edit=edit), "log_odds")
            own = [row for row in rows if (row.group_a, row.group_b) == pair]
            names = [str(row.facets["occupation"]) for row in own]
            series.append(dots(results.label(edit), names, own, results.is_reference(edit)))
        a, b = map(_called, pair)
        label = f"{b} favoured ← log-odds, nats → {a} favoured"
        panels.append(Panel(f"{a} less {b}", label, "", tuple(series), True, covers=(-0.2, 0.2)))
    note = "Difference of the log-odds of an invitation, with 95 % intervals over people."
    return Figure("hiring_occupations", "Who is favoured, by occupation", tuple(panels), note)


def sentences(results: Results) -> list[str]:
    """Whether the answers are judgements, who is favoured, and what edits change."""
    lacking = results.unedited(OUT_OF_VOCABULARY)
    if lacking:
        words = ", ".join(lacking[0].detail["words"])
        return [
            f"Hiring is not measured: in training this model never met such words as {words}, so "
            "that its answers would say nothing of applicants."
        ]
    if not results.unedited(ACCEPTANCE):
        return []
    said = [_doubts(results), *_favoured(results, UNEDITED)]
    for edit in results.shown:
        said += _changed(results, edit.id, edit.name_in_text)
    return [sentence for sentence in said if sentence]


def _doubts(results: Results) -> str:
    """Why the answers may be no judgement; empty without a reason."""
    rows = _of(results.unedited(ACCEPTANCE), "probability")
    [odds] = _of(results.unedited(STRENGTH), "log_odds")
    doubts = []
    if odds.lo is None or odds.lo <= 0:
        [strength] = _of(results.unedited(STRENGTH), "probability")
        number = _share(strength)
        doubts.append(
            "it is not shown to accept a strong curriculum vitae more than a weak one "
            f"({number.text} [{number.interval}])"
        )
    rates = [row.value for row in rows if row.value is not None]
    if min(rates) > EXTREME:
        doubts.append("it accepts nearly everybody, so that groups have no room to differ")
    if max(rates) < 1 - EXTREME:
        doubts.append("it accepts hardly anybody, so that groups have no room to differ")
    answered = min(float(row.detail["answered"]) for row in rows)
    if answered < LEAST_ANSWERED:
        share = Number(answered, digits=DIGITS, percent=True).text
        doubts.append(f"the two answers are {share} of what it would say")
    if not doubts:
        return ""
    return f"What the model says of applicants is no judgement to rely on: {'; '.join(doubts)}."


def _favoured(results: Results, edit: str) -> list[str]:
    said = []
    for row in _of(results.of(GAP, edit=edit), "probability"):
        odds = _other_scale(results, row)
        number = _share(row)
        a, b = _called(row.group_a), _called(row.group_b)
        p = None if odds is None else odds.detail.get("p_adjusted")
        if p is None or odds is None or odds.value is None or p > SIGNIFICANT:
            smallest = Number(row.detail["smallest"], digits=DIGITS, percent=True).text
            said.append(
                f"With the same applications acceptance is not shown to differ between {a} and {b} "
                f"({number.text} [{number.interval}]; one of {smallest} is found four times out of "
                "five)."
            )
        else:
            ahead, behind = (a, b) if odds.value > 0 else (b, a)
            said.append(
                f"With the same applications acceptance is higher for {ahead} than for {behind} "
                f"({a} less {b} {number.text} [{number.interval}]; P of the log-odds {_p_text(p)})."
            )
    return said


def _changed(results: Results, edit: str, called: str) -> list[str]:
    said = []
    for row in _of(results.of(CHANGE, edit=edit), "probability"):
        odds = _other_scale(results, row)
        before, after = results.under(row, UNEDITED, GAP), results.under(row, edit, GAP)
        p = None if odds is None else odds.detail.get("p_adjusted")
        does = "changes" if p is not None and p <= SIGNIFICANT else "is not shown to change"
        shown = [_share(r).text for r in (before, after)]
        interval = _share(row).interval
        said.append(
            f"In hiring {called} {does} the difference between {_called(row.group_a)} and "
            f"{_called(row.group_b)} ({shown[0]} → {shown[1]} [{interval}])."
        )
    return said


def _other_scale(results: Results, row: Row) -> Row | None:
    """The same figure in log-odds."""
    rows = results.of(row.metric, row.split, row.edit)
    about = {**row.facets, "scale": "log_odds"}
    key = (row.task, row.group_a, row.group_b, about)
    return next((r for r in rows if (r.task, r.group_a, r.group_b, r.facets) == key), None)


def _share(row: Row | None, *, signed: bool = True) -> Number:
    return Number.of(row, DIGITS, percent=True, signed=signed)


def _pair(row: Row) -> str:
    return f"{_called(row.group_a)} less {_called(row.group_b)}"


def _called(group: str) -> str:
    return group.replace("_", " ")


def _p(row: Row | None) -> Number:
    p = None if row is None else row.detail.get("p_adjusted")
    return Number(p, digits=DIGITS, bounded=True)


def _p_text(p: float) -> str:
    text = Number(p, digits=DIGITS, bounded=True).text
    return text if text.startswith("<") else f"= {text}"


class HiringView(View):
    """The tables, figures and sentences of `Hiring`."""

    def quantities(self, results: Results, split: str = "test") -> list[Quantity]:
        return quantities(results, split)

    def glance(self, states: Sequence[State]) -> list[Panel]:
        return glance(states)

    def side_by_side(self, results: Results) -> list[Quantity]:
        return quantities(results, "test")

    def sections(self, results: Results) -> list[Section]:
        return sections(results)

    def sentences(self, results: Results) -> list[str]:
        return sentences(results)
