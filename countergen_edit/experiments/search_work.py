"""How much there is to run in the search of one task, as far as it is known beforehand.

Comes in: the study, its screening, and what the search does with what that leaves. Goes out:
`Work`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from countergen_edit.experiments.cells import Cell
from countergen_edit.experiments.screening import Screening
from countergen_edit.experiments.study import Study
from countergen_edit.experiments.work import Work, captured, measuring, recapturing, refining
from countergen_edit.metrics.base import MeasuredSplit

CANDIDATES = 4
"""How many edits a greedy step tries to add; those of the front come first."""
Tested = Literal["every", "chosen"]


@dataclass(frozen=True)
class SearchWork:
    """The work of one task's search.

    Attributes:
        study: whose model and data.
        screening: what narrows its cells down.
        combine: most cells in one combined edit.
        tested: whether test figures are taken of every edit or of the chosen one alone.
    """

    study: Study
    screening: Screening
    combine: int
    tested: Tested

    @property
    def splits(self) -> tuple[MeasuredSplit, ...]:
        """The splits of which figures are taken for every edit."""
        return ("test", "validation") if self.tested == "every" else ("validation",)

    @property
    def unedited(self) -> Work:
        """The model as it came."""
        return self.edited(None)

    def edited(self, layer: int | None) -> Work:
        """An edit at a layer; None stands for one below all blocks."""
        return sum((measuring(self.study, split, layer) for split in self.splits), Work())

    @property
    def whole(self) -> Work:
        """All that the search takes."""
        rungs = len(self.screening.samples)
        entering = sum(self.screening.expected(r) // 2 for r in range(1, rungs + 1))
        fits = len(self.screening.finalists) + entering
        fitted = Work(captured=captured(self.study.task), fits=fits)
        return self.unedited + fitted + self.screening.work(1) + self.later

    @property
    def later(self) -> Work:
        """What follows the screening: finalists, combinations, and the chosen edit."""
        middle = self.study.model.n_layers // 2
        count = self.screening.expected_finalists
        added = max(min(CANDIDATES, count - 1), 0)
        tried = added * (self.combine - 1)
        chosen = Work()
        if self.tested == "chosen":
            tested = measuring(self.study, "test", middle)
            chosen = measuring(self.study, "test", None) + 2 * tested
            chosen += Work(certificates=self.combine)
        measured = (count + tried) * self.edited(middle)
        refined = self.screening.refining
        if self.study.fitted == "in_turn":  # what is added may come before all that were there
            fits = added * sum(range(self.combine))
            measured += Work(captured=fits * captured(self.study.task), fits=fits)
            refined += (fits / max(count, 1)) * refined
        return measured + chosen + refined

    def combining(self, cells: Sequence[Cell]) -> Work:
        """A combination, with the fits of what comes after others, unless the run has them."""
        cells = self.study.together(cells)
        total = self.edited(min((c.layer for c in cells if c.layer is not None), default=None))
        for cell in cells:
            if cell.after and not self.study.folder.has_edit(self.study.id_of(cell)):
                total += Work(fits=1) + recapturing(self.study, cell) + refining(self.study, cell)
        return total
