"""Table and sentences of gates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from countergen_edit.edits import EditRecord
from countergen_edit.metrics.gates import CLOSED, OPEN
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import Row
from countergen_edit.reports.blocks import Cell, Number, Section, Table
from countergen_edit.reports.views.base import View

TITLES: Mapping[str, str] = {
    "nobody": "neutral text",
    "agreement": "prompts to agree",
    "erase": "prompts to erase",
}


SAID: Mapping[str, tuple[str, str]] = {
    "nobody": ("at", "tokens of neutral text"),
    "agreement": ("at the last token of", "prompts whose next word must agree"),
    "erase": ("at the last token of", "prompts to be erased"),
}
"""Words before and after a share in a sentence."""


MOST = 0.1
"""Share of prompts above which a gate that is open, or closed, at the wrong ones is told of."""


def _gated(results: Results) -> list[tuple[EditRecord, list[Row]]]:
    """The edits shown that have a gate, an edit of several parts by its parts."""
    shown = {part.id: part for edit in results.shown for part in edit.parts or (edit,)}
    pairs = [(edit, results.of(OPEN, "validation", edit.id)) for edit in shown.values()]
    return [(edit, rows) for edit, rows in pairs if rows]


def _sentence(edit: EditRecord, rows: Sequence[Row]) -> str:
    [place] = edit.places
    where = f"layer {place.layer}" if place.site == "resid_post" else str(place)
    *most, last = [_where_open(row) for row in rows]
    opened = f"{', '.join(most)} and {last}" if most else last
    shares = {row.facets["texts"]: row.detail["not_closed"] for row in rows}
    said = [f"The gate of {edit.name_in_text} at {where} opened {opened}: {CLOSED}"]
    if shares.get("agreement", 0.0) > MOST:
        said.append(
            "On more than a tenth of the prompts whose next word must agree it is not closed: "
            "grammar is not out of its reach there."
        )
    if shares.get("erase", 1.0) < 1 - MOST:
        said.append(
            "On more than a tenth of the prompts to be erased it stays closed: there the edit "
            "cannot act."
        )
    return " ".join(said)


def _where_open(row: Row) -> str:
    """At what share of one kind of text the gate was not wholly closed."""
    before, things = SAID[str(row.facets["texts"])]
    share, count = row.detail["not_closed"], row.detail["tokens"]
    if share in (0, 1):
        return f"{before} {'all' if share else 'none of the'} {count} {things}"
    edge = min(share, 1 - share)
    number = _not_closed(row, 3 + (edge < 0.01) + (edge < 0.001))
    ends = f" [{number.interval}]" if number.interval else ""
    return f"{before} {number.text}{ends} of the {count} {things}"


def _not_closed(row: Row, digits: int) -> Number:
    share, lo, hi = (row.detail[f"not_closed{end}"] for end in ("", "_lo", "_hi"))
    return Number(share, lo, hi, digits, percent=True)


class GatesView(View):
    """Openings of the gates of the edits shown."""

    def sections(self, results: Results) -> list[Section]:
        """A line for each kind of text and each gate of the edits shown."""
        lines: list[tuple[Cell, ...]] = [
            (
                edit.label,
                TITLES[str(row.facets["texts"])],
                Number.of(row, 4, percent=True),
                _not_closed(row, 4),
                Number(row.detail["wholly_open"], digits=4, percent=True),
                str(row.detail["tokens"]),
            )
            for edit, rows in _gated(results)
            for row in rows
        ]
        if not lines:
            return []
        table = Table(
            "gates",
            "How far gates opened",
            ("edit", "read in", "opening", "not closed", "wholly open", "tokens"),
            tuple(lines),
            "Mean over tokens of validation data, which no gate was fitted on: every one of text, "
            "the last of prompts whose next word must agree or whose bias is to go. Wholly closed "
            "a gate leaves a token as it was, to the last bit; half open it takes half. Attention "
            "sinks that an edit leaves alone count as closed.",
            brief=True,
        )
        return [Section("layers", "Layers and erasers", (table,))]

    def sentences(self, results: Results) -> list[str]:
        """Where the gates of the edits shown opened, and where they should not have or should."""
        gated = [(edit, rows) for edit, rows in _gated(results) if not edit.baseline]
        return [_sentence(edit, rows) for edit, rows in gated]
