"""The audit: measure, find, project out, measure again, and say what it cost.

Comes in: a loaded model and a plan of real objects. Goes out: rows in a run folder. Units of work,
in order: the unedited model; for each eraser, every candidate layer on validation data; then, on
test data, each eraser's edit at its chosen layer and random directions of the same rank there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from countergen_edit.data.counterfactual import CounterfactualSet
from countergen_edit.data.splits import check_leakage
from countergen_edit.edits import Edit, applied
from countergen_edit.erasers import BaseEraser, RandomDirections, fitting_threads
from countergen_edit.errors import UserError
from countergen_edit.experiments.fit_data import (
    FitData,
    Positions,
    capture_fit_data,
    capture_sites,
)
from countergen_edit.experiments.run_folder import RunFolder
from countergen_edit.metrics import UNEDITED, Metric
from countergen_edit.metrics.r import r_rows
from countergen_edit.metrics.rows import BASELINE, Row
from countergen_edit.metrics.scores import score
from countergen_edit.metrics.side_effects import agreement_rows, neutral_cost, neutral_rows
from countergen_edit.models import LanguageModel, Scratch, encode, hook_name
from countergen_edit.models.progress import console
from countergen_edit.seeds import unit_seed

STORE = "store"
"""Folder within the run for what metrics keep."""


@dataclass(frozen=True)
class AuditPlan:
    """What is measured, on what the erasers are fitted, and where edits go."""

    fit: tuple[CounterfactualSet, ...]
    """On these the groups are to be made equal."""
    validation: tuple[CounterfactualSet, ...]
    test: tuple[CounterfactualSet, ...]
    agreement_validation: CounterfactualSet
    agreement_test: CounterfactualSet
    neutral_fit: tuple[str, ...]
    """Text about nobody that erasers may weigh; never the text on which harm is measured."""
    neutral: tuple[str, ...]
    erasers: Mapping[str, BaseEraser]
    metrics: tuple[Metric, ...]
    """What is measured besides agreement and harm to neutral text, which always are."""
    keep: tuple[CounterfactualSet, ...] = ()
    """On these the model is to stay as it is; for erasers that can."""
    site: str = "resid_post"
    layers: tuple[int, ...] | None = None
    """Layers edited together; None chooses the single layer with the least |R| on validation."""
    positions: Positions = "outputs"
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.fit:
            raise UserError("the audit has no fitting sets: name at least one under data.fit")
        if self.layers is None and not self.validation:
            raise UserError("edit.layers=best needs a set under data.validation; or name a layer")
        measured = (*self.validation, *self.test)
        check_leakage(self.fit, measured)
        both = set(self.neutral_fit) & set(self.neutral)
        if both:
            raise UserError(f"neutral text {min(both)!r} is both fitted on and measured on")
        check_leakage(self.keep, (*measured, self.agreement_validation, self.agreement_test))
        if not self.test:
            raise UserError("the audit has no test sets: name at least one under data.test")
        if not self.erasers:
            raise UserError("the audit has no eraser: name at least one, such as eraser=rlace")
        if not self.metrics:
            raise UserError("the audit has no metric: name at least one, such as metric=r")


class AuditWork:
    """One audit in progress; what several units share is computed once and kept."""

    def __init__(self, model: LanguageModel, plan: AuditPlan, folder: RunFolder) -> None:
        self.model = model
        self.plan = plan
        self.folder = folder
        self._fit_data: FitData | None = None

    @property
    def fit_data(self) -> FitData:
        if self._fit_data is None:
            site = self.plan.site
            self._fit_data = self.captured([site], self.plan.layers)[site]
        return self._fit_data

    def captured(
        self,
        sites: Sequence[str],
        layers: Sequence[int] | None,
        scratch: Scratch | None = None,
    ) -> dict[str, FitData]:
        """The plan's fitting data at some sites."""
        plan = self.plan
        return capture_sites(
            self.model,
            plan.fit,
            plan.keep,
            plan.neutral_fit,
            sites=sites,
            layers=layers,
            positions=plan.positions,
            scratch=scratch,
        )

    def edit(self, eraser: BaseEraser, layers: Sequence[int | None]) -> Edit:
        """The eraser, fitted and placed at each of the layers."""
        with fitting_threads(self.fit_data.at(layers[0])):
            fitted = {layer: self.fit_data.fit(eraser, layer).erasure_ for layer in layers}
        return Edit.at(self.plan.site, fitted)

    def measure(self, edit: Edit | None, label: str, *, baseline: bool = False) -> list[Row]:
        """Every metric and every side effect under an edit; a baseline leaves out the long ones."""
        plan, rows = self.plan, []
        for metric in plan.metrics:
            if metric.has_baseline or not baseline:
                rows += metric.rows(self.model, edit, label, self.store(metric))
        with applied(self.model, edit) if edit is not None else nullcontext():
            rows += agreement_rows(score(self.model, plan.agreement_test), plan.seed)
        rows += neutral_rows(neutral_cost(self.model, edit, plan.neutral), "neutral", plan.seed)
        return [replace(row, split=row.split or "test") for row in rows]

    def store(self, metric: Metric) -> Path:
        """Where a metric keeps what took long to make; the run does not need it afterwards."""
        return self.folder.path / STORE / metric.name

    def unedited(self) -> list[Row]:
        """Every figure of the model as it came."""
        return self.measure(None, UNEDITED)

    def candidates(self, name: str, eraser: BaseEraser) -> list[Row]:
        """Certificate and validation metrics of one eraser at every candidate layer."""
        plan, rows = self.plan, []
        for layer in self.fit_data.layers:
            with fitting_threads(self.fit_data.at(layer)):
                fitted = self.fit_data.fit(eraser, layer)
                found = self.certificate_rows(fitted, layer)
            edit = Edit.at(plan.site, {layer: fitted.erasure_})
            with applied(self.model, edit):
                found += self.validation()
            marked = [replace(row, split="validation") for row in found]
            rows += self.under(edit, name, [layer], marked)
        return rows

    def validation(self) -> list[Row]:
        """R and agreement on the validation sets, under whatever edit is attached."""
        plan, rows = self.plan, []
        for data in plan.validation:
            rows += r_rows(score(self.model, data), plan.seed)
        return rows + agreement_rows(score(self.model, plan.agreement_validation), plan.seed)

    def under(
        self, edit: Edit, eraser: str, layers: Sequence[int | None], rows: Sequence[Row]
    ) -> list[Row]:
        """The rows, marked with the edit they were measured under."""
        name = edit_name(eraser, edit.rank, self.plan.site, layers)
        layer = layers[0] if len(layers) == 1 else None
        return [replace(row, eraser=eraser, edit=name, layer=layer, rank=edit.rank) for row in rows]

    def certificate_rows(self, fitted: BaseEraser, layer: int | None) -> list[Row]:
        """Held-out accuracy of probes before and after erasure; folds never share a name."""
        data, plan = self.fit_data, self.plan
        seed = unit_seed(plan.seed, "certificate", layer) % 2**32
        certificate = data.certify(fitted, layer, seed)
        values = {
            "linear_probe_accuracy_before": certificate.linear_accuracy_before,
            "linear_probe_accuracy": certificate.linear_accuracy_after,
            "nonlinear_probe_accuracy_before": certificate.nonlinear_accuracy_before,
            "nonlinear_probe_accuracy": certificate.nonlinear_accuracy_after,
            "probe_majority_rate": certificate.majority_rate,
            "variance_removed": certificate.variance_removed,
        }
        detail = {"guaranteed": certificate.guaranteed, "reason": certificate.reason}
        return [
            Row.of_set(
                plan.fit[0],
                metric,
                value,
                dataset="+".join(s.name for s in plan.fit),
                n=int((~data.keep).sum()),
                seed=plan.seed,
                detail=detail,
            )
            for metric, value in values.items()
        ]

    def random_baseline(self, edit: Edit) -> Edit:
        """Random directions of equal rank at the same places: what removing just anything does."""
        erasures = {}
        for placement in edit.placements:
            layer, rank = placement.layer, placement.erasure.rank
            seed = unit_seed(self.plan.seed, "random directions", rank, layer) % 2**32
            eraser = RandomDirections(rank=rank, random_state=seed)
            erasures[layer] = self.fit_data.fit(eraser, layer).erasure_
        return Edit.at(self.plan.site, erasures)

    def edited(
        self, name: str, edit: Edit, layers: Sequence[int | None], *, baseline: bool = False
    ) -> list[Row]:
        """Every test metric under one edit."""
        label = edit_name(name, edit.rank, self.plan.site, layers)
        return self.under(edit, name, layers, self.measure(edit, label, baseline=baseline))


def audit(model: LanguageModel, plan: AuditPlan, folder: RunFolder) -> list[Row]:
    """Run what is left of an audit and return all its rows.

    Args:
        model: the model under audit; unedited again when this returns.
        plan: what to measure and to fit.
        folder: where rows go; units it already holds are not run again.
    """
    work = AuditWork(model, plan, folder)
    with Progress(
        TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), console=console()
    ) as progress:
        task = progress.add_task("Audit", total=1 + 3 * len(plan.erasers))

        def run(unit: str, description: str, work: Callable[[], list[Row]]) -> None:
            progress.update(task, description=description)
            if not folder.done(unit):
                folder.record(unit, work())
            progress.advance(task)

        run("unedited", "Measuring the unedited model", work.unedited)
        for name, eraser in plan.erasers.items():
            run(
                f"layers/{name}",
                f"Fitting {name} at every layer",
                partial(work.candidates, name, eraser),
            )
        for name, eraser in plan.erasers.items():
            layers = plan.layers or (choose_layer(folder.rows(), name),)
            edit = work.edit(eraser, layers)
            run(f"test/{name}", f"Measuring {name}", partial(work.edited, name, edit, layers))
            run(
                f"test/{edit_name(BASELINE, edit.rank, plan.site, layers)}",
                f"Measuring random directions of rank {edit.rank}",
                partial(work.edited, BASELINE, work.random_baseline(edit), layers, baseline=True),
            )
    return folder.rows()


def check_plan(model: LanguageModel, plan: AuditPlan) -> None:
    """Find what would stop the audit half way, before a run folder is made.

    Raises:
        UserError: the model has no such site or layer, a prompt with its output is longer than the
            model's context, or the groups are the same wherever erasers would be fitted.
    """
    for layer in plan.layers or (0,):
        hook_name(model, plan.site, layer)
    sets = (*plan.fit, *plan.keep, *plan.validation, *plan.test)
    for data in (*sets, plan.agreement_validation, plan.agreement_test):
        texts = [v.text + o for s in data.samples for v in s.variations for o in s.outputs]
        encode(model, texts)
    for metric in plan.metrics:
        metric.check(model)
    some = replace(plan.fit[0], samples=plan.fit[0].samples[:1])
    capture_fit_data(
        model,
        [some],
        [],
        plan.neutral_fit[:1],
        site=plan.site,
        layers=plan.layers,
        positions=plan.positions,
    )


def edit_name(eraser: str, rank: int, site: str, layers: Sequence[int | None]) -> str:
    """What an edit is called in rows and tables.

    >>> edit_name("rlace", 1, "resid_post", [3])
    'rlace-1@resid_post.3'
    """
    where = "+".join(str(layer) for layer in layers if layer is not None)
    return f"{eraser}-{rank}@{site}" + (f".{where}" if where else "")


def choose_layer(rows: Sequence[Row], eraser: str) -> int | None:
    """The layer at which an eraser leaves the least mean |R| on the validation sets.

    Ties go to the lower layer.
    """
    by_layer: dict[int | None, list[float]] = {}
    for row in rows:
        if (row.metric, row.split, row.eraser) == ("mean_abs_r", "validation", eraser):
            assert row.value is not None
            by_layer.setdefault(row.layer, []).append(row.value)
    return min(by_layer, key=lambda layer: (np.mean(by_layer[layer]), layer or 0))
