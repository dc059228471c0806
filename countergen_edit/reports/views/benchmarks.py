"""The view of published benchmarks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from countergen_edit.metrics.benchmarks.metric import (
    BENCHMARK,
    BENCHMARK_CHANGE,
    BENCHMARK_SOURCE,
)
from countergen_edit.metrics.r.effect_rows import SIGNIFICANT
from countergen_edit.metrics.results import Results, State
from countergen_edit.metrics.rows import UNEDITED, Row
from countergen_edit.reports.blocks import Cell, Fold, Number, Section
from countergen_edit.reports.panels import Panel
from countergen_edit.reports.views.base import (
    Quantity,
    Record,
    View,
    as_section,
    as_table,
    first_few,
    p_holm,
)

_DIGITS = 4
"""Of a share; in percent one after the point."""
_MOST, _MOST_GLANCE = 4, 10
"""Figures that a sentence names, and that the overview draws."""
_IN_TEMPLATE = "; in the chat template, as the model's reply or its beginning"


class BenchmarksView(View, declared="benchmarks"):
    """Figures with their fair values, before and after edits."""

    def about(self, row: Row) -> str:
        parts = (str(row.facets.get(key, "")) for key in ("benchmark", "part", "bias_type"))
        benchmark, *of = (part.replace("_", " ") for part in parts)
        return f"{benchmark} {row.detail['title']} ({', '.join(filter(None, of))})"

    def beside(self, results: Results, quantity: Quantity) -> Record:
        """What people wrote, and P of differences between groups."""
        row = quantity.rows[UNEDITED]
        of, signed = row.detail.get("people", {}), bool(row.detail["signed"])
        value, lo, hi = (of.get(end) for end in ("value", "lo", "hi"))
        sources = [
            own for r in results.unedited(BENCHMARK_SOURCE) if (own := r.detail.get("people"))
        ]
        people = {", ".join(sources): Number(value, lo, hi, _DIGITS, percent=True, signed=signed)}
        test = {"P (Holm)": p_holm(row)} if "p_adjusted" in row.detail else {}
        return {**(people if sources else {}), **test}

    def cell(self, results: Results, quantity: Quantity, edit: str) -> Cell:
        """A figure under an edit, with a star where it changed."""
        row = quantity.rows.get(edit)
        changed = row and results.under(row, edit, BENCHMARK_CHANGE)
        return _number(row, starred=bool(changed and _p(changed) <= SIGNIFICANT))

    def glance(self, states: Sequence[State]) -> list[Panel]:
        """The figures farthest from their fair values; shares and differences apart."""
        rows = states[0].results.of(BENCHMARK, edit=states[0].edit)
        known = [row for row in rows if None not in (row.value, row.detail["fair"])]
        known.sort(key=lambda row: -abs((row.value or 0.0) - row.detail["fair"]))
        panels: list[Panel] = []
        for unit in ("share", "difference"):
            own = [r for r in known[:_MOST_GLANCE] if r.detail["signed"] == (unit == "difference")]
            how, keys = replace(self.shows[0], unit=unit), {row.key[2:-2] for row in own}
            panels += self.dots(how, f"Benchmarks: {unit}s", states, keys=keys)
        return panels

    def sections(self, results: Results) -> list[Section]:
        """The figures, then the versions, scoring and flaws of the benchmarks."""
        records = [record for row in results.unedited(BENCHMARK_SOURCE) for record in _facts(row)]
        sources = as_table("benchmark_sources", "Versions and flaws", records, grouped=True)
        fold = [Fold("Versions, scoring, and known flaws", tuple(sources))] if sources else []
        return as_section(*self.place, self.table(results), fold)

    def sentences(self, results: Results) -> list[str]:
        """The unfair figures of the unedited model, and the changes by each edit."""
        sentences = [self._unfair(results)]
        sentences += [self._changed_by(results, e.id, e.name_in_text) for e in results.shown]
        return [sentence for sentence in sentences if sentence]

    def _unfair(self, results: Results) -> str:
        rows = results.unedited(BENCHMARK)
        known = [row for row in rows if row.detail["fair"] is not None and row.lo is not None]
        unfair = [row for row in known if _is_unfair(row)]
        model = self.says["model_alone" if results.is_unedited else "model"]
        if not unfair:
            small = model[:1].lower() + model[1:]
            return self.say("fair", model=small, count=len(known)) if known else ""
        averaged = [
            row
            for one in unfair
            for row in rows
            if row.facets == {**one.facets, "figure": one.detail.get("counterfactual")}
        ]
        named, more = (
            first_few((f"{self.about(row)} {_number(row).in_text}" for row in some), _MOST)
            for some in (unfair, averaged)
        )
        counts = {"unfair": len(unfair), "count": len(known)}
        text = self.say("unfair", model=model, named=named, **counts)
        return f"{text} {self.say('averaged', named=more)}" if averaged else text

    def _changed_by(self, results: Results, edit: str, name: str) -> str:
        """What an edit changed; empty where nothing is tested."""
        kinds: dict[str, list[str]] = {"made better": [], "made worse": [], "changed": []}
        sizes, count = list[float](), 0
        for row in results.unedited(BENCHMARK):
            change, after = results.under(row, edit, BENCHMARK_CHANGE), results.under(row, edit)
            if change is None or "p" not in change.detail:
                continue
            count += 1
            sizes += [change.detail["smallest"]] if change.detail["smallest"] is not None else []
            if after is not None and _p(change) <= SIGNIFICANT:
                sides = f"{_number(row).text} → {_number(after).text}"
                interval = _number(change, signed=True).interval
                kinds[_kind(row, after)].append(f"{self.about(row)} {sides} [{interval}]")
        parts = [f"{kind} {first_few(some, _MOST)}" for kind, some in kinds.items() if some]
        if parts:
            return self.say("changed", edit=name, parts=" and ".join(parts), count=count)
        text = self.say("unchanged", edit=name, count=count) if count else ""
        if not (text and sizes):
            return text and f"{text}."
        least, most = (Number(f(sizes), digits=_DIGITS, percent=True).text for f in (min, max))
        return f"{text}; {self.say('sizes', least=least, most=most)}"


def _facts(row: Row) -> list[Record]:
    """What a benchmark is, a line for each fact."""
    detail = row.detail
    facts = {
        "items": f"{int(row.value or 0)} of {detail['all_items']}, in {detail['clusters']}",
        "scored": detail["scoring"] + (_IN_TEMPLATE if detail.get("in_template") else ""),
        "figures": "; ".join(f"{title}: {says}" for title, says in detail["figures"].items()),
        "known flaws": detail["flaws"],
        "licence": detail["licence"],
        "cite": f"{detail['citation']} {detail['url']}",
    }
    return [{"benchmark": detail["title"], "fact": f, "value": v} for f, v in facts.items()]


def _p(row: Row) -> float:
    """P corrected for the number of tests; 1 of a row that was not tested."""
    return float(row.detail.get("p_adjusted", 1.0))


def _is_unfair(row: Row) -> bool:
    """Whether the interval, or P if tested with others, rejects the fair value."""
    if "p_adjusted" in row.detail:
        return _p(row) <= SIGNIFICANT
    return row.lo is not None and row.hi is not None and not row.lo <= row.detail["fair"] <= row.hi


def _kind(before: Row, after: Row) -> str:
    """How a figure changed: better is nearer to its fair value, or higher without one."""
    old, new, fair = before.value or 0.0, after.value or 0.0, before.detail["fair"]
    is_better = new > old if fair is None else abs(new - fair) < abs(old - fair)
    is_worse = "made better" if is_better else "made worse"
    return "changed" if before.detail.get("undirected") else is_worse


def _number(row: Row | None, *, starred: bool = False, signed: bool = False) -> Number:
    signed = signed or bool(row and row.detail["signed"])
    return Number.of(row, _DIGITS, percent=True, starred=starred, signed=signed)
