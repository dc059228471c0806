"""One axis of a sweep: how a cell, a combination of cells and the choice become rows.

Comes in: a model that resumes, cells, and the run's rows so far. Goes out: rows. Validation and
test data are measured alike; the choice reads validation rows only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from countergen_edit.data.axis import Split
from countergen_edit.data.counterfactual import CounterfactualSet
from countergen_edit.edits import Edit
from countergen_edit.erasers import fitting_threads
from countergen_edit.experiments.audit import AuditWork, edit_name
from countergen_edit.experiments.cells import Cell, SweepPlan, cells
from countergen_edit.experiments.fit_data import FitData
from countergen_edit.experiments.pareto import Point, choose, front, points
from countergen_edit.experiments.run_folder import RunFolder
from countergen_edit.metrics import UNEDITED, Metric
from countergen_edit.metrics.r import pooled_reduction, r_rows
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.scores import SetScores
from countergen_edit.metrics.side_effects import agreement_rows, neutral_cost, neutral_rows
from countergen_edit.models import LanguageModel

COMBINATION = "combination"
"""The eraser column of an edit made of several cells."""


class Study(AuditWork):
    """The sweep of one axis: an audit's work at many sites, on a model that resumes."""

    def __init__(self, model: LanguageModel, plan: SweepPlan, axis: str, folder: RunFolder) -> None:
        super().__init__(model, plan.audits[axis], folder)
        self.sweep = plan
        self.cells = cells(model, plan, self.plan)
        self.suffix = f"/{axis}" if plan.name_axes else ""
        self.own = axis if plan.name_axes else ""
        # What a metric has scored is not scored again.
        self.scores = self.plan.metrics[0].subject.scores
        self._sites: dict[str, FitData] | None = None
        self._fitted: dict[str, Edit] = {}

    def capture(self) -> dict[str, FitData]:
        """What erasers are fitted on at every site and layer, captured once."""
        if self._sites is None:
            sweep = self.sweep
            self._sites = self.captured(sweep.sites, sweep.layers, sweep.scratch)
        return self._sites

    def fitted(self, cell: Cell) -> Edit:
        """The edit of a cell, fitted once: combinations are made of the cells' own."""
        if cell.unit not in self._fitted:
            data = self.capture()[cell.site]
            with fitting_threads(data.at(cell.layer)):
                erasure = data.fit(cell.eraser, cell.layer).erasure_
            self._fitted[cell.unit] = Edit.at(cell.site, {cell.layer: erasure})
        return self._fitted[cell.unit]

    def label(self, cell: Cell, edit: Edit) -> str:
        return edit_name(cell.name, edit.rank, cell.site, [cell.layer]) + self.suffix

    def store(self, metric: Metric) -> Path:
        """Apart for each axis: the unedited model has the same name under all of them."""
        return super().store(metric) / self.own

    def unedited(self) -> list[Row]:
        """Every figure of the model as it came, on validation data too."""
        return self.everything(None, UNEDITED)

    def cell(self, cell: Cell) -> list[Row]:
        """Every figure of one cell, or the error that its eraser ended with.

        Raises:
            UserError: there is no room for activations or rows, which is no eraser's fault.
        """
        self.capture()
        try:
            edit, columns = self.combined([cell])
        except Exception as error:  # an eraser may be the user's own, and fail in its own way
            return [self.error_row(cell, error)]
        return [replace(row, **columns) for row in self.everything(edit, columns["edit"])]

    def error_row(self, cell: Cell, error: Exception) -> Row:
        asked = cell.eraser.get_params().get("rank")
        rank = asked if isinstance(asked, int) else 0  # it may be left to the fit
        label = edit_name(cell.name, rank, cell.site, [cell.layer]) + self.suffix
        return Row(
            "error",
            None,
            axis=self.plan.fit[0].axis,
            edit=label,
            eraser=cell.name,
            layer=cell.layer,
            rank=rank,
            seed=self.plan.seed,
            detail={"error": f"{type(error).__name__}: {error}"},
        )

    def everything(self, edit: Edit | None, label: str) -> list[Row]:
        """What an audit measures on test data, and the same on validation data."""
        plan, found = self.plan, []
        rows = self.measure(edit, label, baseline=True)
        for data in plan.validation:
            found += r_rows(self.scores.get(self.model, data, edit), plan.seed)
        agreement = self.scores.get(self.model, plan.agreement_validation, edit)
        found += agreement_rows(agreement, plan.seed)
        cost = neutral_cost(self.model, edit, plan.neutral_fit)
        found += neutral_rows(cost, "neutral_fit", plan.seed)
        rows += [replace(row, split="validation") for row in found]
        if edit is not None:
            rows.append(self.removed_row("validation", plan.validation, edit))
            rows.append(self.removed_row("test", self.like_validation, edit))
        return rows

    @property
    def like_validation(self) -> tuple[CounterfactualSet, ...]:
        """The test sets of the families that the choice is made on; all, if there are none."""
        chosen_on = {data.name.removesuffix("_validation") for data in self.plan.validation}
        like = tuple(d for d in self.plan.test if d.name.removesuffix("_test") in chosen_on)
        return like or self.plan.test

    def removed_row(self, split: Split, sets: Sequence[CounterfactualSet], edit: Edit) -> Row:
        """How much of mean |R| is gone over several sets together."""

        def scored(edit: Edit | None) -> list[SetScores]:
            return [self.scores.get(self.model, data, edit) for data in sets]

        before, after = scored(None), scored(edit)
        return Row.of_set(
            sets[0],
            "bias_removed",
            pooled_reduction(before, after, self.plan.seed),
            dataset="+".join(data.name for data in sets),
            n=sum(len(s.output) for s in after),
            split=split,
            seed=self.plan.seed,
        )

    def validated(self) -> list[Point]:
        """The points of this axis' edits on validation data."""
        mine = [r for r in self.folder.rows() if r.unit.startswith(self.unit(""))]
        return points(mine, "validation", self.sweep.tolerance)

    def unit(self, name: str) -> str:
        return f"{self.plan.fit[0].axis}/{name}"

    def combined(self, parts: Sequence[Cell]) -> tuple[Edit, dict[str, Any]]:
        """The edits of some cells as one, each fitted to the unedited model, and its columns."""
        edits = [self.fitted(cell) for cell in parts]
        edit = sum(edits[1:], edits[0])
        labels = [self.label(cell, e) for cell, e in zip(parts, edits, strict=True)]
        alone = len(parts) == 1
        columns = {
            "edit": " + ".join(x.removesuffix(self.suffix) for x in labels) + self.suffix,
            "eraser": parts[0].name if alone else COMBINATION,
            "layer": parts[0].layer if alone else None,
            "rank": edit.rank,
        }
        return edit, columns

    def combination(self, parts: Sequence[Cell]) -> list[Row]:
        """Every figure of several cells' edits together."""
        edit, columns = self.combined(parts)
        return [replace(row, **columns) for row in self.everything(edit, columns["edit"])]

    def choice(self) -> list[Row]:
        """The front and the chosen edit, by validation rows; test rows only report it."""
        mine = [r for r in self.folder.rows() if r.unit.startswith(self.unit(""))]
        by_split = {
            split: {p.edit: p for p in points(mine, split, self.sweep.tolerance, baselines=True)}
            for split in ("validation", "test")
        }
        candidates = self.validated()
        chosen, on_front = choose(candidates), {p.edit for p in front(candidates)}
        about = {r.edit: r for r in mine if r.metric == "bias_removed" and r.split == "validation"}
        rows = []
        for point in by_split["validation"].values():
            reported = by_split["test"][point.edit]
            rows.append(
                replace(
                    about[point.edit],
                    metric="cost",
                    value=point.cost,
                    lo=None,
                    hi=None,
                    split="validation",
                    detail={
                        "removed": point.removed,
                        "agreement_lost": point.agreement_lost,
                        "perplexity_ratio": point.perplexity_ratio,
                        "removed_test": reported.removed,
                        "cost_test": reported.cost,
                        "agreement_lost_test": reported.agreement_lost,
                        "perplexity_ratio_test": reported.perplexity_ratio,
                        "front": point.edit in on_front,
                        "chosen": point.edit == chosen.edit,
                    },
                )
            )
        return rows

    def chosen_cells(self) -> list[Cell]:
        """The cells of the edit that the choice fell on."""
        [chosen] = [
            r for r in self.folder.rows() if r.unit == self.unit("choice") and r.detail["chosen"]
        ]
        return self.cells_of(chosen.edit)

    def cells_of(self, label: str) -> list[Cell]:
        """The cells whose edits a label names."""
        of_label = {
            r.edit.removesuffix(self.suffix): r.unit
            for r in self.folder.rows()
            if r.metric == "bias_removed"
        }
        of_unit = {self.unit(cell.unit): cell for cell in self.cells}
        names = label.removesuffix(self.suffix).split(" + ")
        return [of_unit[of_label[name]] for name in names]

    def afterwards(self) -> list[Row]:
        """The metrics that take long, for the unedited model and the chosen edit."""
        slow = [metric for metric in self.plan.metrics if not metric.has_baseline]
        edit, columns = self.combined(self.chosen_cells())
        label = columns["edit"]
        rows = []
        for metric in slow:
            rows += metric.rows(self.model, None, UNEDITED, self.store(metric))
            under = metric.rows(self.model, edit, label, self.store(metric))
            rows += [replace(row, **columns) for row in under]
        return [replace(row, split=row.split or "test") for row in rows]
