"""Tables as CSV, with every digit and with intervals in columns of their own."""

from __future__ import annotations

from countergen_edit.core.writing import spreadsheet_cell
from countergen_edit.reports.blocks import Cell, Number, Table, plain


def as_csv(table: Table) -> str:
    """A table with a header; `from` and `to` follow a column with intervals.

    >>> print(as_csv(Table("t", "T", ("set", "R"), (("jobs", Number(0.25, 0.1, 0.4)),))), end="")
    set,R,R from,R to
    jobs,0.25,0.1,0.4
    """
    from pandas import DataFrame

    header: list[str] = []
    columns: list[list[object]] = []
    for i, name in enumerate(table.columns):
        title, cells = " ".join(name.split()), [row[i] for row in table.rows]
        header.append(title)
        columns.append([_value(cell) for cell in cells])
        if any(isinstance(cell, Number) and cell.lo is not None for cell in cells):
            header += [f"{title} from", f"{title} to"]
            for end in ("lo", "hi"):
                columns.append([getattr(cell, end, None) for cell in cells])
    frame = DataFrame([*zip(*columns, strict=True)], columns=header, dtype=object)
    text: str = frame.to_csv(index=False, lineterminator="\n")
    return text


def _value(cell: Cell) -> object:
    if isinstance(cell, Number):
        return cell.value
    return spreadsheet_cell(plain(cell))
