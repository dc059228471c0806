"""Steering: a constant vector is subtracted at every token, at the places of an audit's edits.

    π(x) = x - s v        v = μ_a - μ_b

v is the difference of the groups' mean activations over the counterfactual pairs that erasers are
fitted on: contrastive activation addition (Rimsky et al. 2024, arXiv 2312.06681; activation
addition, Turner et al. 2023, arXiv 2308.10248). Both groups are moved by the same amount, so what
they differ by where it is added stays as it was, to the last digit; only what the blocks above make
of it, which are not linear, can change a difference. It suits a wish that all texts lean one way,
and can hardly make two groups alike, which the table then shows. Refused: a strength of zero.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from countergen_edit.data.task import Task
from countergen_edit.edits import Edit, NamedEdit, Placement, Shift
from countergen_edit.edits.record import Place
from countergen_edit.erasers import MeanDifference
from countergen_edit.core.errors import UserError
from countergen_edit.runs.baselines.base import Baseline, kept
from countergen_edit.runs.cells import Cell
from countergen_edit.runs.study import Study
from countergen_edit.models import LanguageModel

STEERING = "steering"


class Steering(Baseline):
    """What a steering vector does, at the layers of each tested edit.

    Args:
        strengths: how often the difference of the groups' means is subtracted; negative adds it. Of
            several one is chosen on validation data, by the rule that edits are chosen by.

    Raises:
        UserError: there is no strength, or one is no number other than 0.
    """

    def __init__(self, strengths: Sequence[float] = (-2.0, -1.0, 1.0, 2.0)) -> None:
        self.strengths = tuple(strengths)
        for s in self.strengths:
            number = isinstance(s, int | float) and not isinstance(s, bool)
            if not (number and math.isfinite(s) and s):
                raise UserError(f"baseline.steering.strengths: {s!r} is no number other than 0")
        if not self.strengths:
            raise UserError("baseline.steering.strengths=[] names none: write a list such as [1,2]")

    def check(self, model: LanguageModel, task: Task) -> None:
        """Refuse more than two groups, and a choice of strengths without data to choose on."""
        if len(task.groups) > 2:
            raise UserError(
                f"baseline.steering moves one group towards another, and {len(task.groups)} are "
                "compared: name two, such as "
                f"groups=[{','.join(task.pair)}], or leave steering out"
            )
        if len(self.strengths) > 1 and not task.validation:
            raise UserError(
                "baseline.steering chooses its strength on validation data, and there is none: "
                "name "
                "one, such as baseline.steering.strengths=[1]"
            )

    def groups(self, study: Study, name: str, tested: Sequence[NamedEdit]) -> list[list[NamedEdit]]:
        """For each set of places that edits act at, every strength."""
        every = dict.fromkeys(edit.record.places for edit in tested)
        sites = {tuple((p.site, p.layer) for p in places): places for places in every}
        return [
            [self._edit(study, name, places, strength) for strength in self.strengths]
            for places in sites.values()
        ]

    def _edit(self, study: Study, name: str, places: Sequence[Place], strength: float) -> NamedEdit:
        # The vector depends on what a mean difference that is fitted there depends on.
        cells = [Cell(p.site, p.layer, name, MeanDifference()) for p in places]
        return kept(
            study,
            name,
            [[study.basis(cell) for cell in cells], strength],
            lambda: Edit(tuple(_placement(study, cell, strength) for cell in cells)),
            baseline_kind=STEERING,
            variant=f"strength {strength:g}".replace("-", "−"),
            params={"strength": strength},
        )


def _placement(study: Study, cell: Cell, strength: float) -> Placement:
    data = study.fit_data(cell.site)
    rows, _ = data.used(cell.eraser, cell.layer)
    values, group = data.at(cell.layer)[rows], data.group[rows]
    a, b = (values[group == name].mean(axis=0, dtype=float) for name in study.task.pair)
    return Placement(cell.site, cell.layer, Shift(-strength * (a - b)), data.limit(cell.layer))
