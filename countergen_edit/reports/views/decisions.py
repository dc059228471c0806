"""The view of decisions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from countergen_edit.decisions.significance import is_significant
from countergen_edit.edits import EditRecord
from countergen_edit.metrics import decisions as names
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import UNEDITED, Row
from countergen_edit.reports.blocks import Number, Table
from countergen_edit.reports.views import base

_DIGITS = 4
EXTREME = 0.95
"""Rate above which groups have no room to differ, nor below 1 less this."""
LEAST_ANSWERED = 0.1
_signed = partial(Number.of, digits=_DIGITS, percent=True, signed=True)
_rate = partial(Number.of, digits=_DIGITS, percent=True)
_ratio = partial(Number.of, digits=2)
_percent = partial(Number, digits=_DIGITS, percent=True)


class DecisionsView(base.View, declared="decisions"):
    """Rates by group, their differences, and whether a model's answers are judgements at all."""

    def about(self, row: Row) -> str:
        cases, pair = row.dataset.replace("_", " "), base.groups_of(row, " less ")
        return ", ".join(map(str, filter(None, (cases, pair, row.facets.get("topic")))))

    def label(self, row: Row) -> str:
        """With the topic first, as long labels are cut."""
        topic, text = row.facets.get("topic"), self.about(row)
        return f"{topic}, {text.removesuffix(f', {topic}')}" if topic else text

    def records(self, results: Results) -> list[base.Record]:
        """Without those of the table of rates, and without absolute differences."""
        hidden = {how.title for how in self.shows if how.name in (names.IMPACT, names.GAP)}
        return [r for r in super().records(results) if r.get("figure") not in hidden]

    def table(self, results: Results) -> list[Table]:
        rows = [(k, row) for k, (rate, _) in names.RATES.items() for row in results.of(rate)]
        records: dict[Any, base.Record] = {}
        for kind, row in rows:
            if row.edit in results.compared:
                cells = {"cases": row.dataset, "by": row.axis.replace("_", " and ")}
                cells |= {"category": base.groups_of(row), "decisions": str(row.n)}
                cells |= {} if results.is_unedited else {"edit": results.label(row.edit)}
                ratio = _ratio(results.under(row, row.edit, names.RATES[kind][1]))
                rates = {f"{kind} rate": _rate(row), f"impact ratio of {kind}": ratio}
                records[row.key[1:]] = {**records.get(row.key[1:], cells), **rates}
        notes = dict.fromkeys([self.says["rates"], *(row.detail["note"] for _, row in rows)])
        title, note = "Selection rates and impact ratios", " ".join(notes).rstrip()
        look = {"grouped": True, "brief": True}
        table = base.as_table("decision_rates", title, records.values(), note, **look)
        return table + super().table(results)

    def first_cells(self, results: Results, quantity: base.Quantity) -> base.Record:
        """P, the within-group null and the detectable size of a difference."""
        row = quantity.rows.get(UNEDITED)
        if row is None or row.metric != names.RATE_DIFFERENCE:
            return {}
        null, smallest = _percent(row.detail.get("null")), _percent(row.detail["smallest"])
        return {"P (Holm)": base.p_holm(row), "within-group null": null, "detectable": smallest}

    def headline(self, results: Results) -> list[str]:
        """The first two sentences of each file, and the lowest impact ratio of selection."""
        return [
            text
            for part in _by_file(results)
            for text in dict.fromkeys([*self._of_file(part)[:2], *[*self._lowest(part)][:1]])
        ]

    def sentences(self, results: Results) -> list[str]:
        return [text for part in _by_file(results) for text in self._of_file(part)]

    def _of_file(self, results: Results) -> list[str]:
        if lacking := results.unedited(names.OUT_OF_CASES):
            words = ", ".join(lacking[0].detail["words"])
            return [self.say("unknown", cases=lacking[0].dataset, words=words)]
        texts = [*self._doubts(results), *self._pairs(results), *self._lowest(results)]
        return texts + [s for edit in results.shown for s in self._changed(results, edit)]

    def _doubts(self, results: Results) -> Iterator[str]:
        rows = [row for row in results.unedited(names.GROUP_RATE) if "answered" in row.detail]
        rates = [row.value or 0.0 for row in rows]
        answered = min((float(row.detail["answered"]) for row in rows), default=1.0)
        labels = [row for row in results.unedited(names.BY_LABEL) if (row.lo or 0.0) <= 0]
        reasons = [self.say("by_label", **_words(row)) for row in labels if rows]
        reasons += [self.says["high"]] * (min(rates, default=0.0) > EXTREME)
        reasons += [self.says["low"]] * (max(rates, default=1.0) < 1 - EXTREME)
        if answered < LEAST_ANSWERED:
            reasons.append(self.say("unanswered", share=_percent(answered).text))
        if reasons:
            yield self.say("doubts", cases=rows[0].dataset, reasons="; ".join(reasons))

    def _pairs(self, results: Results) -> Iterator[str]:
        """The favoured group; of many pairs the largest difference, and their number."""
        rows = results.unedited(names.RATE_DIFFERENCE)
        shown = [row for row in rows if is_significant(row)]
        for row in _largest(rows):
            yield self.say("differ" if row in shown else "alike", **_words(row))
        if rows[1:]:
            yield self.say("pairs", shown=len(shown), count=len(rows), **_words(rows[0]))

    def _lowest(self, results: Results) -> Iterator[str]:
        """The lowest impact ratios by each axis and by their intersections."""
        for kind, (of_rate, of_ratio) in names.RATES.items():
            by_axis = base.grouped(results.unedited(of_ratio), lambda row: row.axis)
            for axis, rows in by_axis.items():
                compared = [row for row in rows if row.group_a != row.detail["reference"]]
                least = min(compared, key=lambda row: math.inf if row.value is None else row.value)
                rate = _rate(results.under(least, UNEDITED, of_rate)).in_text
                values = {"kind": kind, "by": axis.replace("_", " and "), "rate": rate}
                values |= {"top": least.detail["reference"].replace("_", " ")}
                key = "no_ratio" if least.value is None else "lowest"
                yield self.say(key, ratio=_ratio(least).in_text, **values, **_words(least))

    def _changed(self, results: Results, edit: EditRecord) -> Iterator[str]:
        rows, name = results.of(names.CHANGE, edit=edit.id), edit.name_in_text
        for row in _largest(rows):
            before, after = (
                _signed(results.under(row, e, names.RATE_DIFFERENCE)).text
                for e in (UNEDITED, edit.id)
            )
            values = _words(row) | {"before": before, "after": after}
            does = "changes" if is_significant(row) else "is not shown to change"
            yield self.say("change", edit=name, does=does, **values)
        if rows[1:]:
            count = {"shown": sum(map(is_significant, rows)), "count": len(rows)}
            yield self.say("changes", edit=name, **count, **_words(rows[0]))
        beyond = ", ".join(base.groups_of(row) for row in rows if row.detail["overcorrected"])
        for row in rows[:1]:
            key = "beyond" if beyond else "not_beyond"
            yield self.say(key, edit=name, pairs=beyond, **_words(row))


def _by_file(results: Results) -> list[Results]:
    rows = (row for row in results.rows if row.metric.startswith("decision_"))
    files = base.grouped(rows, lambda row: row.dataset).values()
    return [Results(of_file, results.records, task=results.task) for of_file in files]


def _largest(rows: Sequence[Row]) -> list[Row]:
    """The difference of two groups; of many pairs the largest significant one, if any."""
    shown = [row for row in rows if is_significant(row) or not rows[1:]]
    return sorted(shown, key=lambda row: -abs(row.value or 0.0))[:1]


def _words(row: Row) -> dict[str, Any]:
    pair = [group.replace("_", " ") for group in (row.group_a, row.group_b)]
    ahead, behind = pair if (row.value or 0.0) > 0 else reversed(pair)
    sizes = {"size": _signed(row).in_text, "interval": _signed(row).interval}
    sizes |= {key: _percent(row.detail.get(key)).text for key in ("null", "smallest")}
    groups = {"pair": base.groups_of(row), "less": base.groups_of(row, " less ")}
    groups |= {"ahead": ahead, "behind": behind}
    cases = row.dataset.replace("_", " ")
    return {"cases": cases, **groups, **sizes, "p": base.p_holm(row, _DIGITS).text}
