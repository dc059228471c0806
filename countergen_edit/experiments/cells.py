"""What is swept: one cell for every layer, eraser, rank and site of an axis.

Comes in: an audit plan for each axis, and what to vary. Goes out: cells in the order of their rows.
Refused: a layer, site or rank that cannot be, before a run folder is made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sklearn.base import clone

from countergen_edit.erasers import BaseEraser
from countergen_edit.errors import UserError
from countergen_edit.experiments.audit import AuditPlan, check_plan
from countergen_edit.experiments.pareto import Tolerance
from countergen_edit.models import LanguageModel, Scratch, hook_name
from countergen_edit.models.sites import has_layers


@dataclass(frozen=True)
class SweepPlan:
    """What is swept.

    Attributes:
        audits: For each axis its data, erasers and metrics; their own site and layers are not used.
        sites: Where edits go.
        layers: Blocks, from 0; None takes all.
        ranks: Ranks for the erasers that take one; empty leaves each at its own.
        combine: Most cells in one combined edit; 1 combines none.
        tolerance: What the chosen edit may cost.
        scratch: Memory and disk for activations.
        mix: Whether a combined edit may hold several erasers and sites.
        name_axes: Whether an edit's name tells its axis, as it must where there are several.
    """

    audits: Mapping[str, AuditPlan]
    sites: tuple[str, ...] = ("resid_post",)
    layers: tuple[int, ...] | None = None
    ranks: tuple[int, ...] = ()
    combine: int = 3
    tolerance: Tolerance = field(default_factory=Tolerance)
    scratch: Scratch = field(default_factory=Scratch)
    mix: bool = True
    name_axes: bool = False

    def __post_init__(self) -> None:
        if not self.sites:
            raise UserError("the sweep has no site: name at least one, such as sites=[resid_post]")
        if self.combine < 1:
            raise UserError(f"combine={self.combine} is below 1: 1 combines nothing")
        if len(self.audits) > 1 and not self.name_axes:
            raise UserError("a sweep of several axes needs name_axes=True to tell edits apart")
        for rank in self.ranks:
            if rank < 1:
                raise UserError(f"ranks={list(self.ranks)}: a rank is at least 1")


@dataclass(frozen=True)
class Cell:
    """One edit of the sweep: an eraser at one place."""

    site: str
    layer: int | None
    name: str
    eraser: BaseEraser

    @property
    def unit(self) -> str:
        """The cell's name among units of work; it tells all that its rows depend on."""
        default = type(self.eraser)().get_params()
        set_to = {k: v for k, v in self.eraser.get_params().items() if v != default[k]}
        settings = ",".join(f"{k}={v}" for k, v in sorted(set_to.items()))
        place = self.site if self.layer is None else f"{self.site}.{self.layer}"
        return f"cell/{place}/{self.name}({settings})"


def cells(model: LanguageModel, plan: SweepPlan, audit: AuditPlan) -> list[Cell]:
    """Every cell of an axis, in the order in which rows are recorded.

    Raises:
        UserError: a layer is out of the model's range, or the model lacks a site.
    """
    found = []
    for site in plan.sites:
        layers: Sequence[int | None] = [None]
        if has_layers(site):
            layers = range(model.n_layers) if plan.layers is None else plan.layers
        for layer in layers:
            hook_name(model, site, layer)
            for name, eraser in audit.erasers.items():
                for ranked in _ranked(eraser, plan.ranks):
                    found.append(Cell(site, layer, name, ranked))
    return found


def _ranked(eraser: BaseEraser, ranks: Sequence[int]) -> list[BaseEraser]:
    if not ranks or "rank" not in eraser.get_params():
        return [eraser]
    return [clone(eraser).set_params(rank=rank) for rank in ranks]


def check_sweep(model: LanguageModel, plan: SweepPlan) -> None:
    """Find what would stop the sweep half way, before a run folder is made.

    Raises:
        UserError: a layer or site does not exist, or anything `check_plan` finds.
    """
    for audit in plan.audits.values():
        cells(model, plan, audit)
        for site in plan.sites:
            check_plan(model, replace(audit, site=site, layers=plan.layers))
