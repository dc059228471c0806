"""The view of gates."""

from __future__ import annotations

from collections.abc import Sequence

from countergen_edit.edits import EditRecord
from countergen_edit.metrics.fits import CLOSED, OPEN
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import Row
from countergen_edit.reports.blocks import Number
from countergen_edit.reports.views.base import Shown, View, and_list, place_in_text

KINDS = {
    "neutral": ("neutral text", "at", "tokens of neutral text"),
    "agreement": (
        "prompts to agree",
        "at the last token of",
        "prompts whose next word must agree",
    ),
    "erase": ("prompts to erase", "at the last token of", "prompts to be erased"),
}
"""The title of a kind of text, and the words before and after a share in a sentence."""
MOST = 0.1
"""Share of prompts above which a gate that is open, or closed, at the wrong ones is told of."""


class GatesView(View):
    """Openings of the gates of the edits shown."""

    shows = (Shown(OPEN, "mean opening", 4, percent=True),)
    place = "layers", "Layers and erasers"
    heading = "How far gates opened"
    split = "validation"
    note = (
        "Mean over tokens of validation data, which no gate was fitted on: every one of text, the "
        "last of prompts whose next word must agree or whose bias is to go. Attention sinks that "
        "are left alone count as closed."
    )
    brief = True

    def edits(self, results: Results) -> list[str]:
        return [edit.id for edit, _ in _gated(results)]

    def about(self, row: Row) -> str:
        return KINDS[str(row.facets["texts"])][0]

    def sentences(self, results: Results) -> list[str]:
        """Where the gates of the edits shown opened, and where they should not have or should."""
        return [_sentence(edit, rows) for edit, rows in _gated(results) if not edit.baseline]


def _gated(results: Results) -> list[tuple[EditRecord, list[Row]]]:
    """The edits shown that have a gate, an edit of several parts by its parts."""
    shown = {part.id: part for edit in results.shown for part in edit.parts or (edit,)}
    pairs = [(edit, results.of(OPEN, "validation", edit.id)) for edit in shown.values()]
    return [(edit, rows) for edit, rows in pairs if rows]


def _sentence(edit: EditRecord, rows: Sequence[Row]) -> str:
    opened = and_list(map(_where_open, rows))
    shares = {row.facets["texts"]: row.detail["not_closed"] for row in rows}
    said = f"The gate of {place_in_text(edit)} opened {opened}: {CLOSED}"
    if shares.get("agreement", 0.0) > MOST:
        said += (
            " On more than a tenth of the prompts whose next word must agree it is not closed: "
            "grammar is not out of its reach there."
        )
    if shares.get("erase", 1.0) < 1 - MOST:
        said += (
            " On more than a tenth of the prompts to be erased it stays closed: there the edit "
            "cannot act."
        )
    return said


def _where_open(row: Row) -> str:
    """At what share of one kind of text the gate was not wholly closed."""
    _, before, things = KINDS[str(row.facets["texts"])]
    share, count = row.detail["not_closed"], row.detail["tokens"]
    if share in (0, 1):
        return f"{before} {'all' if share else 'none of the'} {count} {things}"
    edge = min(share, 1 - share)
    number = _not_closed(row, 3 + (edge < 0.01) + (edge < 0.001))
    return f"{before} {number.in_text} of the {count} {things}"


def _not_closed(row: Row, digits: int) -> Number:
    share, lo, hi = (row.detail[f"not_closed{end}"] for end in ("", "_lo", "_hi"))
    return Number(share, lo, hi, digits, percent=True)
