"""The table that papers print, as LaTeX and as Markdown.

Comes in: a `Leaderboard`. Goes out: text, or files. In LaTeX an interval stands in a line below its
figure, columns that are too many for a page stand below each other, and what is wider than it all
the same is made as wide.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from countergen_edit.core.errors import UserError
from countergen_edit.core.writing import whole
from countergen_edit.metrics.blocks import Number
from countergen_edit.reports.leaderboard import Leaderboard
from countergen_edit.reports.render.card import markdown
from countergen_edit.reports.render.latex import latex_text

NARROWED = r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"

MOST = 6
"""Columns of figures that fit beside each other into a column of text."""


def write(boards: Sequence[Leaderboard], folder: Path) -> list[Path]:
    """Write every table in both forms; the paths, in order.

    Raises:
        UserError: the folder cannot be written.
    """
    texts = {
        folder / f"{board.name}{ending}": form(board)
        for board in boards
        for ending, form in ((".tex", as_latex), (".md", as_markdown))
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in texts.items():
            with whole(path) as temporary:
                temporary.write_text(text, "utf-8", errors="replace")
    except OSError as error:
        raise UserError(f"cannot write {folder}: {error.strerror}") from error
    return [*texts]


def as_latex(board: Leaderboard) -> str:
    """A `table` environment with caption, label and notes."""
    panels = [f"{NARROWED}\n{_tabular(board, columns)}}}" for columns in panels_of(board)]
    notes = "\n".join(latex_text(note) for note in board.notes)
    return "\n".join(
        (
            r"% needs \usepackage{booktabs,graphicx}",
            r"\begin{table}",
            r"\centering\footnotesize\setlength{\tabcolsep}{4pt}",
            rf"\caption{{{latex_text(board.caption)}}}",
            rf"\label{{tab:{board.name}}}",
            "\n\\par\\medskip\n".join(panels),
            rf"\par\smallskip\parbox{{\linewidth}}{{{notes}}}",
            r"\end{table}",
            "",
        )
    )


def panels_of(board: Leaderboard) -> list[list[int]]:
    """Which columns stand beside each other: of one benchmark always, and not many in all.

    Each goes where there is room first, so that those of few columns fill up what others leave.
    """
    numbered = groupby(range(len(board.heads)), lambda i: board.heads[i][0] or i)
    panels: list[list[int]] = []
    for own in (list(columns) for _, columns in numbered):
        panel = next((one for one in panels if len(one) + len(own) <= MOST), None)
        if panel is None:
            panels.append(panel := [])
        panel += own
    return panels


def _tabular(board: Leaderboard, columns: Sequence[int]) -> str:
    from pandas import DataFrame, MultiIndex

    heads = [("", stub) for stub in board.stubs]
    for of, own, unit in (board.heads[i] for i in columns):
        heads.append((_with(of, unit), own) if of else ("", _with(own, unit)))
    rows = []
    for line in board.lines:
        cells = [line.cells[i] for i in columns]
        rows.append([*map(latex_text, line.stubs), *(latex_text(cell.text) for cell in cells)])
        if any(cell.interval for cell in cells):
            rows.append([*("" for _ in line.stubs), *map(_interval, cells)])
    titles = [(latex_text(of), latex_text(own)) for of, own in heads]
    text: str = DataFrame(rows, columns=MultiIndex.from_tuples(titles)).to_latex(
        index=False,
        escape=False,
        column_format="l" * len(board.stubs) + "c" * len(columns),
        multicolumn_format="c",
    )
    return text.rstrip()


def as_markdown(board: Leaderboard) -> str:
    """A table with its caption above and its notes below."""
    lines = [
        [*map(markdown, (*board.stubs, *(_with(f"{of} {own}", u) for of, own, u in board.heads)))],
        ["---"] * len(board.stubs) + ["---:"] * len(board.heads),
        *([*map(markdown, line.stubs), *map(_figure, line.cells)] for line in board.lines),
    ]
    table = [f"| {' | '.join(cells)} |" for cells in lines]
    notes = [markdown(note) for note in board.notes]
    return "\n".join([f"**{markdown(board.caption)}**", "", *table, "", *notes, ""])


def _with(title: str, unit: str) -> str:
    return f"{title} ({unit})" if unit else title


def _interval(cell: Number) -> str:
    ends = latex_text(cell.interval).replace(" to ", ", ")
    return rf"{{\scriptsize [{ends}]}}" if ends else ""


def _figure(cell: Number) -> str:
    text = f"{cell.text} ({cell.interval})" if cell.interval else cell.text
    return markdown(text)
