"""Runs and tables in a terminal.

A run ends with one table of all sets and costs and with its verdict; `print_all` prints every brief
table and sentence. A table that is wider than the console is printed in parts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.style import Style
from rich.table import Table as Printed
from rich.text import Text

from countergen_edit.reports.blocks import Cell, Number, Section, Table, Tokens, Words
from countergen_edit.reports.render.drawing import FULL_SHADE
from countergen_edit.reports.render.plain import plain

if TYPE_CHECKING:
    from countergen_edit.reports.run import Run

WIDEST = 34
"""Cells of a column of text; what is longer goes on below."""
OVERVIEW = "overview"
WHOLE = (OVERVIEW, "search")
"""Tabs that are about every edit of a search."""
BETWEEN = 2
"""Cells between two columns."""


def print_run(run: Run, console: Console) -> None:
    """Print the layers of a search, the table of all sets and costs, and the verdict.

    Where no figure stands side by side with others, everything is printed.
    """
    from countergen_edit.reports.overview import summary  # late: torch comes with these
    from countergen_edit.reports.search import search

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
    from countergen_edit.reports.findings import in_words
    from countergen_edit.reports.sections import sections  # late: torch comes with these

    parts = sections(run)
    about = in_words(run.results)
    if about is not run.results:
        of_choice = sections(replace(run, results=about))
        whole = [section for section in parts if section.name in WHOLE]
        parts = [*whole, *(section for section in of_choice if section.name not in WHOLE)]
    print_sections(parts, console)


def print_sections(parts: Sequence[Section], console: Console) -> None:
    """Print the brief blocks of sections; the overview's come last, and its words at the end."""
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
    """Print a table, intervals below their figures, in as many parts as its width takes."""
    console.print(Text(table.title, style="bold"))
    cells = [[_text(cell) for cell in row] for row in table.rows]
    heads = [_heading(column) for column in table.columns]
    first = 1 if table.grouped else 0
    folded = [_folded(row, first) for row in cells]
    # Where it fits, a heading takes one line, and so does the name that a row begins with.
    for rows, lines in ((cells, 1), (cells, 3), (folded, 3), (cells, 3)):
        widths = [_width(table, rows, heads, i, lines) for i in range(len(table.columns))]
        if sum(widths[first:]) + BETWEEN * (len(widths) - first - 1) <= console.width:
            break
    cells = rows
    for i, columns in enumerate(_parts(widths, first, console.width)):
        if i:
            console.print()
        console.print(_printed(table, cells, heads, columns, first))
    if table.note:
        console.print(Text(table.note, style="dim"))


def _folded(row: Sequence[Text], first: int) -> list[Text]:
    """The cells of a row, whose name goes on below where its place begins."""
    return [*row[:first], Text(row[first].plain.replace("@", "\n@", 1)), *row[first + 1 :]]


def _parts(widths: list[int], first: int, most: int) -> Iterator[dict[int, int]]:
    """The columns of each part of a table with their widths, its first column in all of them."""
    if sum(widths[first:]) + BETWEEN * (len(widths) - first - 1) > most:
        widths[first] = min(widths[first], max(most // 2 - BETWEEN, 1))
    room = most - widths[first]
    part: dict[int, int] = {first: widths[first]}
    left = room
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
        justify = "right" if _is_numeric(table, column) else "left"
        printed.add_column(Text(heads[column]), justify=justify, width=width, overflow="fold")  # type: ignore[arg-type]
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
    """Whether a column holds figures, in words or not, and is set to the right."""
    cells = [row[column] for row in table.rows]
    return any(isinstance(cell, Number) for cell in cells) or (
        column > 0 and all(isinstance(c, str) and _BEGINS_AS_FIGURE.match(c) for c in cells)
    )


_BEGINS_AS_FIGURE = re.compile(r"(→ )?[-+−]?\d|–$|failed$|$")


def _width(
    table: Table, cells: Sequence[Sequence[Text]], heads: Sequence[str], column: int, lines: int
) -> int:
    """What a column takes, its heading being on about so many lines."""
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
    """A column's title, whose long names go on below where their place begins."""
    words = (word.replace("@", "\n@") if len(word) > 14 else word for word in column.split())
    return " ".join(words)


def _text(cell: Cell) -> Text:
    if isinstance(cell, Tokens):
        return coloured(cell)
    text = Text(_printable(plain(cell)))
    if isinstance(cell, Number) and cell.interval:
        text.append(f"\n{_short(cell.interval)}", style="dim")
    return text


def _printable(text: str) -> str:
    """A text without what would command the terminal: a model may have written anything."""
    return "".join(c if c.isprintable() or c == "\n" else " " for c in text)


def _short(interval: str) -> str:
    """An interval as it stands below its figure.

    >>> _short("0.100 to 10.040")
    '.100–10.040'
    """
    return re.sub(r"(?<!\d)0\.", ".", interval).replace(" to ", "–")


def coloured(tokens: Tokens) -> Text:
    """Tokens, greener the higher their value, redder the lower."""
    text = Text()
    for piece, value in zip(tokens.pieces, tokens.values, strict=True):
        text.append(_printable(piece.replace("\n", "⏎")), colour(value))
    return text.append(f"  {tokens.note}", "dim") if tokens.note else text


def colour(value: float) -> Style:
    """The colour of a value in [-1, 1]; near 0 there is none.

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
