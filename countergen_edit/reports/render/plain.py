"""A cell as text alone."""

from __future__ import annotations

from countergen_edit.reports.blocks import Cell, Link, Number, Quotes, Tokens


def plain(cell: Cell) -> str:
    """A cell as text alone, a figure without its interval.

    >>> plain(Number(0.25, 0.1, 0.4)), plain(Tokens(("a", " b"), (0.0, 0.2), "0.1"))
    ('0.250', 'a b 0.1')
    """
    if isinstance(cell, Number):
        return cell.text
    if isinstance(cell, Quotes):
        return "; ".join(" ".join(filter(None, (q.text, q.note))) for q in cell.quotes)
    if isinstance(cell, Tokens):
        return " ".join(filter(None, ("".join(cell.pieces), cell.note)))
    return cell.text if isinstance(cell, Link) else cell
