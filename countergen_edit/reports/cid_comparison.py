"""Two prompts side by side: what each is continued with, by λ, its tokens coloured by Δ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich.style import Style
from rich.table import Table
from rich.text import Text

FULL = 0.25
"""Δ at which a colour is at its strongest."""


@dataclass(frozen=True)
class Compared:
    """One continuation: the texts of its tokens, each with its Δ."""

    strength: float
    side: int
    """0 continues the first prompt, 1 the second."""
    pieces: tuple[str, ...]
    delta: tuple[float, ...]
    divergence: float
    """Mean Jensen–Shannon divergence of its tokens, in nats."""


def comparison_table(prompts: Sequence[str], cells: Sequence[Compared], title: str) -> Table:
    """A row for each λ, a column for each prompt."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, title=title)
    table.title_justify, table.title_style = "left", "bold"
    table.add_column("λ", justify="right", no_wrap=True)
    for prompt in prompts:
        table.add_column(Text(f"{prompt} …"), ratio=1)
    for strength in dict.fromkeys(cell.strength for cell in cells):
        of_row = sorted((c for c in cells if c.strength == strength), key=lambda c: c.side)
        table.add_row(f"{strength:g}", *(coloured(cell) for cell in of_row))
    return table


def coloured(cell: Compared) -> Text:
    """Tokens, greener the likelier they are after their own prompt than after the other, redder
    the less likely.
    """
    text = Text()
    for piece, delta in zip(cell.pieces, cell.delta, strict=True):
        text.append(piece.replace("\n", "⏎"), colour(delta))
    text.append(f"  {cell.divergence:.4f}", "dim")
    return text


def colour(delta: float) -> Style:
    """The colour of a Δ in [-1, 1]; near 0 there is none.

    >>> colour(0.0) == Style.null()
    True
    >>> str(colour(1.0)), str(colour(-1.0))
    ('bold green', 'bold red')
    """
    share = min(1.0, abs(delta) / FULL)
    if share < 0.04:
        return Style.null()
    name = "green" if delta > 0 else "red"
    return Style.parse(f"bold {name}" if share > 0.3 else name)


LEGEND = (
    "[green]green[/green]: likelier after this prompt than after the other; "
    "[red]red[/red]: less likely; "
    "[dim]dim[/dim]: how far apart the two next-token distributions were, Jensen–Shannon, nats a "
    "token"
)
