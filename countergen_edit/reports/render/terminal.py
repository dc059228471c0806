"""Runs and tables in a terminal; a table wider than the console is printed in parts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.style import Style
from rich.table import Table as Printed
from rich.text import Text

from countergen_edit.reports.blocks import (
    FULL_SHADE,
    Cell,
    Number,
    Section,
    Table,
    Tokens,
    Words,
    plain,
)

if TYPE_CHECKING:
    from countergen_edit.reports.run import Run

WIDEST = 34
"""Characters of a column of text; longer texts wrap."""
OVERVIEW = "overview"
WHOLE = (OVERVIEW, "search")
"""Tabs about every candidate of a search."""
BETWEEN = 2
"""Characters between two columns."""
BEGINS_AS_NUMBER = re.compile(r"(→ )?[-+−]?\d|–$|failed$|$")


def print_run(run: Run, console: Console) -> None:
    """Print the layers of a search, the table of all sets and costs, and the verdict.

    Without such a table everything is printed.
    """
    from countergen_edit.reports.search import search  # late: these import torch
    from countergen_edit.reports.sections import summary

    tasks = run.by_task()
    if not any(map(summary, tasks.values())):
        print_all(run, console)
        return
    for task, part in tasks.items():
        if len(tasks) > 1:
            console.rule(Text(task))
        tried, table = search(part), summary(part)
        print_sections([tried] if tried else [], console)
        if table:
            print_table(table, console)
            console.print()
    print_words(run.verdict.lines, console)


def print_all(run: Run, console: Console) -> None:
    """Print every brief block of a report; of a search, metrics' tabs are about its choice."""
    from countergen_edit.reports.findings import of_chosen
    from countergen_edit.reports.sections import sections  # late: these import torch

    parts = sections(run)
    about = of_chosen(run.results)
    if about is not run.results:
        chosen = sections(replace(run, results=about))
        parts = [
            *(section for section in parts if section.name in WHOLE),
            *(section for section in chosen if section.name not in WHOLE),
        ]
    print_sections(parts, console)


def print_sections(parts: Sequence[Section], console: Console) -> None:
    """Print the brief blocks of sections, those of the overview last and its words at the end."""
    last = [section for section in parts if section.name == OVERVIEW]
    words: dict[str, None] = {}
    for section in [*(s for s in parts if s not in last), *last]:
        for block in section.blocks:
            if isinstance(block, Table) and block.brief:
                print_table(block, console)
                console.print()
            elif isinstance(block, Words) and block.brief and section in last:
                words.update(dict.fromkeys(block.sentences))
            elif isinstance(block, Words) and block.brief:
                print_words(block.sentences, console)
                console.print()
    print_words(tuple(words), console)


def print_words(sentences: Sequence[str], console: Console) -> None:
    """Print sentences, one below the other."""
    for sentence in sentences:
        console.print(Text(f"• {_printable(sentence)}"))


def print_table(table: Table, console: Console) -> None:
    """Print a table, intervals below their figures, in as many parts as its width needs."""
    console.print(Text(table.title, style="bold"))
    cells = [[_text(cell) for cell in row] for row in table.rows]
    heads = [_heading(column) for column in table.columns]
    first = 1 if table.grouped else 0
    folded = [
        [*row[:first], Text(row[first].plain.replace("@", "\n@", 1)), *row[first + 1 :]]
        for row in cells
    ]
    # Where it fits, a heading and a row's name take one line each.
    for rows, lines in ((cells, 1), (cells, 3), (folded, 3), (cells, 3)):
        widths = [_width(table, rows, heads, i, lines) for i in range(len(table.columns))]
        if _total(widths[first:]) <= console.width:
            break
    for i, columns in enumerate(_parts(widths, first, console.width)):
        if i:
            console.print()
        console.print(_printed(table, rows, heads, columns, first))
    if table.note:
        console.print(Text(table.note, style="dim"))


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + BETWEEN * (len(widths) - 1)


def _parts(widths: list[int], first: int, most: int) -> Iterator[dict[int, int]]:
    """The columns of each part with their widths; all parts contain the first column."""
    if _total(widths[first:]) > most:
        widths[first] = min(widths[first], max(most // 2 - BETWEEN, 1))
    room = left = most - widths[first]
    part = {first: widths[first]}
    for column in range(first + 1, len(widths)):
        width = min(widths[column], room - BETWEEN)
        if width + BETWEEN > left and len(part) > 1:
            yield part
            part, left = {first: widths[first]}, room
        part[column] = width
        left -= width + BETWEEN
    yield part


def _printed(
    table: Table,
    cells: Sequence[Sequence[Text]],
    heads: Sequence[str],
    columns: dict[int, int],
    first: int,
) -> Printed:
    printed = Printed(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 0, 0, 1))
    for column, width in columns.items():
        justify: Literal["left", "right"] = "right" if _is_numeric(table, column) else "left"
        printed.add_column(Text(heads[column]), justify=justify, width=width, overflow="fold")
    group: Cell | None = None
    for row, texts in zip(table.rows, cells, strict=True):
        if first and row[0] != group:
            if group is not None:
                printed.add_section()
            group = row[0]
            printed.add_row(_text(group).copy(), style="bold")
        printed.add_row(*(texts[column] for column in columns))
    return printed


def _is_numeric(table: Table, column: int) -> bool:
    """Whether a column contains numbers, also as texts, and is aligned to the right."""
    cells = [row[column] for row in table.rows]
    return any(isinstance(cell, Number) for cell in cells) or (
        column > 0 and all(isinstance(c, str) and BEGINS_AS_NUMBER.match(c) for c in cells)
    )


def _width(
    table: Table, cells: Sequence[Sequence[Text]], heads: Sequence[str], column: int, lines: int
) -> int:
    """The width of a column whose heading takes about so many lines."""
    texts = [row[column].plain for row in cells]
    if table.grouped and column == 1:
        texts += [plain(row[0]) for row in table.rows]
    head = max((cell_len(word) for word in heads[column].split()), default=0)
    words = max(map(cell_len, heads[column].split("\n"))) // lines
    natural = max((cell_len(line) for text in texts for line in text.split("\n")), default=0)
    if not any(isinstance(row[column], Number) for row in table.rows):
        natural = min(natural, WIDEST)
    return max(natural, min(head, WIDEST), min(words, WIDEST), 1)


def _heading(column: str) -> str:
    """A column's title, with long names broken before their place."""
    return " ".join(w.replace("@", "\n@") if len(w) > 14 else w for w in column.split())


def _text(cell: Cell) -> Text:
    if isinstance(cell, Tokens):
        return coloured(cell)
    text = Text(_printable(plain(cell)))
    if isinstance(cell, Number) and cell.interval:
        text.append(f"\n{_short(cell.interval)}", style="dim")
    return text


def _printable(text: str) -> str:
    """A text without control characters, which a model may have written."""
    return "".join(c if c.isprintable() or c == "\n" else " " for c in text)


def _short(interval: str) -> str:
    """An interval in few characters.

    >>> _short("0.100 to 10.040")
    '.100–10.040'
    """
    return re.sub(r"(?<!\d)0\.", ".", interval).replace(" to ", "–")


def coloured(tokens: Tokens) -> Text:
    """Tokens, green above 0 and red below."""
    text = Text()
    for piece, value in zip(tokens.pieces, tokens.values, strict=True):
        text.append(_printable(piece.replace("\n", "⏎")), colour(value))
    return text.append(f"  {tokens.note}", "dim") if tokens.note else text


def colour(value: float) -> Style:
    """The colour of a value in [-1, 1]; none near 0.

    >>> colour(0.0) == Style.null()
    True
    >>> str(colour(1.0)), str(colour(-1.0))
    ('bold green', 'bold red')
    """
    share = min(1.0, abs(value) / FULL_SHADE)
    if share < 0.04:
        return Style.null()
    name = "green" if value > 0 else "red"
    return Style.parse(f"bold {name}" if share > 0.3 else name)
