"""Tables as files: CSV with every digit, and LaTeX with `booktabs`."""

from __future__ import annotations

from countergen_edit.core.writing import spreadsheet_cell
from countergen_edit.reports.blocks import Cell, Number, Table, plain

SPECIAL = str.maketrans(
    {c: f"\\{c}" for c in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {"−": "$-$", "→": r"$\rightarrow$", "≤": r"$\leq$", "≥": r"$\geq$", "<": "$<$", ">": "$>$"}
    | {"|": r"\textbar{}", "λ": r"$\lambda$", "Φ": r"$\Phi$", "†": r"\dag{}", "²": "$^2$"}
)
"""Characters that LaTeX would interpret, or not set."""


def as_csv(table: Table) -> str:
    """A table with a header; `from` and `to` follow a column with intervals.

    >>> print(as_csv(Table("t", "T", ("set", "R"), (("jobs", Number(0.25, 0.1, 0.4)),))), end="")
    set,R,R from,R to
    jobs,0.25,0.1,0.4
    """
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
    """Text with LaTeX's characters escaped.

    >>> latex_text("P(a_b) < 5 %")
    'P(a\\\\_b) $<$ 5 \\\\%'
    """
    return " ".join(text.split()).translate(SPECIAL)


def _latex_cell(cell: Cell) -> str:
    text = latex_text(plain(cell))
    if isinstance(cell, Number) and cell.interval:
        text += f" {{\\scriptsize [{latex_text(cell.interval).replace(' to ', ', ')}]}}"
    return text
