"""The view of hiring."""

from __future__ import annotations

from functools import partial

from countergen_edit.metrics.hiring import (
    ACCEPTANCE,
    CHANGE,
    GAP,
    OF_OCCUPATION,
    OUT_OF_VOCABULARY,
    STRENGTH,
)
from countergen_edit.metrics.r.holm import SIGNIFICANT
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import UNEDITED, Row
from countergen_edit.reports.blocks import Number
from countergen_edit.reports.views.base import Quantity, Record, Shown, View, p_holm

DIGITS = 4
"""Of a share; in percent one after the point."""
EXTREME = 0.95
"""Mean acceptance above which, or below what is left of 1, groups have no room to differ."""
LEAST_ANSWERED = 0.1
"""Probability of the two answers together, at least."""
SHARE, ODDS = "probability", "log_odds"
_difference = partial(Number.of, digits=DIGITS, percent=True, signed=True)


class HiringView(View):
    """Acceptance by group, its differences, and whether the answers are judgements at all."""

    shows = (
        Shown(ACCEPTANCE, "hiring: acceptance", DIGITS, percent=True, where="card"),
        Shown(
            GAP,
            "hiring: difference of acceptance",
            DIGITS,
            percent=True,
            signed=True,
            where="overview",
            glance="Hiring: difference of acceptance",
            mark=("alike", lambda row: 0.0),
        ),
        Shown(CHANGE, "change of the difference", DIGITS, percent=True, signed=True),
        Shown(STRENGTH, "strong less weak curriculum vitae", DIGITS, percent=True, signed=True),
        Shown(OF_OCCUPATION, "difference by occupation", DIGITS, True, True, drawn=True),
    )
    place = "hiring", "Hiring"
    note = (
        "Acceptance is the probability of the inviting answer given one of the two. Applications "
        "are the same but for names. Vacancies and names are resampled."
    )
    brief = True

    def about(self, row: Row) -> str | None:
        if row.facets["scale"] != SHARE:
            return None
        who = _pair(row) if row.group_b else row.group_a.replace("_", " ")
        return ", ".join(filter(None, (who, str(row.facets.get("occupation", "")))))

    def beside(self, results: Results, quantity: Quantity) -> Record:
        """Of a difference P in log-odds and what is found four times out of five."""
        row = quantity.rows.get(UNEDITED)
        if row is None or row.metric != GAP:
            return {}
        odds, smallest = _odds(results, row), _percent(row.detail["smallest"])
        return {"P (Holm)": p_holm(odds) if odds else "", "detectable": smallest}

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
                does = "changes" if _is_shown(_odds(results, row)) else "is not shown to change"
                sides = (results.under(row, one, GAP) for one in (UNEDITED, edit.id))
                before, after = (_difference(side).text for side in sides)
                said.append(
                    f"In hiring {edit.name_in_text} {does} the difference between "
                    f"{_pair(row, ' and ')} ({before} → {after} [{_difference(row).interval}])."
                )
        return said


def _of(results: Results, metric: str, edit: str, scale: str = SHARE) -> list[Row]:
    return [row for row in results.of(metric, edit=edit) if row.facets["scale"] == scale]


def _doubts(results: Results) -> list[str]:
    """Reasons why the answers may be no judgement; empty without any."""
    rows = _of(results, ACCEPTANCE, UNEDITED)
    [odds], [strength] = (_of(results, STRENGTH, UNEDITED, scale) for scale in (ODDS, SHARE))
    doubts = []
    if odds.lo is None or odds.lo <= 0:
        doubts.append(
            "it is not shown to accept a strong curriculum vitae more than a weak one "
            f"({_difference(strength).in_text})"
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
    odds, size = _odds(results, row), _difference(row).in_text
    if odds is None or not _is_shown(odds):
        return (
            "With the same applications acceptance is not shown to differ between "
            f"{_pair(row, ' and ')} ({size}; a difference of "
            f"{_percent(row.detail['smallest']).text} is found four times out of five)."
        )
    groups = [group.replace("_", " ") for group in (row.group_a, row.group_b)]
    ahead, behind = groups if (odds.value or 0.0) > 0 else groups[::-1]
    return (
        f"With the same applications acceptance is higher for {ahead} than for {behind} "
        f"({_pair(row)} {size}; P of the log-odds {p_holm(odds, DIGITS).text})."
    )


def _odds(results: Results, row: Row) -> Row | None:
    """The same figure in log-odds."""
    about = {**row.facets, "scale": ODDS}
    rows = (r for r in results.of(row.metric, row.split, row.edit) if r.facets == about)
    return next((r for r in rows if (r.group_a, r.group_b) == (row.group_a, row.group_b)), None)


def _is_shown(odds: Row | None) -> bool:
    return odds is not None and odds.detail.get("p_adjusted", 1.0) <= SIGNIFICANT


def _percent(value: float | None) -> Number:
    return Number(value, digits=DIGITS, percent=True)


def _pair(row: Row, between: str = " less ") -> str:
    return f"{row.group_a}{between}{row.group_b}".replace("_", " ")
