"""A report's figures and tables as files for papers.

Comes in: sections. Goes out: SVG, PDF or PNG for every figure; CSV with every digit and LaTeX with
those that are shown for every table. Refused: a form that nothing is written in.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from countergen_edit.errors import UserError, unknown
from countergen_edit.reports.blocks import Cell, Number, Quotes, Section, Table
from countergen_edit.reports.figures.panels import DATELESS, write

FIGURES = tuple(ending.removeprefix(".") for ending in DATELESS)
"""Forms of figures."""
SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{c: f"\\{c}" for c in "&%$#_{}"},
    "−": "$-$",
    "→": r"$\rightarrow$",
    "<": "$<$",
    ">": "$>$",
    "|": r"\textbar{}",
    "λ": r"$\lambda$",
    "Φ": r"$\Phi$",
    "†": r"\dag{}",
    "²": r"\textsuperscript{2}",
}
"""What LaTeX takes for something else, and how it is written."""


def export(
    sections: Sequence[Section], folder: Path, figures: Sequence[str], tables: Sequence[str]
) -> list[Path]:
    """Write every figure and table of the sections; the paths, in order.

    Args:
        sections: of one report.
        folder: made if it is not there.
        figures: forms, of `svg`, `pdf`, `png`.
        tables: forms, of `csv`, `latex`.

    Raises:
        UserError: a form is unknown, or the folder cannot be written.
    """
    for key, forms, known in (("figures", figures, FIGURES), ("tables", tables, tuple(TABLES))):
        for form in forms:
            if form not in known:
                raise unknown(key, form, known)
    written: list[Path] = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for section in sections:
            for figure in section.figures() if figures else ():
                endings = [f".{form}" for form in figures]
                written += write(figure.panels, figure.title, folder / figure.name, endings)
            for table in section.tables():
                for form in tables:
                    ending, text = TABLES[form]
                    written.append(folder / f"{table.name}{ending}")
                    written[-1].write_text(text(table), "utf-8", errors="replace")
    except OSError as error:
        raise UserError(f"cannot write {folder}: {error.strerror}") from error
    return written


def as_csv(table: Table) -> str:
    """A table with a header; a column of figures with intervals becomes three, with every digit.

    >>> print(as_csv(Table("t", "T", ("set", "R"), (("jobs", Number(0.25, 0.1, 0.4)),))), end="")
    set,R,R from,R to
    jobs,0.25,0.1,0.4
    """
    spread = [_has_interval(row[i] for row in table.rows) for i in range(len(table.columns))]
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    header: list[str] = []
    for column, wide in zip(table.columns, spread, strict=True):
        title = " ".join(column.split())
        header += [title, f"{title} from", f"{title} to"] if wide else [title]
    writer.writerow(header)
    for row in table.rows:
        line: list[object] = []
        for cell, wide in zip(row, spread, strict=True):
            line += _fields(cell)[: 3 if wide else 1]
        writer.writerow(line)
    return file.getvalue()


def _has_interval(cells: Iterable[Cell]) -> bool:
    return any(isinstance(cell, Number) and cell.lo is not None for cell in cells)


def _fields(cell: Cell) -> list[object]:
    if isinstance(cell, Number):
        return [cell.value, cell.lo, cell.hi]
    if isinstance(cell, Quotes):
        return ["; ".join(" ".join(filter(None, (q.text, q.note))) for q in cell.quotes), "", ""]
    return [cell, "", ""]


def as_latex(table: Table) -> str:
    """A `booktabs` table; intervals stand small behind their figures."""
    alignment = "".join(
        "r" if any(isinstance(row[i], Number) for row in table.rows) else "l"
        for i in range(len(table.columns))
    )
    lines = [
        "% needs \\usepackage{booktabs}",
        r"\begin{table}",
        rf"\caption{{{latex_text(table.title)}}}",
        rf"\label{{tab:{table.name}}}",
        rf"\begin{{tabular}}{{{alignment}}}",
        r"\toprule",
        _latex_row([latex_text(column) for column in table.columns]),
        r"\midrule",
        *(_latex_row([_latex_cell(cell) for cell in row]) for row in table.rows),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def latex_text(text: str) -> str:
    """Text that LaTeX prints as it stands.

    >>> latex_text("P(a_b) < 5 %")
    'P(a\\\\_b) $<$ 5 \\\\%'
    """
    text = " ".join(text.split())
    return "".join(SPECIAL.get(character, character) for character in text)


def _latex_row(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"


def _latex_cell(cell: Cell) -> str:
    if isinstance(cell, Number):
        interval = f" {{\\scriptsize [{latex_text(cell.interval)}]}}" if cell.interval else ""
        return latex_text(cell.text) + re.sub(" to ", ", ", interval)
    return latex_text(str(_fields(cell)[0]))


TABLES: Mapping[str, tuple[str, Callable[[Table], str]]] = {
    "csv": (".csv", as_csv),
    "latex": (".tex", as_latex),
}
"""Forms of tables → how their files end, and what writes them."""
