"""CID's continuations as tables: in brief, side by side, and one by one.

Comes in: rows `cid_continuations`, and the continuations of a run's store. Goes out: tables.
Nothing in the texts is trusted to be more than text.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import product

from countergen_edit.metrics.cid.contrasts import LAMBDA, TEMPLATE, Continuation
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import Row
from countergen_edit.reports.blocks import Cell, Number, Quote, Quotes, Table
from countergen_edit.reports.panels import fitting

MOST = 1200
"""Lines of the table of all texts; the store holds them all."""
SCREEN = 80
"""Characters of a line in which two groups stand side by side in brief."""
NARROWEST = 16
"""Characters of a cell in brief at least, whatever an edit is called."""
MARK = "†"
LEGEND = (
    f"The commonest continuations, with how many pairs of names they came from. {MARK} names a "
    "protected criterion outright: an automatic pre-rating by a lexicon; no person has rated."
)


def texts_in_brief(results: Results) -> list[Table]:
    """The commonest continuation of each template, at the smallest and the largest λ.

    One line serves all edits where they leave both groups with the same.
    """
    rows = {_key(row): row for row in results.of("cid_continuations")}
    templates, strengths, edits, groups = _parts(rows.values())
    strengths = [strengths[0], strengths[-1]] if len(strengths) > 1 else strengths
    beside = max(len(f"{s:g}") for s in strengths) + max(map(len, map(results.label, edits)))
    width = max(NARROWEST, (SCREEN - beside) // len(groups) - 3)
    tables = []
    for i, template in enumerate(templates):
        lines: list[tuple[Cell, ...]] = []
        for strength in strengths:
            cells = {
                edit: [_commonest(rows.get((template, strength, edit, g)), width) for g in groups]
                for edit in edits
            }
            alike = len({text for texts in cells.values() for text in texts}) == 1
            for edit in edits[:1] if alike else edits:
                label = "all" if alike and len(edits) > 1 else results.label(edit)
                lines.append((f"{strength:g}", label, *cells[edit]))
        last = LEGEND if i == len(templates) - 1 else ""
        titles = ("λ", "edit", *groups)
        name = f"cid_continuations_brief_{i + 1}"
        tables.append(Table(name, template, titles, tuple(lines), last, brief=True))
    return tables


def _commonest(row: Row | None, width: int) -> str:
    """A row's commonest continuation and its count, no wider than so many characters."""
    if row is None or not row.detail["counts"]:
        return ""
    text, count = row.detail["counts"][0]
    tail = f"{MARK if text in row.detail['automatic'] else ''} ({count})"
    return fitting(str(text), width - len(tail)) + tail


def side_by_side(results: Results) -> Table:
    """The commonest continuations of each template at every λ with their counts, all that a row
    holds (appendix C), before and after side by side.
    """
    rows = {_key(row): row for row in results.of("cid_continuations")}
    templates, strengths, edits, groups = _parts(rows.values())
    lines: list[tuple[Cell, ...]] = [
        (
            template,
            f"{strength:g}",
            results.label(edit),
            *(_quotes(rows.get((template, strength, edit, group))) for group in groups),
        )
        for template, strength, edit in product(templates, strengths, edits)
    ]
    return Table(
        "cid_continuations",
        "Continuations side by side",
        ("template", "λ", "edit", *(f"about {group}" for group in groups)),
        tuple(lines),
        LEGEND,
        searchable=True,
        grouped=True,
    )


def contrasted(results: Results, texts: Sequence[tuple[str, Sequence[Continuation]]]) -> Table:
    """Every continuation, those of the unedited model first.

    Args:
        results: whose edits these are.
        texts: ids of edits, each with its continuations.
    """
    order = {edit: i for i, edit in enumerate(results.compared)}
    count = sum(len(items) for _, items in texts)
    lines: list[tuple[Cell, ...]] = [
        (
            results.label(edit),
            item.template,
            item.own,
            item.other,
            Number(item.strength, digits=0),
            item.text,
            Number(None if math.isnan(item.divergence) else item.divergence, digits=4),
        )
        for edit, items in sorted(texts, key=lambda pair: order.get(pair[0], len(order)))
        for item in items
    ]
    note = "Divergence is Jensen–Shannon, in nats a token."
    rest = f" The first of {count}; the run's store holds all."
    return Table(
        "contrasted",
        "Contrastive continuations",
        ("edit", "template", "about", "against", "λ", "continuation", "divergence"),
        tuple(lines[:MOST]),
        note + (rest if count > MOST else ""),
        searchable=True,
    )


def _key(row: Row) -> tuple[str, float, str, str]:
    return str(row.facets[TEMPLATE]), float(row.facets[LAMBDA]), row.edit, row.group_a


def _parts(rows: Iterable[Row]) -> tuple[list[str], list[float], list[str], list[str]]:
    """Templates, values of λ, edits and groups, each in the order of the rows."""
    keys = [_key(row) for row in rows]
    return tuple(list(dict.fromkeys(column)) for column in zip(*keys, strict=True))  # type: ignore[return-value]


def _quotes(row: Row | None) -> Quotes | str:
    if row is None:
        return ""
    criteria = row.detail.get("automatic", {})
    return Quotes(
        tuple(
            Quote(str(text), f"{count} of {row.n}" + (f" {MARK}" if text in criteria else ""))
            for text, count in row.detail["counts"]
        )
    )
