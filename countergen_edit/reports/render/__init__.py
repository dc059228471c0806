"""Renderers of blocks; `export` writes figures, and tables as CSV or LaTeX."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from countergen_edit.core.errors import UserError, require_known
from countergen_edit.core.writing import spreadsheet_cell, whole
from countergen_edit.reports.blocks import Cell, Number, Section, Table, plain, slug
from countergen_edit.reports.render.figures import DATELESS, write

FIGURES = tuple(ending.removeprefix(".") for ending in DATELESS)
SPECIAL = str.maketrans(
    {c: f"\\{c}" for c in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {"−": "$-$", "→": r"$\rightarrow$", "≤": r"$\leq$", "≥": r"$\geq$", "<": "$<$", ">": "$>$"}
    | {"|": r"\textbar{}", "λ": r"$\lambda$", "Φ": r"$\Phi$", "†": r"\dag{}", "²": "$^2$"}
)
"""Characters that LaTeX would interpret, or not set."""


def as_csv(table: Table) -> str:
    """A table with every digit; `from` and `to` follow a column with intervals."""
    from pandas import Series, concat

    columns = []
    for name, cells in zip(table.columns, table.cells, strict=True):
        title = " ".join(name.split())
        values = [c.value if isinstance(c, Number) else spreadsheet_cell(plain(c)) for c in cells]
        columns.append(Series(values, name=title, dtype=object))
        if any(getattr(cell, "lo", None) is not None for cell in cells):
            for end, word in (("lo", "from"), ("hi", "to")):
                ends = [getattr(cell, end, None) for cell in cells]
                columns.append(Series(ends, name=f"{title} {word}", dtype=object))
    return str(concat(columns, axis=1).to_csv(index=False, lineterminator="\n"))


def as_latex(table: Table) -> str:
    """A table in a `table` environment, with caption, label and intervals in small type."""
    from pandas import DataFrame

    text: str = DataFrame(
        [[*map(_latex_cell, row)] for row in table.rows], columns=[*map(latex_text, table.columns)]
    ).to_latex(
        index=False,
        escape=False,
        column_format="".join("r" if numeric else "l" for numeric in table.numeric),
        caption=latex_text(table.title),
        label=f"tab:{table.name}",
    )
    return f"% needs \\usepackage{{booktabs}}\n{text}"


def latex_text(text: str) -> str:
    """Text with LaTeX's characters escaped."""
    return " ".join(text.split()).translate(SPECIAL)


def _latex_cell(cell: Cell) -> str:
    text = latex_text(plain(cell))
    if isinstance(cell, Number) and cell.interval:
        text += f" {{\\scriptsize [{latex_text(cell.interval).replace(' to ', ', ')}]}}"
    return text


TABLES = {"csv": (".csv", as_csv), "latex": (".tex", as_latex)}


def export(sections: Sequence[Section], folder: Path, forms: Sequence[str]) -> list[Path]:
    """Write every figure and table of the sections; the paths, in order.

    `UserError` if a form is none of `FIGURES` and `TABLES`, or the folder cannot be written.
    """
    for form in forms:
        require_known("form", form, (*FIGURES, *TABLES))
    endings = [f".{form}" for form in forms if form in FIGURES]
    written: list[Path] = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for section in sections:
            for figure in section.figures() if endings else ():
                written += write(figure, folder / slug(figure.name), endings)
            for table in section.tables():
                for ending, text in (TABLES[form] for form in TABLES if form in forms):
                    written.append(folder / f"{slug(table.name)}{ending}")
                    with whole(written[-1]) as temporary:
                        temporary.write_text(text(table), "utf-8", errors="replace")
    except OSError as error:
        raise UserError(f"cannot write {folder}: {error.strerror}") from error
    return written
