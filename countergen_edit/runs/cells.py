"""What a study fits: an eraser at one place, alone or under the edits before it.

Comes in: erasers and places. Goes out: `Cell`s, put in the order of the forward pass. `fitted` says
what the cells of one edit are fitted on:

- `sequential`: each on activations of the model under those before it, so that it erases what they
  leave, and nothing that they have taken or moved;
- `independent`: each on those of the unedited model, as published work does. What a map was fitted
  on is then not what it meets: the maps below have changed it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from countergen_edit.edits import Place
from countergen_edit.erasers import ERASERS, BaseEraser, RandomDirections
from countergen_edit.models.capture import depth
from countergen_edit.core.seeds import unit_seed

Fitted = Literal["sequential", "independent"]
FITTED: tuple[Fitted, ...] = ("sequential", "independent")


@dataclass(frozen=True)
class Cell:
    """One edit to be fitted: an eraser at one place."""

    site: str
    layer: int | None
    name: str
    """The eraser's name in the run."""
    eraser: BaseEraser
    after: tuple[Cell, ...] = ()
    """Those before it in the forward pass, under whose edits it is fitted."""

    @property
    def params(self) -> dict[str, Any]:
        """The eraser's parameters that are not its defaults."""
        return changed_params(self.eraser)

    @property
    def draft(self) -> Cell:
        """What stands for it where many layers are tried on few data."""
        draft = self.eraser.draft
        return (
            self if draft is self.eraser else replace(self, name=f"{self.name}-start", eraser=draft)
        )

    @property
    def unit(self) -> str:
        """The cell's name among units of work."""
        settings = ",".join(f"{k}={v}" for k, v in sorted(self.params.items()))
        place = self.site if self.layer is None else f"{self.site}.{self.layer}"
        return f"cell/{place}/{self.name}({settings})"

    @property
    def lowest(self) -> int | None:
        """The layer up to which the model is unedited while the cell is fitted; None at embed."""
        return (*self.after, self)[0].layer


def changed_params(eraser: BaseEraser) -> dict[str, Any]:
    """The parameters of an eraser that are not its defaults."""
    default = type(eraser)().get_params()
    return {k: v for k, v in eraser.get_params().items() if v != default[k]}


def random_cells(places: Sequence[Place], seed: int) -> list[Cell]:
    """Random directions of each place's rank, drawn by the run's seed.

    Where several act at one place, each has directions of its own, after those before it there.
    """
    cells: list[Cell] = []
    for place in places:
        before = tuple(c for c in cells if (c.site, c.layer) == (place.site, place.layer))
        drawn = [len(before)] if before else []
        state = unit_seed(seed, "random directions", place.rank, place.layer, *drawn) % 2**32
        eraser = RandomDirections(rank=place.rank, random_state=state)
        cells.append(Cell(place.site, place.layer, ERASERS.name_of(eraser), eraser, before))
    return cells


def sequential(cells: Sequence[Cell]) -> list[Cell]:
    """The cells in the order of the forward pass, each after all before it."""
    chain: list[Cell] = []
    for cell in sorted(cells, key=lambda cell: depth(cell.site, cell.layer)):
        chain.append(replace(cell, after=tuple(chain)))
    return chain
