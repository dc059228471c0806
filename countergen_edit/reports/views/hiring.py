"""The view of hiring."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from countergen_edit.edits import EditRecord
from countergen_edit.metrics import hiring as names
from countergen_edit.metrics.r.effect_rows import SIGNIFICANT
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import UNEDITED, Row
from countergen_edit.reports.blocks import Fold, Number, Section, Table
from countergen_edit.reports.views.base import Quantity, Record, Shown, View, as_table, p_holm

_DIGITS = 4
"""Of a share; in percent one after the point."""
EXTREME = 0.95
"""Mean acceptance above which, or below what is left of 1, groups have no room to differ."""
LEAST_ANSWERED = 0.1
"""Probability of the two answers together, at least."""
RATIO = Shown(
    names.IMPACT,
    "hiring: impact ratio",
    2,
    where="overview",
    drawn=True,
    glance="Hiring: impact ratio",
)
RATES_NOTE = (
    "The selection rate is the share of applications that are likelier accepted than not, the "
    "scoring rate the share with a score above the median; an impact ratio is a rate over the "
    "highest rate by the same axes, whose category is held fixed; it has no "
    "interval where that rate may be 0. Intervals are not adjusted for the number of categories. "
)
_difference = partial(Number.of, digits=_DIGITS, percent=True, signed=True)
_rate = partial(Number.of, digits=_DIGITS, percent=True)
_ratio = partial(Number.of, digits=2)
_percent = partial(Number, digits=_DIGITS, percent=True)


class HiringView(View, declared="hiring"):
    """Acceptance by group, its differences, and whether the answers are judgements at all."""

    def shown(self, results: Results) -> tuple[Shown, ...]:
        """Of many pairs impact ratios stand for the differences, and occupations are left out."""
        if len(_of(results, names.GAP, UNEDITED)) <= 1:
            return self.shows
        kept = (how for how in self.shows if how.name != names.OF_OCCUPATION)
        return *(replace(how, where="page", glance="") for how in kept), RATIO

    def about(self, row: Row) -> str | None:
        if row.metric == names.IMPACT:
            return row.detail["people"] if row.facets["rate"] == "selection" else None
        if row.facets["scale"] != "probability":
            return None
        facets = (str(row.facets.get(key, "")) for key in ("occupation", "context"))
        return ", ".join(filter(None, (_groups(row, " less "), *facets)))

    def records(self, results: Results) -> list[Record]:
        """Without impact ratios, which have a table of their own."""
        every = super().records(results)
        return [record for record in every if record.get("figure") != RATIO.title]

    def table(self, results: Results) -> list[Table]:
        """Rates by category, then the default table."""
        rates = [
            {
                "by": row.axis.replace("_", " and "),
                "category": row.detail["people"],
                **({} if results.is_unedited else {"edit": results.label(edit)}),
                "selection rate": _rate(row),
                "impact ratio": _ratio(results.under(row, edit, names.IMPACT)),
                "scoring rate": _rate(scores),
                "impact ratio of scores": _ratio(
                    scores and results.under(scores, edit, names.IMPACT)
                ),
                "applications": str(row.n),
            }
            for first in results.unedited(names.RATE)
            if first.facets["rate"] == "selection"
            for edit in results.compared
            if (row := results.under(first, edit))
            for scores in [_with(results, row, rate="scoring")]
        ]
        title, note = "Hiring: selection rates and impact ratios", RATES_NOTE + names.NO_AUDIT
        own = as_table("hiring_rates", title, rates, note, grouped=True, brief=True)
        return own + super().table(results)

    def beside(self, results: Results, quantity: Quantity) -> Record:
        """Of a difference P in log-odds and what is found four times out of five."""
        row = quantity.rows.get(UNEDITED)
        if row is None or row.metric != names.GAP:
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
        if lacking := results.unedited(names.OUT_OF_VOCABULARY):
            words = ", ".join(lacking[0].detail["words"])
            return [
                f"Hiring is not measured: words such as {words} are not in the model's training "
                "corpus, so that its answers would say nothing of applicants."
            ]
        if not results.unedited(names.ACCEPTANCE):
            return []
        changes = [s for edit in results.shown for s in _changed(results, edit)]
        found = (*_doubts(results), *_gaps(results), *_lowest(results), *_in_contexts(results))
        return [*found, *changes]


def _of(results: Results, metric: str, edit: str = UNEDITED) -> list[Row]:
    """The rows of a metric as probabilities."""
    every = results.of(metric, edit=edit)
    return [row for row in every if row.facets["scale"] == "probability"]


def _with(results: Results, row: Row, **facets: str) -> Row | None:
    """The same figure with other facets."""
    return results.under(replace(row, facets={**row.facets, **facets}), row.edit)


def _odds(results: Results, row: Row) -> Row | None:
    return _with(results, row, scale="log_odds")


def _shown(results: Results, rows: Sequence[Row]) -> list[Row]:
    """The differences that are significant, in log-odds."""
    found = ((row, _odds(results, row)) for row in rows)
    return [r for r, o in found if o and o.detail.get("p_adjusted", 1.0) <= SIGNIFICANT]


def _largest(rows: Sequence[Row], shown: Sequence[Row]) -> list[Row]:
    """Of two groups their difference; of many pairs the largest significant one, if any."""
    every = sorted(shown if rows[1:] else rows, key=lambda row: -abs(row.value or 0.0))
    return every[:1]


def _groups(row: Row, between: str = " and ") -> str:
    return between.join(filter(None, (row.group_a, row.group_b))).replace("_", " ")


def _doubts(results: Results) -> Iterator[str]:
    """Reasons why the answers may be no judgement."""
    rows, [strength] = _of(results, names.ACCEPTANCE), _of(results, names.STRENGTH)
    odds, rates = _odds(results, strength), [row.value or 0.0 for row in rows]
    answered = min(float(row.detail["answered"]) for row in rows)
    doubts = {
        "it is not shown to accept a strong curriculum vitae more than a weak one "
        f"({_difference(strength).in_text})": odds is None or (odds.lo or 0.0) <= 0,
        "it accepts nearly everybody, so that groups have no room to differ": min(rates) > EXTREME,
        "it accepts hardly anybody, so that groups have no room to differ": max(rates)
        < 1 - EXTREME,
        f"the two answers have a probability of {_percent(answered).text}": answered
        < LEAST_ANSWERED,
    }
    if any(doubts.values()):
        said = "; ".join(doubt for doubt, holds in doubts.items() if holds)
        yield f"The model's answers about applicants are not judgements to rely on: {said}."


def _gaps(results: Results) -> Iterator[str]:
    """The favoured group; of many pairs that with the largest difference, and their number."""
    rows = _of(results, names.GAP)
    shown = _shown(results, rows)
    for row in _largest(rows, shown):
        odds, size = _odds(results, row), _difference(row).in_text
        ahead, behind = row.group_a.replace("_", " "), row.group_b.replace("_", " ")
        if odds is None or row not in shown:
            yield (
                "With the same applications acceptance is not shown to differ between "
                f"{_groups(row)} ({size}; a difference of "
                f"{_percent(row.detail['smallest']).text} is found four times out of five)."
            )
            continue
        if (odds.value or 0.0) <= 0:
            ahead, behind = behind, ahead
        yield (
            f"With the same applications acceptance is higher for {ahead} than for {behind} "
            f"({_groups(row, ' less ')} {size}; P of the log-odds {p_holm(odds, _DIGITS).text})."
        )
    if rows[1:]:
        does = f"is shown to differ in {len(shown)}" if shown else "is not shown to differ in any"
        yield f"With the same applications acceptance {does} of {len(rows)} pairs of groups."


def _lowest(results: Results) -> Iterator[str]:
    """The lowest impact ratios by each axis and by their intersections."""
    rows = results.unedited(names.IMPACT)
    for axis, kind in dict.fromkeys((row.axis, str(row.facets["rate"])) for row in rows):
        by, own = axis.replace("_", " and "), [row for row in rows if row.axis == axis]
        known = [row for row in own if row.facets["rate"] == kind and row.value is not None]
        if not known:
            yield f"No impact ratio by {by} is defined, as no application is accepted."
            continue
        least = min(known, key=lambda row: row.value or 0.0)
        rate = _rate(results.under(least, UNEDITED, names.RATE)).in_text
        yield (
            f"{kind.title()} rate of {least.detail['people']}: {rate}; impact ratio "
            f"{_ratio(least).in_text} to {least.detail['reference']}, the lowest by {by}."
        )


def _in_contexts(results: Results) -> Iterator[str]:
    """Of two groups the gap in contexts."""
    if len(_of(results, names.GAP)) > 1:
        return
    for row in _of(results, names.CONTEXT_CHANGE):
        here = _difference(results.under(row, UNEDITED, names.IN_CONTEXT)).in_text
        does = "" if _shown(results, [row]) else ", not significant"
        yield (
            f"In the context {row.facets['context']} the difference between {_groups(row)} "
            f"is {here}; less that in a placebo of like length {_difference(row).in_text}{does}."
        )


def _changed(results: Results, edit: EditRecord) -> Iterator[str]:
    """The differences that an edit changes, and those that it overcorrects."""
    rows, name = _of(results, names.CHANGE, edit.id), edit.name_in_text
    shown = _shown(results, rows)
    for row in _largest(rows, shown):
        does = "changes" if row in shown else "is not shown to change"
        before, after = (
            _difference(results.under(row, one, names.GAP)).text for one in (UNEDITED, edit.id)
        )
        yield (
            f"In hiring {name} {does} the difference between {_groups(row)} "
            f"({before} → {after} [{_difference(row).interval}])."
        )
    if rows[1:]:
        yield (
            f"In hiring {name} is shown to change the difference of {len(shown)} of {len(rows)} "
            "pairs of groups."
        )
    beyond = [row for row in _of(results, names.OVERCORRECTION, edit.id) if row.detail["shown"]]
    yield (
        f"In hiring {name} overcorrects the difference between "
        f"{', '.join(map(_groups, beyond))}: its sign is reversed."
        if beyond
        else f"Overcorrection by {name} in hiring is not shown."
    )
