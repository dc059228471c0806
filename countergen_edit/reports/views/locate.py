"""The view of activation patching: heat maps, and the places that carry bias and no agreement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from countergen_edit.metrics.locate import AGREEMENT, BIAS, CORRELATION, DIFFERENCE, MOVED
from countergen_edit.metrics.r.effect_rows import SIGNIFICANT
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import UNEDITED, Row
from countergen_edit.reports.blocks import Cell, Figure, Number, Section
from countergen_edit.reports.panels import Panel, Series
from countergen_edit.reports.views.base import (
    Record,
    View,
    and_list,
    as_figure,
    as_section,
    grouped,
)

ACTIVATIONS = {
    "resid_post": "the residual stream",
    "attn_out": "attention",
    "mlp_out": "MLP",
    "head": "heads",
    "neuron": "neurons",
}
MOST_PLACES = 10
"""Places that the table lists for each kind of map."""
APART = "A larger share of the bias than of {} moves with"
"""A sentence about kinds of sets, by the difference of shares."""
LEAST_NAMED = 0.01
"""Smallest share that is named."""
MOST_UNITS = 64
"""Most units of a block that a heat map shows."""


def place(row: Row) -> str:
    """The place of a row; a head as `layer.head`."""
    layer, facets = f"{row.facets['layer']:.0f}", row.facets
    if "unit" in facets:
        return f"{facets['activation']} {layer}.{facets['unit']:.0f}"
    return f"{facets['activation']}.{layer}, {facets['position']}"


class LocateView(View):
    """Where the difference lives: maps by layer and position, and by layer and head."""

    place = "where", "Where it lives"
    note = (
        "The share of the group difference that moves with an activation, between -100 and 100 %. "
        "Grey: the 95 % interval, over names and templates, includes 0. P: pairs of one group, "
        "corrected for all cells of a map."
    )

    def shown(self, results: Results) -> tuple[()]:
        """None: there are too many cells for a list."""
        return ()

    def sections(self, results: Results) -> list[Section]:
        """A table of places, and heat maps of every edit."""
        return as_section(*LocateView.place, self.table(results), self.figure(results))

    def records(self, results: Results) -> list[Record]:
        """The places that carry more of the bias than of agreement; else those that carry most."""
        rows = {(row.dataset, place(row)): row for row in _rows(results, UNEDITED)}
        apart = {
            (row.dataset, place(row)): row for row in results.of(DIFFERENCE, self.split, UNEDITED)
        }
        kinds = [kind for kind in dict.fromkeys(kind for kind, _ in rows) if kind != BIAS]
        records: list[Record] = []
        biased = [r for r in rows.values() if r.dataset == BIAS and (r.value or 0) >= LEAST_NAMED]
        for own in grouped(biased, lambda row: row.facets["activation"]).values():
            by_share = {place(r): apart.get((AGREEMENT, place(r)), r).value or 0.0 for r in own}
            for row in sorted(own, key=lambda r: -by_share[place(r)])[:MOST_PLACES]:
                record: dict[str, Cell] = {
                    "activation": ACTIVATIONS[str(row.facets["activation"])],
                    "place": place(row),
                    BIAS: _percent(row),
                    "P": Number(row.detail.get("p_adjusted"), digits=3, bounded=True),
                }
                for kind in kinds:
                    record[kind] = _percent(rows.get((kind, place(row))))
                    record[f"less {kind}"] = _percent(apart.get((kind, place(row))))
                records.append(record)
        return records

    def figure(self, results: Results) -> list[Figure]:
        """A figure for each site and edit, with a panel for each kind of sets."""
        found: list[Figure] = []
        for edit in results.compared:
            name = "" if edit == UNEDITED else f", {results.label(edit)}"
            for site, own in grouped(
                _rows(results, edit), lambda row: str(row.facets["activation"])
            ).items():
                if (panels := _panels(own)) and len(panels[0].series) <= MOST_UNITS:
                    found += as_figure(
                        f"where_{site}_{edit}" if name else f"where_{site}",
                        f"Share that moves with {ACTIVATIONS[site]}{name}",
                        panels,
                        self.note,
                    )
        return found

    def sentences(self, results: Results) -> list[str]:
        """The heads that carry the bias, those that carry agreement, and how sure that is."""
        said = []
        for metric, text in ((MOVED, "Of {}, most moves with"), (DIFFERENCE, APART)):
            rows = results.of(metric, self.split, UNEDITED)
            heads = [row for row in rows if row.facets["activation"] == "head"]
            for kind, own in grouped(heads, lambda row: row.dataset).items():
                if most := [f"{place(r)} ({_percent(r).in_text})" for r in _most(own)]:
                    said.append(f"{text.format(kind)} {and_list(most)}.")
        if found := results.of(CORRELATION, self.split, UNEDITED):
            values = and_list(
                f"{Number.of(r, 2).text} ({r.facets['activation']}, {r.dataset})" for r in found
            )
            said.append(f"Correlation of estimates with patching, for the largest: {values}.")
        return said


def _most(rows: Sequence[Row]) -> list[Row]:
    """The three largest of those significantly above 0."""
    sure = [
        row
        for row in rows
        if (row.lo or 0) > 0
        and (row.value or 0) >= LEAST_NAMED
        and row.detail.get("p_adjusted", 0) <= SIGNIFICANT
    ]
    return sorted(sure, key=lambda row: -(row.value or 0.0))[:3]


def _rows(results: Results, edit: str) -> Sequence[Row]:
    return results.of(MOVED, LocateView.split, edit)


def _percent(row: Row | None) -> Number:
    return Number.of(row, percent=True)


def _panels(rows: Sequence[Row]) -> list[Panel]:
    """A heat map for each kind of sets: layers across, positions or units downwards."""
    panels = []
    for kind, own in grouped(rows, lambda row: row.dataset).items():
        lines = grouped(own, lambda row: row.facets.get("unit", row.facets.get("position")))
        series = tuple(_cells(_line(key, of), of) for key, of in lines.items())
        panels.append(Panel(kind, "layer", "share that moves", series))
    return panels


def _line(key: object, rows: Sequence[Row]) -> str:
    """The label of a row of cells, with the word of an example."""
    if isinstance(key, float):
        return f"head {key:.0f}"
    word = str(rows[0].detail.get("example", "")).strip()
    return f"{key}: {word}" if word else str(key)


def _cells(name: str, rows: Sequence[Row]) -> Series:
    values: Mapping[str, tuple[float, ...]] = {
        end: tuple(float(getattr(row, end) or 0.0) for row in rows) for end in ("value", "lo", "hi")
    }
    layers = tuple(int(row.facets["layer"]) for row in rows)
    return Series(name, layers, values["value"], values["lo"], values["hi"], kind="cells")
