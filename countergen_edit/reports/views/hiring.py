"""The view of hiring."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from countergen_edit.metrics.hiring.rows import (
    ACCEPTANCE,
    CHANGE,
    CONTEXT_CHANGE,
    GAP,
    IMPACT,
    IN_CONTEXT,
    NO_AUDIT,
    OF_OCCUPATION,
    OUT_OF_VOCABULARY,
    OVERCORRECTION,
    PROMPTED,
    RATE,
    STRENGTH,
)
from countergen_edit.metrics.r.effect_rows import SIGNIFICANT
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import UNEDITED, Row
from countergen_edit.reports.blocks import Fold, Number, Section, Table
from countergen_edit.reports.views.base import Quantity, Record, Shown, View, as_table, p_holm

DIGITS = 4
"""Of a share; in percent one after the point."""
EXTREME = 0.95
"""Mean acceptance above which, or below what is left of 1, groups have no room to differ."""
LEAST_ANSWERED = 0.1
"""Probability of the two answers together, at least."""
SHARE, ODDS = "probability", "log_odds"
RATIO = Shown(
    IMPACT, "hiring: impact ratio", 2, where="overview", drawn=True, glance="Hiring: impact ratio"
)
RATES_NOTE = (
    "The selection rate is the share of applications that are likelier accepted than not, the "
    "scoring rate the share with a score above the median; an impact ratio is a rate over the "
    "highest rate by the same axes, whose category is held fixed; it has no "
    "interval where that rate may be 0. Intervals are not adjusted for the number of categories. "
)
_difference = partial(Number.of, digits=DIGITS, percent=True, signed=True)
_rate = partial(Number.of, digits=DIGITS, percent=True)
_ratio = partial(Number.of, digits=2)


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
        Shown(IN_CONTEXT, "difference in a context", DIGITS, percent=True, signed=True),
        Shown(CONTEXT_CHANGE, "change from the placebo context", DIGITS, True, True),
        Shown(PROMPTED, "difference under prompts", DIGITS, percent=True, signed=True),
        Shown(STRENGTH, "strong less weak curriculum vitae", DIGITS, percent=True, signed=True),
        Shown(OF_OCCUPATION, "difference by occupation", DIGITS, True, True, drawn=True),
    )
    place = "hiring", "Hiring"
    note = (
        "Acceptance is the probability of the inviting answer given one of the two. Applications "
        "are the same but for names. Vacancies and names are resampled."
    )
    brief = True

    def shown(self, results: Results) -> tuple[Shown, ...]:
        """Of many pairs impact ratios stand for the differences, and occupations are left out."""
        if len(_of(results, GAP, UNEDITED)) <= 1:
            return self.shows
        kept = (how for how in self.shows if how.name != OF_OCCUPATION)
        return *(replace(how, where="page", glance="") for how in kept), RATIO

    def about(self, row: Row) -> str | None:
        if row.metric == IMPACT:
            return row.detail["people"] if row.facets["rate"] == "selection" else None
        if row.facets["scale"] != SHARE:
            return None
        who = _pair(row) if row.group_b else row.group_a.replace("_", " ")
        facets = (str(row.facets.get(key, "")) for key in ("occupation", "context", "prompts"))
        return ", ".join(filter(None, (who, *facets)))

    def records(self, results: Results) -> list[Record]:
        """Without impact ratios, which have a table of their own."""
        every = super().records(results)
        return [record for record in every if record.get("figure") != RATIO.title]

    def table(self, results: Results) -> list[Table]:
        """Rates by category, then the default table."""
        rates = [
            _category(results, row, edit)
            for first in results.unedited(RATE)
            for edit in results.compared
            if first.facets["rate"] == "selection" and (row := results.under(first, edit))
        ]
        title, note = "Hiring: selection rates and impact ratios", RATES_NOTE + NO_AUDIT
        own = as_table("hiring_rates", title, rates, note, grouped=True, brief=True)
        return own + super().table(results)

    def beside(self, results: Results, quantity: Quantity) -> Record:
        """Of a difference P in log-odds and what is found four times out of five."""
        row = quantity.rows.get(UNEDITED)
        if row is None or row.metric != GAP:
            return {}
        odds, smallest = _odds(results, row), _percent(row.detail["smallest"])
        return {"P (Holm)": p_holm(odds) if odds else "", "detectable": smallest}

    def headline(self, results: Results) -> list[str]:
        """The first sentence, and the lowest impact ratios of the groups."""
        return [*self.sentences(results)[:1], *[*_lowest(results)][-2:]]

    def sections(self, results: Results) -> list[Section]:
        """A tab; differences of many pairs are folded."""
        if self.shown(results) == self.shows:
            return super().sections(results)
        rates, *others = self.table(results)
        title, note = "Impact ratios of selection", "The highest rate has a ratio of 1."
        figures = (replace(one, title=title, note=note) for one in self.figure(results))
        fold = Fold("Differences of every two groups", tuple(others))
        return [Section(*self.place, (rates, *figures, fold))]

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
        said = [*_doubts(results), *_gaps(results), *_lowest(results), *_asked(results)]
        for edit in results.shown:
            rows = _of(results, CHANGE, edit.id)
            changed = [row for row in rows if _is_shown(_odds(results, row))]
            every = _of(results, OVERCORRECTION, edit.id)
            beyond = ", ".join(_pair(row, " and ") for row in every if row.detail["shown"])
            for row in _largest(changed if rows[1:] else rows):
                does = "changes" if row in changed else "is not shown to change"
                sides = (results.under(row, one, GAP) for one in (UNEDITED, edit.id))
                before, after = (_difference(side).text for side in sides)
                said.append(
                    f"In hiring {edit.name_in_text} {does} the difference between "
                    f"{_pair(row, ' and ')} ({before} → {after} [{_difference(row).interval}])."
                )
            if rows[1:]:
                said.append(
                    f"In hiring {edit.name_in_text} is shown to change the difference of "
                    f"{len(changed)} of {len(rows)} pairs of groups."
                )
            said.append(
                f"In hiring {edit.name_in_text} overcorrects the difference between {beyond}: "
                "its sign is reversed."
                if beyond
                else f"Overcorrection by {edit.name_in_text} in hiring is not shown."
            )
        return said


def _of(results: Results, metric: str, edit: str, scale: str = SHARE) -> list[Row]:
    return [row for row in results.of(metric, edit=edit) if row.facets["scale"] == scale]


def _category(results: Results, row: Row, edit: str) -> Record:
    """A line of the table of rates."""
    scores = replace(row, facets=row.facets | {"rate": "scoring"})
    return {
        "by": row.axis.replace("_", " and "),
        "category": row.detail["people"],
        **({} if results.is_unedited else {"edit": results.label(edit)}),
        "selection rate": _rate(row),
        "impact ratio": _ratio(results.under(row, edit, IMPACT)),
        "scoring rate": _rate(results.under(scores, edit)),
        "impact ratio of scores": _ratio(results.under(scores, edit, IMPACT)),
        "applications": str(row.n),
    }


def _gaps(results: Results) -> Iterator[str]:
    """The favoured group; of many pairs that with the largest difference, and their number."""
    rows = _of(results, GAP, UNEDITED)
    found = [row for row in rows if _is_shown(_odds(results, row))]
    yield from (_favoured(results, row) for row in _largest(found if rows[1:] else rows))
    if rows[1:]:
        does = f"is shown to differ in {len(found)}" if found else "is not shown to differ in any"
        yield f"With the same applications acceptance {does} of {len(rows)} pairs of groups."


def _largest(rows: Sequence[Row]) -> Sequence[Row]:
    return [max(rows, key=lambda row: abs(row.value or 0.0))] if rows else []


def _lowest(results: Results) -> Iterator[str]:
    """The lowest impact ratios by each axis and by their intersections."""
    rows = results.unedited(IMPACT)
    for axis, kind in dict.fromkeys((row.axis, row.facets["rate"]) for row in rows):
        by, own = axis.replace("_", " and "), [row for row in rows if row.axis == axis]
        known = [row for row in own if row.facets["rate"] == kind and row.value is not None]
        if not known:
            yield f"No impact ratio by {by} is defined, as no application is accepted."
            continue
        least = min(known, key=lambda row: row.value or 0.0)
        rate = _rate(results.under(least, UNEDITED, RATE)).in_text
        yield (
            f"{str(kind).title()} rate of {least.detail['people']}: {rate}; impact ratio "
            f"{_ratio(least).in_text} to {least.detail['reference']}, the lowest by {by}."
        )


def _asked(results: Results) -> Iterator[str]:
    """Of two groups the gap in contexts and under prompts."""
    if len(_of(results, GAP, UNEDITED)) > 1:
        return
    for row in _of(results, CONTEXT_CHANGE, UNEDITED):
        here = _difference(results.under(row, UNEDITED, IN_CONTEXT)).in_text
        does = "" if _is_shown(_odds(results, row)) else ", not significant"
        yield (
            f"In the context {row.facets['context']} the difference between {_pair(row, ' and ')} "
            f"is {here}; less that in a placebo of like length {_difference(row).in_text}{does}."
        )
    by = {row.facets["prompts"]: row for row in _of(results, PROMPTED, UNEDITED)}
    if by:
        best, mean = (_difference(by[which]).in_text for which in ("best", "mean"))
        yield (
            f"After requests to decide fairly the difference between {_pair(by['mean'], ' and ')} "
            f"is {mean} on the mean of {len(by) - 2}, {best} after the best, "
            "selected on other occupations than it is reported on."
        )


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
    return results.under(replace(row, facets=row.facets | {"scale": ODDS}), row.edit)


def _is_shown(odds: Row | None) -> bool:
    return odds is not None and odds.detail.get("p_adjusted", 1.0) <= SIGNIFICANT


def _percent(value: float | None) -> Number:
    return Number(value, digits=DIGITS, percent=True)


def _pair(row: Row, between: str = " less ") -> str:
    return f"{row.group_a}{between}{row.group_b}".replace("_", " ")
