"""The reproduction guide as Markdown: published figures beside ours, item by item.

Comes in: papers, and the records of runs. Goes out: the text of `docs/reproduction.md`. Nothing is
computed here: each figure is a row's, scaled as the paper prints it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from guide.entries import MODELS, Entry, Paper, Shown
from guide.runs import Record, Records

from countergen_edit.metrics.rows import COLUMNS, Row

HEAD = """\
# The papers, table by table

Made by `python scripts/reproduction.py` from `docs/reproduction/`: what each paper shows, the
command that remakes it, what was published, and what a run gave. Change the entries, not this page.

A command as it stands has the paper's size, and takes any model (`model=gpt2`). The figures beside
it come from short runs, on the shipped testbed and on a real model, a 4-bit rounding of
SmolLM2-135M-Instruct; their commands stand below each. Neither is a paper's model, so that what
should agree is what a figure says, not its digits. Intervals are of 95 %. Times are processor time
of all threads, so that a busy machine does not lengthen them. "–" is what is not measured.
"""
DASH = "–"
MANY = 3
"""So many rows in a cell are shown with their intervals."""


def page(papers: Sequence[Paper], records: Records) -> str:
    """The whole guide."""
    parts = [HEAD, _overview(papers, records)]
    for paper in papers:
        parts.append(f"## {paper.title}\n")
        parts += [_entry(entry, records) for entry in paper.entries.values()]
    return "\n".join(parts)


def _table(titles: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    cells = [titles, ["---"] * len(titles), *lines]
    escaped = ([cell.replace("|", r"\|") for cell in line] for line in cells)
    return "".join(f"| {' | '.join(line)} |\n" for line in escaped)


def _overview(papers: Sequence[Paper], records: Records) -> str:
    lines = [
        [
            paper.text,
            f"[{entry.item}](#{_anchor(entry)})",
            f"`countergen-edit {entry.command}`" if entry.command else DASH,
            f"`{entry.extra}`" if entry.extra else "",
            *(_time(records.get((entry.name, column)), entry, column) for column in MODELS),
        ]
        for paper in papers
        for entry in paper.entries.values()
    ]
    columns = (f"time, {column}" for column in MODELS)
    return _table(["paper", "item", "command", "extra", *columns], lines)


def _anchor(entry: Entry) -> str:
    """How a heading is linked to: as its own tag, whatever a renderer makes of the words."""
    return entry.name.replace("_", "-")


def _time(record: Record | None, entry: Entry, column: str) -> str:
    if record is not None:
        seconds = record.seconds
        return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.1f} min"
    return "not run yet" if column in entry.short else DASH


def _entry(entry: Entry, records: Records) -> str:
    text = f'<a id="{_anchor(entry)}"></a>\n\n### {entry.item}: {entry.shows}\n\n'
    if entry.command:
        text += f"```sh\ncountergen-edit {entry.command}\n```\n\n"
    if entry.figures:
        own = {column: records.get((entry.name, column)) for column in MODELS}
        lines = []
        for i, figure in enumerate(entry.figures):
            ours = [cell(figure, record.shown[i]) if record else DASH for record in own.values()]
            lines.append([figure.what, figure.published or DASH, *ours])
        text += _table(["", "published", *MODELS], lines) + "\n"
    for record in filter(None, (records.get((entry.name, column)) for column in MODELS)):
        text += f"{record.column}, {_time(record, entry, record.column)}: `{record.command}`\n\n"
    return text + (f"{entry.apart.strip()}\n" if entry.apart else "")


def cell(figure: Shown, rows: Sequence[Row]) -> str:
    """What a line shows of its rows: `0.95 [0.85, 1.05]`, or several, each behind its label."""
    return "; ".join(
        " ".join(filter(None, (_label(row, figure.by), _figure(figure, row, len(rows)))))
        for row in rows
    )


def _label(row: Row, by: Sequence[str]) -> str:
    values = (getattr(row, key) if key in COLUMNS else row.facets.get(key) for key in by)
    words = [
        f"layer {', '.join(map(str, value))}"
        if isinstance(value, tuple)
        else f"{value:g}"
        if isinstance(value, float)
        else str(value)
        for value in values
        if value not in ("", (), None)
    ]
    return f"{' '.join(words) or 'unedited'}:" if by else ""


def _figure(figure: Shown, row: Row, rows: int) -> str:
    if figure.field:
        return _of_detail(row.detail.get(figure.field), figure)
    if row.value is None:
        return "undefined"
    value = number(row.value * figure.times)
    if row.lo is None or row.hi is None or rows > MANY:
        return value
    return f"{value} [{number(row.lo * figure.times)}, {number(row.hi * figure.times)}]"


def _of_detail(value: Any, figure: Shown) -> str:
    if isinstance(value, (int, float)):
        return number(value * figure.times)
    if not isinstance(value, Sequence) or isinstance(value, str):
        return "undefined" if value is None else str(value)
    if not value:
        return "none"
    if figure.at is None:
        return " / ".join(f"{item * figure.times:g}" for item in value)
    items = []
    for item in value:
        shown = _of_detail(item[figure.at], figure)
        items.append(shown if isinstance(item, dict) else f"{item[0]}: {shown}")
    return "; ".join(items)


def number(value: float) -> str:
    """Three digits behind the point, fewer where more stand before it.

    >>> number(1.0), number(85.83), number(1234.5), number(5.0)
    ('1.000', '85.8', '1234', '5')
    """
    if float(value).is_integer() and abs(value) > 1:
        return f"{value:.0f}"
    digits = 3 if abs(value) < 10 else 1 if abs(value) < 1000 else 0
    return f"{value:.{digits}f}"
