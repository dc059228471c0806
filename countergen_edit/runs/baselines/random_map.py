"""A random map: each tested edit's own, turned by chance, at the same place about the same mean.

Random directions of equal rank, the control of every edit, are mean-ablated; an edit that is no
orthogonal projection may do more to an activation than that. This one does as much as the edit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from countergen_edit.edits import Edit, NamedEdit, Placement
from countergen_edit.erasers import AffineErasure
from countergen_edit.erasers.affine import randomly_rotated
from countergen_edit.runs.baselines.base import Baseline, kept
from countergen_edit.runs.study import Study
from countergen_edit.core.seeds import generator

RANDOM_MAP = "random_map"


class RandomMap(Baseline):
    """What a random map of the same size does, for each tested edit."""

    def groups(self, study: Study, name: str, tested: Sequence[NamedEdit]) -> list[list[NamedEdit]]:
        """One for each edit, drawn by the run's seed."""
        return [[_of(study, name, edit)] for edit in tested]


def _of(study: Study, name: str, edit: NamedEdit) -> NamedEdit:
    def turn(place: Placement) -> Placement:
        assert isinstance(place.erasure, AffineErasure)  # the edit of an eraser
        rng = generator(study.seed, "random map", edit.id, place.site, place.layer)
        return replace(place, erasure=randomly_rotated(place.erasure, rng))

    return kept(
        study,
        name,
        [edit.id, study.seed],
        lambda: Edit(tuple(map(turn, edit.edit.placements))),
        baseline_kind=RANDOM_MAP,
        variant=f"of {edit.record.eraser}",
    )
