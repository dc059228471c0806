"""The plan of a run; audit, sweep and debias differ in its settings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from countergen_edit.core.errors import UserError, unknown
from countergen_edit.data.counterfactual import CounterfactualSet
from countergen_edit.data.task import Task
from countergen_edit.edits import NamedEdit
from countergen_edit.edits.checkpoints.stock import stream_writers
from countergen_edit.erasers import BaseEraser
from countergen_edit.metrics.base import METRICS, Metric, generating
from countergen_edit.models import LanguageModel, Scratch, check_texts, hook_name, replying
from countergen_edit.models.capture import EVERYWHERE, HEAD
from countergen_edit.runs.fit_data import Positions, capture_sites
from countergen_edit.runs.halving import Halving

Tested = Literal["every", "chosen"]
"""Whether every edit is measured on test data, or the chosen ones alone."""
Select = Literal["eraser", "task"]
"""Whether one edit is selected for each eraser, or for the whole task."""
Fitted = Literal["sequential", "independent"]
"""`sequential` fits each map of an edit on activations under the maps before it; `independent`
fits each on those of the unedited model, as published work does."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The settings of a run; without erasers the unedited model is measured on test data alone.

    `UserError` if a setting is out of range, or two tasks have one name.

    Attributes
    ----------
    tasks : several are run one by one; their names tell them apart
    erasers, baselines : by their names in the run
    metrics : with the budgets of costs
    sites : where edits act; `everywhere` is every point of the residual stream, and its layers
        are those after which edits are fitted
    layers : blocks, from 0; None takes all
    ranks : for the erasers that take one; empty leaves each at its own
    together : whether `layers` are edited together; else one is selected on validation data
    combine : most candidates in one edit of a task; 1 combines none
    halving : how candidates are narrowed down; None measures each on all validation data
    skip_attention_sinks : leave attention sinks out of fits and edits
    before : an edit that is measured beside the unedited model, of a plan without erasers
    scratch : memory and disk for activations
    """

    tasks: Sequence[Task]
    erasers: Mapping[str, BaseEraser] = field(default_factory=dict)
    metrics: Sequence[Metric]
    sites: tuple[str, ...] = ("resid_post",)
    layers: tuple[int, ...] | None = None
    ranks: tuple[int, ...] = ()
    together: bool = False
    select: Select = "eraser"
    combine: int = 1
    tested: Tested = "chosen"
    positions: Positions = "outputs"
    halving: Halving | None = field(default_factory=Halving)
    skip_attention_sinks: bool = True
    fitted: Fitted = "sequential"
    baselines: Mapping[str, Any] = field(default_factory=dict)
    before: NamedEdit | None = None
    scratch: Scratch = field(default_factory=Scratch)
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.sites:
            raise UserError("the search has no site: name at least one, such as sites=[resid_post]")
        if self.combine < 1:
            raise UserError(f"combine={self.combine} is below 1: 1 combines nothing")
        if self.select == "task" and not self.erasers:
            raise UserError(
                "there is no eraser, and so no edit: name at least one, such as eraser=rlace"
            )
        if any(rank < 1 for rank in self.ranks):
            raise UserError(f"ranks={list(self.ranks)}: a rank is at least 1")
        names = [task.name for task in self.tasks]
        if len(set(names)) < len(names):
            raise UserError(f"two tasks of the run are called {max(names, key=names.count)!r}")
        if not self.erasers:
            object.__setattr__(self, "tasks", [_test_only(task) for task in self.tasks])
            if self.before is None:
                object.__setattr__(self, "metrics", _of_models(self.metrics))

    @property
    def stops_early(self) -> bool:
        """Whether a task without a significant bias ends the run."""
        return self.select == "task" and self.tested == "chosen"

    def check(self, model: LanguageModel) -> None:
        """`UserError` if a task, eraser, metric or baseline does not suit the model or data."""
        if not self.metrics:
            raise UserError("there is no metric: name at least one, such as metric=r")
        if self.baselines and not self.erasers:
            raise UserError(
                f"baseline={next(iter(self.baselines))} stands beside edits, and without an eraser "
                "there are none: name one, such as eraser=rlace"
            )
        scoring = any(not metric.is_generating for metric in self.metrics)
        for task in self.tasks:
            if self.erasers:
                task.check_leakage()
                self._check_fits(model, task)
            else:
                self._check_unedited(model, task, scoring)
            if self.erasers or scoring:
                check_texts(replying(model) or model, texts_of(task.every_set))
            for metric in self.metrics:
                metric.bound(task).check(model)
            if self.erasers:
                sites = ["head.0" if site == HEAD else site for site in self.sites]
                place = {"sites": sites, "layers": self.layers, "positions": self.positions}
                prompt = replace(task.fit[0], samples=task.fit[0].samples[:1])
                capture_sites(model, [prompt], [], task.weighed[:1], **place)  # type: ignore[arg-type]
            for baseline in self.baselines.values():
                baseline.check(model, task)

    def _check_fits(self, model: LanguageModel, task: Task) -> None:
        trained = [name for name, eraser in self.erasers.items() if eraser.trains_weights]
        if not self.together and not task.validation:
            raise UserError(
                "edit.layers=best needs a set under data.validation; or name a layer"
                if self.select == "eraser"
                else "a search needs a set under data.validation to choose by"
            )
        if trained and not task.validation:
            raise UserError("eraser=distilled needs a set under data.validation to stop by")
        if not task.test:
            raise UserError("there are no test sets: name at least one under data.test")
        if model.no_activations:
            raise UserError(
                f"nothing is fitted on {model.name}, {model.no_activations}: measure it as it is, "
                f"eraser=none metric=[{','.join(generating())}]"
            )
        if not task.fit:
            raise UserError("there are no fitting sets: name at least one under data.fit")
        if model.is_quantized and (trained or EVERYWHERE in self.sites):
            raise UserError(
                "eraser=distilled and edit.layers=everywhere change full weights: leave "
                "model.quantization out, or name other erasers, such as eraser=preserving"
            )
        for eraser in self.erasers.values():
            eraser.check()
            rank = getattr(eraser, "rank", None)
            if isinstance(rank, int) and rank >= model.d_model:
                raise UserError(
                    f"rank = {rank} would erase all of the {model.d_model} features of "
                    f"{model.name}: use {model.d_model - 1} or less"
                )
        for site in self.sites:
            for layer in self.layers or (0,):
                hook_name(model, site, layer)
        # An update of weights edits no activations, whatever the site of the plan.
        if EVERYWHERE in self.sites and len(trained) < len(self.erasers):
            stream_writers(model)
        if HEAD in self.sites and (len(self.sites) > 1 or self.select == "eraser"):
            raise UserError("heads are searched alone: debias edit=head eraser=leace")
        if HEAD in self.sites and trained:
            raise UserError(
                f"eraser={trained[0]} updates weights, and edit=head projects the outputs of "
                "heads: name a projection, such as eraser=leace"
            )

    def _check_unedited(self, model: LanguageModel, task: Task, scoring: bool) -> None:
        if scoring and not (task.test or task.out_of_vocabulary):
            raise UserError("there are no test sets: name at least one under data.test")
        for metric in self.metrics:
            if lack := lacking(model, metric):
                ways = filter(None, (f"metric=[{','.join(generating())}]", metric.narrowed(model)))
                raise UserError(
                    f"metric={_called(metric)} needs {lack}: what can be measured on it is "
                    f"{' or '.join(ways)}"
                )


def where(
    sites: Sequence[str], layers: Sequence[int] | str | None
) -> tuple[tuple[str, ...], tuple[int, ...] | None]:
    """Sites and layers of a plan; layers "everywhere" stand for that site, fitted at any layer.

    `UserError` for another word, and everywhere for sites beside the residual stream.
    """
    if not isinstance(layers, str):
        return tuple(sites), None if layers is None else tuple(layers)
    if layers != EVERYWHERE:
        raise unknown("layers", layers, [EVERYWHERE])
    if tuple(sites) not in (("resid_post",), (EVERYWHERE,)):
        raise UserError(
            f"layers=everywhere edits the residual stream, not {sites[0]}: leave the site out"
        )
    return (EVERYWHERE,), None


def lacking(model: LanguageModel, metric: Metric) -> str:
    """The outputs that a metric needs and a model lacks, with the reason, or ""."""
    why = model.no_likelihoods
    if why and not metric.is_generating:
        return f"likelihoods of texts, which {model.name} does not give, {why}"
    if model.no_activations and metric.reads_logits:
        return f"whole distributions, which {model.name} does not give, {model.no_activations}"
    return ""


def texts_of(sets: Iterable[CounterfactualSet]) -> Iterator[str]:
    """Every prompt of the sets with each of its outputs."""
    for data in sets:
        yield from (v.text + o for s in data.samples for v in s.variations for o in s.outputs)


def _called(metric: Metric) -> str:
    return metric.name or METRICS.name_of(metric).rpartition(":")[2]


def _of_models(metrics: Sequence[Metric]) -> list[Metric]:
    """The metrics that apply to an unedited model."""
    of_models = [metric for metric in metrics if not metric.is_of_edits]
    if metrics and not of_models:
        raise UserError(
            f"metric={_called(metrics[0])} says what edits do, and without an eraser there are "
            "none: name another, such as metric=r, or an eraser"
        )
    return of_models


def _test_only(task: Task) -> Task:
    by_split: dict[str, Any] = {
        name: {split: data for split, data in getattr(task, name).items() if split == "test"}
        for name in ("agreement", "legitimate_differences", "neutral")
    }
    return replace(task, fit=(), validation=(), keep=(), **by_split)
