"""What a report is made of, before it is a page, a CSV file or a LaTeX table.

Comes in: figures and texts as rows hold them. Goes out: words, tables, figures and facts that know
nothing of how they will be shown. Texts are plain: escaping them is the business of whoever shows
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from countergen_edit.metrics.rows import Row
from countergen_edit.reports.panels import Panel

HUGE = 1e6
"""What is as large is shown by its first digits and its power of ten."""


@dataclass(frozen=True)
class Number:
    """A figure with its 95 % interval."""

    value: float | None
    lo: float | None = None
    hi: float | None = None
    digits: int = 3
    percent: bool = False
    """Whether the value is a share, shown in percent."""
    signed: bool = False
    starred: bool = False
    bounded: bool = False
    """Whether what is smaller than the last digit is shown as that; for p-values."""

    @classmethod
    def of(
        cls,
        row: Row | None,
        digits: int = 3,
        *,
        percent: bool = False,
        signed: bool = False,
        starred: bool = False,
    ) -> Number:
        """A row's figure; a missing row is a missing figure."""
        if row is None:
            return cls(None)
        return cls(row.value, row.lo, row.hi, digits, percent, signed, starred)

    def _shown(self, value: float) -> str:
        scaled, digits = (100 * value, max(0, self.digits - 3)) if self.percent else (value, 0)
        digits = digits if self.percent else self.digits
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
        """Its interval, empty where there is none.

        >>> Number(0.25, 0.1, 0.4).interval
        '0.100 to 0.400'
        """
        if self.lo is None or self.hi is None:
            return ""
        return f"{self._shown(self.lo)} to {self._shown(self.hi)}"


@dataclass(frozen=True)
class Quote:
    """One generated text, and what is known of it."""

    text: str
    note: str = ""


@dataclass(frozen=True)
class Quotes:
    """Texts that share a cell."""

    quotes: tuple[Quote, ...]


@dataclass(frozen=True)
class Tokens:
    """A text token by token, each shaded by a value in [-1, 1]."""

    pieces: tuple[str, ...]
    values: tuple[float, ...]
    note: str = ""


@dataclass(frozen=True)
class Link:
    """A text that leads to another page."""

    text: str
    address: str
    """From the page that holds it, written as a web address is."""


Cell = str | Number | Quotes | Tokens | Link


@dataclass(frozen=True)
class Table:
    """Rows of cells under named columns."""

    name: str
    """Names the file it is exported to."""
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""
    searchable: bool = False
    grouped: bool = False
    """Whether the first column names groups, each a heading over its rows."""
    brief: bool = False
    """Whether it is shown where there is little room, as in a terminal, too."""


@dataclass(frozen=True)
class Figure:
    """Panels drawn side by side, with what they show in words."""

    name: str
    title: str
    panels: tuple[Panel, ...]
    note: str


@dataclass(frozen=True)
class Words:
    """Sentences, each with the verdict it begins with where it has one."""

    sentences: tuple[str, ...]
    brief: bool = False


@dataclass(frozen=True)
class Fold:
    """Blocks that a page shows when it is asked for them, and a terminal does not."""

    title: str
    blocks: tuple[Words | Table | Figure, ...]


Block = Words | Table | Figure | Fold


def unfolded(blocks: Iterable[Block]) -> Iterator[Words | Table | Figure]:
    """Blocks in order, those that are folded away among them.

    >>> [*unfolded([Words(("a",)), Fold("more", (Words(("b",)),))])]
    [Words(sentences=('a',), brief=False), Words(sentences=('b',), brief=False)]
    """
    for block in blocks:
        if isinstance(block, Fold):
            yield from block.blocks
        else:
            yield block


@dataclass(frozen=True)
class Section:
    """A part of a report: one tab of the page. Sections of one name are shown as one."""

    name: str
    title: str
    blocks: tuple[Block, ...] = field(default=())

    def tables(self) -> list[Table]:
        """Its tables, in order."""
        return [block for block in unfolded(self.blocks) if isinstance(block, Table)]

    def figures(self) -> list[Figure]:
        """Its figures, in order."""
        return [block for block in unfolded(self.blocks) if isinstance(block, Figure)]
