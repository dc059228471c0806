"""Words, tables and figures of a report, before they are rendered."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from countergen_edit.metrics.rows import Row
from countergen_edit.reports.panels import Panel

HUGE = 1e6


@dataclass(frozen=True)
class Number:
    """A value with its 95 % interval."""

    value: float | None
    lo: float | None = None
    hi: float | None = None
    digits: int = 3
    percent: bool = False
    """Whether the value is a share, shown in percent."""
    signed: bool = False
    starred: bool = False
    bounded: bool = False
    """Whether a value below the last digit is shown as `< 0.001`; for P values."""

    @classmethod
    def of(cls, row: Row | None, digits: int = 3, **look: bool) -> Number:
        """The value of a row, shown as the other fields say; missing where the row is."""
        return cls(None) if row is None else cls(row.value, row.lo, row.hi, digits, **look)

    def _shown(self, value: float) -> str:
        scaled = 100 * value if self.percent else value
        digits = max(0, self.digits - 3) if self.percent else self.digits
        if abs(scaled) >= HUGE:
            return f"{scaled:.3g}".replace("-", "−")
        rounded = round(scaled, digits) or 0.0  # never a negative zero
        return f"{rounded:{'+' if self.signed and rounded else ''}.{digits}f}".replace("-", "−")

    @property
    def text(self) -> str:
        """The value as tables show it.

        >>> Number(0.00002, digits=4, bounded=True).text
        '< 0.0001'
        >>> Number(0.12345).text, Number(None).text, Number(-0.5, percent=True).text
        ('0.123', '–', '−50 %')
        >>> Number(-0.0001).text, Number(0.5, signed=True).text
        ('0.000', '+0.500')
        """
        if self.value is None:
            return "–"
        if self.bounded and self.value < 10.0**-self.digits:
            return f"< {10.0**-self.digits:.{self.digits}f}"
        return self._shown(self.value) + (" %" if self.percent else "") + "*" * self.starred

    @property
    def interval(self) -> str:
        if self.lo is None or self.hi is None:
            return ""
        return f"{self._shown(self.lo)} to {self._shown(self.hi)}"

    @property
    def in_text(self) -> str:
        """The value and its interval as sentences give them.

        >>> Number(0.25, 0.1, 0.4, digits=2).in_text
        '0.25 [0.10, 0.40]'
        """
        ends = self.interval.replace(" to ", ", ")
        return f"{self.text} [{ends}]" if ends else self.text


@dataclass(frozen=True)
class Quotes:
    """Generated texts in one cell, each with a note."""

    quotes: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Tokens:
    """A text whose tokens are shaded by values in [-1, 1]."""

    pieces: tuple[str, ...]
    values: tuple[float, ...]
    note: str = ""


Cell = str | Number | Quotes | Tokens


def slug(name: str) -> str:
    """A name as that of a file, and as an address within a page."""
    return re.sub(r"[^\w-]+", "-", name)


def plain(cell: Cell) -> str:
    """A cell as text, a number without its interval."""
    if isinstance(cell, Quotes):
        return "; ".join(" ".join(filter(None, quote)) for quote in cell.quotes)
    if isinstance(cell, Tokens):
        return " ".join(filter(None, ("".join(cell.pieces), cell.note)))
    return cell if isinstance(cell, str) else cell.text


@dataclass(frozen=True)
class Table:
    """Rows of cells under named columns, the same for every renderer."""

    name: str
    """Stem of the file that it is exported to."""
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""
    searchable: bool = False
    grouped: bool = False
    """Whether the first column is a heading over the rows that share it."""
    brief: bool = False
    """Whether terminals print it too."""
    folded: str = ""
    """Heading under which a page folds it; terminals leave it out."""

    @property
    def numeric(self) -> list[bool]:
        """Whether each column contains numbers, which are aligned to the right."""
        return [
            any(isinstance(cell, Number) for cell in cells)
            or (any(cells) and all(cell == "" or plain(cell).isdecimal() for cell in cells))
            for cells in self.cells
        ]

    @property
    def cells(self) -> list[list[Cell]]:
        return [[row[i] for row in self.rows] for i in range(len(self.columns))]

    def without_edits(self) -> Table:
        """The table of a run without edits: no empty column, and no name of the unedited model.

        Names of edits stay where they tell measured from published values.
        """
        columns = {
            i: "" if name == "edit" else name
            for i, (name, cells) in enumerate(zip(self.columns, self.cells, strict=True))
            if not (name == "edit" and len({*cells} - {""}) == 1)
            and any(plain(cell) not in ("", "–") for cell in cells)
        }
        rows = tuple(tuple(row[i] for i in columns) for row in self.rows)
        shared = [row[0] for row in rows if isinstance(row[0], str)]
        grouped = self.grouped and len({*shared}) < len(rows)
        return replace(self, columns=(*columns.values(),), rows=rows, grouped=grouped)


@dataclass(frozen=True)
class Figure:
    """Panels side by side."""

    name: str
    title: str
    panels: tuple[Panel, ...]
    note: str


@dataclass(frozen=True)
class Words:
    """Sentences."""

    sentences: tuple[str, ...]
    brief: bool = False
    folded: str = ""
    """Heading under which a page folds them; terminals leave them out."""


Block = Words | Table | Figure


@dataclass(frozen=True)
class Section:
    """A tab of the page."""

    name: str
    title: str
    blocks: tuple[Block, ...] = ()

    def tables(self) -> list[Table]:
        return [block for block in self.blocks if isinstance(block, Table)]

    def figures(self) -> list[Figure]:
        return [block for block in self.blocks if isinstance(block, Figure)]

    def without_edits(self) -> Section:
        """The section of a run without edits; see `Table.without_edits`."""
        blocks = (b.without_edits() if isinstance(b, Table) else b for b in self.blocks)
        return replace(self, blocks=tuple(blocks))
