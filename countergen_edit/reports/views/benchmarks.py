"""The view of published benchmarks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from countergen_edit.decisions.significance import is_significant
from countergen_edit.edits import EditRecord
from countergen_edit.metrics.benchmarks import BENCHMARK, BENCHMARK_CHANGE, BENCHMARK_SOURCE
from countergen_edit.metrics.results import Results, State
from countergen_edit.metrics.rows import UNEDITED, Row
from countergen_edit.reports.blocks import Cell, Number, Section
from countergen_edit.reports.panels import Panel
from countergen_edit.reports.views import base

_MOST_GLANCE = 10
_share = partial(Number, digits=4, percent=True)
_first_few = partial(base.first_few, most=4, more=", and {} more")


class BenchmarksView(base.View, declared="benchmarks"):
    """Figures with their fair values, before and after edits."""

    def about(self, row: Row) -> str:
        parts = (str(row.facets.get(key, "")) for key in ("benchmark", "part", "bias_type"))
        benchmark, *of = (part.replace("_", " ") for part in parts)
        return f"{benchmark} {row.detail['title']} ({', '.join(filter(None, of))})"

    def first_cells(self, results: Results, quantity: base.Quantity) -> base.Record:
        """Figures of texts by people, and P of differences between groups."""
        row = quantity.rows[UNEDITED]
        people = row.detail.get("people", {})
        ends = (people.get(end) for end in ("value", "lo", "hi"))
        sources = (source.detail.get("people") for source in results.unedited(BENCHMARK_SOURCE))
        title = ", ".join(filter(None, sources))
        cells = {title: _share(*ends, signed=bool(row.detail["signed"]))} if title else {}
        return cells | ({"P (Holm)": base.p_holm(row)} if "p_adjusted" in row.detail else {})

    def cell(self, results: Results, quantity: base.Quantity, edit: str) -> Cell:
        row = quantity.rows.get(edit)
        changed = row and results.under(row, edit, BENCHMARK_CHANGE)
        return _number(row, starred=bool(changed and is_significant(changed)))

    def glance(self, states: Sequence[State]) -> list[Panel]:
        """The figures farthest from their fair values; shares and differences apart."""
        rows = states[0].results.of(BENCHMARK, edit=states[0].edit)
        rows = [row for row in rows if None not in (row.value, row.detail["fair"])]
        rows.sort(key=lambda row: -abs((row.value or 0.0) - row.detail["fair"]))
        panels: list[Panel] = []
        for is_signed, unit in enumerate(("share", "difference")):
            farthest = (row for row in rows[:_MOST_GLANCE] if row.detail["signed"] == is_signed)
            how, keys = replace(self.shows[0], unit=unit), {row.key[2:-2] for row in farthest}
            panels += self.dots(how, f"Benchmarks: {unit}s", states, keys=keys)
        return panels

    def sections(self, results: Results) -> list[Section]:
        records: list[base.Record] = []
        for row in results.unedited(BENCHMARK_SOURCE):
            figures = "; ".join(f"{title}: {says}" for title, says in row.detail["figures"].items())
            template = self.says["in_template"] if row.detail.get("in_template") else ""
            facts = row.detail | {"n": int(row.value or 0), "template": template}
            for fact in ("items", "scored", "figures", "known flaws", "licence", "cite"):
                text = self.say(fact, **facts | {"figures": figures})
                records.append({"benchmark": row.detail["title"], "fact": fact, "value": text})
        look: dict[str, Any] = {"grouped": True, "folded": "Versions, scoring, and known flaws"}
        sources = base.as_table("benchmark_sources", "Versions and flaws", records, **look)
        return base.as_section(*self.place, self.table(results), sources)

    def sentences(self, results: Results) -> list[str]:
        sentences = [self._unfair(results), *(self._changed(results, e) for e in results.shown)]
        return [*filter(None, sentences)]

    def _unfair(self, results: Results) -> str:
        rows = results.unedited(BENCHMARK)
        judged = [row for row in rows if row.detail["fair"] is not None and row.lo is not None]
        unfair = [row for row in judged if _is_unfair(row)]
        model = "The unedited model" if results.is_unedited else "Without an edit the model"
        if not unfair:
            model = f"{model[0].lower()}{model[1:]}"
            return self.say("fair", model=model, n=len(judged)) if judged else ""
        averaged = [
            f"{self.about(row)} {_number(other).in_text}"
            for row in unfair
            for other in rows
            if (name := row.detail.get("counterfactual"))
            and other.facets == {**row.facets, "figure": name}
        ]
        figures = _first_few(f"{self.about(row)} {_number(row).in_text}" for row in unfair)
        counts = {"n": len(unfair), "all": len(judged)}
        more = f" Counterfactual-averaged: {_first_few(averaged)}." if averaged else ""
        return self.say("unfair", model=model, figures=figures, **counts) + more

    def _changed(self, results: Results, edit: EditRecord) -> str:
        """The figures that an edit changed; empty where none is tested."""
        kinds: dict[str, list[str]] = {"made better": [], "made worse": [], "changed": []}
        rows = results.unedited(BENCHMARK)
        pairs = ((row, results.under(row, edit.id, BENCHMARK_CHANGE)) for row in rows)
        tested = [(row, change) for row, change in pairs if change and "p" in change.detail]
        for row, change in tested:
            after = results.under(row, edit.id)
            if after is not None and is_significant(change):
                now = f"{_number(after).text} [{_number(change, signed=True).interval}]"
                kinds[_kind(row, after)].append(f"{self.about(row)} {_number(row).text} → {now}")
        parts = [f"{kind} {_first_few(figures)}" for kind, figures in kinds.items() if figures]
        values = {"edit": edit.name_in_text, "changes": " and ".join(parts), "n": len(tested)}
        if parts or not tested:
            return self.say("changed", **values) if parts else ""
        sizes = [c.detail["smallest"] for _, c in tested if c.detail["smallest"] is not None]
        if not sizes:
            return f"{self.say('unchanged', **values)}."
        ends = {"least": _share(min(sizes)).text, "most": _share(max(sizes)).text}
        return self.say("unchanged", **values) + self.say("detectable", **ends)


def _is_unfair(row: Row) -> bool:
    """Whether the interval, or P if tested with others, rejects the fair value."""
    if "p_adjusted" in row.detail:
        return is_significant(row)
    return row.lo is not None and row.hi is not None and not row.lo <= row.detail["fair"] <= row.hi


def _kind(before: Row, after: Row) -> str:
    """How a figure changed: better is nearer to its fair value, or higher without one."""
    if before.detail.get("undirected"):
        return "changed"
    old, new, fair = before.value or 0.0, after.value or 0.0, before.detail["fair"]
    is_better = new > old if fair is None else abs(new - fair) < abs(old - fair)
    return "made better" if is_better else "made worse"


def _number(row: Row | None, *, starred: bool = False, signed: bool = False) -> Number:
    signed = signed or bool(row and row.detail["signed"])
    return Number.of(row, 4, percent=True, starred=starred, signed=signed)
