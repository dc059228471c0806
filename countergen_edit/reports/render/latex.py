"""Tables for LaTeX, with `booktabs` and intervals in small type."""

from __future__ import annotations

from countergen_edit.reports.blocks import Cell, Number, Table, plain

SPECIAL = str.maketrans(
    {c: f"\\{c}" for c in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {"−": "$-$", "→": r"$\rightarrow$", "≤": r"$\leq$", "≥": r"$\geq$", "<": "$<$", ">": "$>$"}
    | {"|": r"\textbar{}", "λ": r"$\lambda$", "Φ": r"$\Phi$", "†": r"\dag{}", "²": "$^2$"}
)
"""Characters that LaTeX would interpret, or not set."""


def as_latex(table: Table) -> str:
    """A table in a `table` environment, with caption and label."""
    from pandas import DataFrame

    cells = [[_latex_cell(cell) for cell in row] for row in table.rows]
    text: str = DataFrame(cells, columns=[*map(latex_text, table.columns)]).to_latex(
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
