"""The view of activation patching: heat maps, and places of bias without agreement."""

from __future__ import annotations

from collections.abc import Sequence

from countergen_edit.metrics.locate import AGREEMENT, BIAS, CORRELATION, DIFFERENCE, MOVED
from countergen_edit.metrics.r.effect_rows import SIGNIFICANT
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import UNEDITED, Row
from countergen_edit.reports.blocks import Cell, Figure, Number
from countergen_edit.reports.panels import Panel, Series
from countergen_edit.reports.views import base

MOST_PLACES = 10
LEAST_NAMED = 0.01
MOST_UNITS = 64


def place(row: Row) -> str:
    """The place of a row; a head as `layer.head`."""
    layer, facets = f"{row.facets['layer']:.0f}", row.facets
    if "unit" in facets:
        return f"{facets['activation']} {layer}.{facets['unit']:.0f}"
    return f"{facets['activation']}.{layer}, {facets['position']}"


class LocateView(base.View, declared="locate"):
    """Where the difference lives: maps by layer and position, and by layer and head."""

    def shown(self, results: Results) -> tuple[()]:
        """None: there are too many cells for a list."""
        return ()

    def records(self, results: Results) -> list[base.Record]:
        """The places that carry more of the bias than of agreement; else those that carry most."""
        rows, apart = (
            {(r.dataset, place(r)): r for r in results.of(metric, self.split, UNEDITED)}
            for metric in (MOVED, DIFFERENCE)
        )
        kinds = [kind for kind in dict.fromkeys(kind for kind, _ in rows) if kind != BIAS]
        records: list[base.Record] = []
        biased = [r for r in rows.values() if r.dataset == BIAS and (r.value or 0) >= LEAST_NAMED]
        for site, cells in _by_site(biased).items():
            shares = {place(r): apart.get((AGREEMENT, place(r)), r).value or 0.0 for r in cells}
            for row in sorted(cells, key=lambda r: -shares[place(r)])[:MOST_PLACES]:
                record: dict[str, Cell] = {"activation": self.says[site], "place": place(row)}
                record |= {BIAS: base.percent(row), "P": base.p_holm(row)}
                for kind in kinds:
                    record[kind] = base.percent(rows.get((kind, place(row))))
                    record[f"less {kind}"] = base.percent(apart.get((kind, place(row))))
                records.append(record)
        return records

    def figure(self, results: Results) -> list[Figure]:
        figures: list[Figure] = []
        for edit in results.compared:
            end, name = ("", "") if edit == UNEDITED else (f"_{edit}", f", {results.label(edit)}")
            for site, cells in _by_site(results.of(MOVED, self.split, edit)).items():
                by_kind = base.grouped(cells, lambda row: row.dataset)
                panels = [_heat_map(kind, of_kind) for kind, of_kind in by_kind.items()]
                if len(panels[0].series) <= MOST_UNITS:
                    title = f"Share that moves with {self.says[site]}{name}"
                    figures += base.as_figure(f"where_{site}{end}", title, panels, self.note)
        return figures

    def sentences(self, results: Results) -> list[str]:
        sentences = []
        for metric in (MOVED, DIFFERENCE):
            heads = _by_site(results.unedited(metric, self.split)).get("head", ())
            for kind, of_kind in base.grouped(heads, lambda row: row.dataset).items():
                if places := [f"{place(r)} ({base.percent(r).in_text})" for r in _largest(of_kind)]:
                    sentences.append(self.say(metric, kind=kind, places=base.and_list(places)))
        values = [
            f"{Number.of(row, 2).text} ({row.facets['activation']}, {row.dataset})"
            for row in results.unedited(CORRELATION, self.split)
        ]
        if values:
            sentences.append(self.say("correlation", values=base.and_list(values)))
        return sentences


def _by_site(rows: Sequence[Row]) -> dict[str, list[Row]]:
    return base.grouped(rows, lambda row: str(row.facets["activation"]))


def _largest(rows: Sequence[Row]) -> list[Row]:
    """The three largest of those significantly above 0."""
    large = [row for row in rows if (row.lo or 0) > 0 and (row.value or 0) >= LEAST_NAMED]
    significant = [row for row in large if row.detail.get("p_adjusted", 0) <= SIGNIFICANT]
    return sorted(significant, key=lambda row: -(row.value or 0.0))[:3]


def _heat_map(kind: str, rows: Sequence[Row]) -> Panel:
    """Layers across, positions (with the word of an example) or heads downwards."""
    series = []
    by_line = base.grouped(rows, lambda row: row.facets.get("unit", row.facets.get("position")))
    for key, cells in by_line.items():
        word = str(cells[0].detail.get("example", "")).strip()
        name = f"head {key:.0f}" if isinstance(key, float) else f"{key}: {word}".removesuffix(": ")
        y, lo, hi = (
            tuple(float(getattr(row, end) or 0.0) for row in cells) for end in ("value", "lo", "hi")
        )
        layers = tuple(int(row.facets["layer"]) for row in cells)
        series.append(Series(name, layers, y, lo, hi, kind="cells"))
    return Panel(kind, "layer", "share that moves", tuple(series))
