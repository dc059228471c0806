"""Candidates: an eraser at one place, fitted alone or under the edits before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from countergen_edit.core.seeds import unit_seed
from countergen_edit.edits import Place
from countergen_edit.erasers import ERASERS, BaseEraser, RandomDirections
from countergen_edit.models.capture import depth

Fitted = Literal["sequential", "independent"]
"""`sequential` fits each map of an edit on activations under the maps before it; `independent`
fits each on those of the unedited model, as published work does."""


@dataclass(frozen=True)
class Candidate:
    """An eraser at one place."""

    site: str
    layer: int | None
    name: str
    """The eraser's name in the run."""
    eraser: BaseEraser
    after: tuple[Candidate, ...] = ()
    """Those before it in the forward pass, under whose edits it is fitted."""

    @property
    def params(self) -> dict[str, Any]:
        """The eraser's parameters that differ from its defaults."""
        return changed_params(self.eraser)

    @property
    def draft(self) -> Candidate:
        """The quicker candidate that stands for it during screening."""
        draft = self.eraser.draft
        if draft is self.eraser:
            return self
        return replace(self, name=f"{self.name}-start", eraser=draft)

    @property
    def label(self) -> str:
        settings = ",".join(f"{k}={v}" for k, v in sorted(self.params.items()))
        place = self.site if self.layer is None else f"{self.site}.{self.layer}"
        return f"{place}/{self.name}({settings})"


def changed_params(eraser: BaseEraser) -> dict[str, Any]:
    """The parameters of an eraser that differ from its defaults."""
    default = type(eraser)().get_params()
    return {k: v for k, v in eraser.get_params().items() if v != default[k]}


def random_candidates(places: Sequence[Place], seed: int) -> list[Candidate]:
    """Random directions of each place's rank; several at one place follow each other."""
    found: list[Candidate] = []
    for place in places:
        before = tuple(c for c in found if (c.site, c.layer) == (place.site, place.layer))
        drawn = [len(before)] if before else []
        state = unit_seed(seed, "random directions", place.rank, place.layer, *drawn) % 2**32
        eraser = RandomDirections(rank=place.rank, random_state=state)
        found.append(Candidate(place.site, place.layer, ERASERS.name_of(eraser), eraser, before))
    return found


def sequential(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The candidates in the order of the forward pass, each after all before it."""
    chain: list[Candidate] = []
    for candidate in sorted(candidates, key=lambda c: depth(c.site, c.layer)):
        chain.append(replace(candidate, after=tuple(chain)))
    return chain
