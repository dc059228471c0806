"""Runs and tables in a terminal; a table wider than the console is printed in parts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table as Printed
from rich.text import Text

from countergen_edit.core.characters import printable
from countergen_edit.reports.blocks import Cell, Number, Section, Table, Words, plain

if TYPE_CHECKING:
    from countergen_edit.runs.run import Run

WIDEST = 34
_OVERVIEW = "overview"


def print_run(run: Run, console: Console) -> None:
    """Print a search's front, the table of all sets and costs (or everything), and the verdict."""
    from countergen_edit.reports import sections as tabs  # late: imports torch

    tasks = run.by_task()
    tables = {task: tabs.summary(part) for task, part in tasks.items()}
    if all(table.brief for of_task in tables.values() for table in of_task):
        print_sections(tabs.sections(run), console)
        return
    for task, part in tasks.items():
        if len(tasks) > 1:
            console.rule(Text(printable(task)))
        print_sections(tabs.search_section(part), console)
        for table in tables[task]:
            print_table(table, console)
            console.print()
    print_words(run.verdict.lines, console)


def print_sections(parts: Sequence[Section], console: Console) -> None:
    """Print the brief blocks of sections; the overview comes last, its words at the end."""
    words: dict[str, None] = {}
    for section in sorted(parts, key=lambda section: section.name == _OVERVIEW):
        for block in section.blocks:
            if isinstance(block, Table) and block.brief:
                print_table(block, console)
                console.print()
            elif isinstance(block, Words) and block.brief and section.name == _OVERVIEW:
                words |= dict.fromkeys(block.sentences)
            elif isinstance(block, Words) and block.brief:
                print_words(block.sentences, console)
                console.print()
    print_words(tuple(words), console)


def print_words(sentences: Sequence[str], console: Console) -> None:
    """Print sentences, one below the other."""
    for sentence in sentences:
        console.print(Text(f"• {printable(sentence)}"))


def print_table(table: Table, console: Console) -> None:
    """Print a table, intervals below their figures, in as many parts as its width needs."""
    console.print(Text(printable(table.title), style="bold"))
    first = 1 if table.grouped else 0
    left = [*range(first + 1, len(table.columns))]
    unbound = console.options.update(max_width=10_000)
    while True:
        for count in range(len(left), -1, -1):
            part = _printed(table, [first, *left[:count]])
            if count < 2 or console.measure(part, options=unbound).minimum <= console.width:
                break
        console.print(part)
        left = left[count:]
        if not left:
            break
        console.print()
    if table.note:
        console.print(Text(printable(table.note), style="dim"))


def _printed(table: Table, columns: Sequence[int]) -> Printed:
    printed = Printed(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 0, 0, 1))
    numeric, cells = table.numeric, table.cells
    for column in columns:
        # Words of long names break before the place of an edit.
        words = [w.replace("@", "\n@") if len(w) > 14 else w for w in table.columns[column].split()]
        heading = printable(" ".join(words))
        look: dict[str, Any] = {"max_width": WIDEST, "overflow": "fold"}
        if numeric[column]:  # only columns of text may become narrower than their cells
            texts = [*heading.split(), *(_text(cell).plain for cell in cells[column])]
            least = max(map(cell_len, "\n".join(texts).split("\n"))) or 1
            lines = chain(*(wrap(part, least) for part in heading.split("\n")))
            heading = "\n".join(lines)
            look = {"justify": "right", "no_wrap": True, "overflow": "fold"}
        printed.add_column(Text(heading), **look)
    group: Cell | None = None
    for row in table.rows:
        if table.grouped and row[0] != group:
            if group is not None:
                printed.add_section()
            group = row[0]
            if group != row[1]:
                printed.add_row(_text(group), style="bold")
        printed.add_row(*(_text(row[column]) for column in columns))
    return printed


def _text(cell: Cell) -> Text:
    """A cell; the interval of a number in few characters, such as `.100–10.040`."""
    text = Text(printable(plain(cell)))
    if isinstance(cell, Number) and cell.interval:
        short = re.sub(r"(?<!\d)0\.", ".", cell.interval).replace(" to ", "–")
        text.append(f"\n{short}", style="dim")
    return text
