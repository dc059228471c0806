"""A model and a task, and what is done with them: fit, keep, measure.

Comes in: a model, a task, metrics and a run folder. Goes out: edits, each fitted once and kept in
the run from that moment, and rows under them. Audits and searches are made of nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import cached_property, partial

from countergen_edit.data.task import Task
from countergen_edit.edits import UNCHANGED, Edit, NamedEdit, Placement, applied
from countergen_edit.edits.named import edit_id
from countergen_edit.erasers import ERASERS, BaseEraser, Objective, fitting_threads, side_by_side
from countergen_edit.experiments.cells import Cell, Fitted, in_turn, random_cell
from countergen_edit.experiments.fit_data import FitData, Positions, Sinks, capture_sites
from countergen_edit.experiments.gates import openings
from countergen_edit.experiments.refinement import ModelObjective
from countergen_edit.experiments.run_folder import RunFolder
from countergen_edit.experiments.work import measured
from countergen_edit.metrics.base import Cost, MeasuredSplit, Metric
from countergen_edit.metrics.bench import Bench
from countergen_edit.metrics.chosen_by import bias_of, default_bias
from countergen_edit.metrics.gates import gate_rows
from countergen_edit.metrics.guardedness import certificate_rows
from countergen_edit.metrics.refinement import refinement_rows
from countergen_edit.metrics.results import STORE
from countergen_edit.metrics.rows import Row
from countergen_edit.models import LanguageModel, Scratch, resuming
from countergen_edit.models.sites import has_layers
from countergen_edit.seeds import unit_seed
from countergen_edit.writing import digest


class Study:
    """One task on one model, in progress in a run folder.

    Args:
        model: the model; unedited whenever a method has returned.
        task: what is asked of whom.
        metrics: what is measured.
        folder: where rows, edits and texts go.
        sites: where edits may go; none where the model is only measured.
        layers: blocks at which erasers may be fitted; None takes all.
        positions: the tokens on which erasers are fitted.
        sinks: whether edits leave attention sinks alone.
        fitted: on what the cells of one edit are fitted.
        scratch: memory and disk for activations.
        resumed: blocks from which the model goes on, where an edit leaves all below as it is; None
            takes those of all candidates. An edit elsewhere goes on from the nearest below.
        seed: the run's seed.
    """

    def __init__(
        self,
        model: LanguageModel,
        task: Task,
        metrics: Sequence[Metric],
        folder: RunFolder,
        *,
        sites: Sequence[str],
        layers: Sequence[int] | None = None,
        positions: Positions = "outputs",
        sinks: Sinks = "leave",
        fitted: Fitted = "in_turn",
        scratch: Scratch | None = None,
        resumed: Sequence[int] | None = None,
        seed: int = 0,
    ) -> None:
        self.model = model
        self.task = task
        self.folder = folder
        self.sites = tuple(sites)
        self.layers = layers
        self.positions = positions
        self.sinks = sinks
        self.fitted = fitted
        self.scratch = scratch or Scratch()
        self.seed = seed
        self.metrics = [metric.bound(task) for metric in metrics]
        self.bias = bias_of(self.metrics) or default_bias().bound(task)
        self.store = folder.path / STORE / task.name
        candidates = [layer for site in sites for layer in self.candidate_layers(site)]
        intact = candidates if resumed is None else resumed
        # Where nothing is edited there is nothing to go on from.
        measured = self.resuming(intact) if self.sites else model
        self.bench = Bench(measured, self.store, seed)
        self._fits: dict[str, Future[BaseEraser]] = {}
        self._ahead: Sequence[Cell] = ()
        self._latest: tuple[str, FitData] | None = None
        self._characters: dict[str, tuple[float, float]] = {}

    @property
    def costs(self) -> list[Cost]:
        """The metrics that say what an edit costs."""
        return [metric for metric in self.metrics if isinstance(metric, Cost)]

    @property
    def quick(self) -> list[Metric]:
        """What every candidate is measured by: the bias that is chosen by, and what is not slow."""
        others = [m for m in self.metrics if not m.is_slow and m is not self.bias]
        return [self.bias, *others]

    @cached_property
    def _captured(self) -> dict[str, FitData]:
        """What erasers are fitted on alone, every site and layer from one pass."""
        return self._capture(self.sites, self.layers)

    def _capture(
        self, sites: Sequence[str], layers: Sequence[int] | None, before: Edit = UNCHANGED
    ) -> dict[str, FitData]:
        """What erasers are fitted on, under what was fitted before them."""
        with applied(self.model, before) as model:
            by_site = capture_sites(
                model,
                self.task.fit,
                self.task.keep,
                self.task.weighed,
                sites=sites,
                layers=layers,
                positions=self.positions,
                sinks=self.sinks,
                scratch=self.scratch,
            )
        return {
            site: replace(data, objective=partial(self._objective, site, data, before))
            for site, data in by_site.items()
        }

    def _objective(self, site: str, data: FitData, before: Edit, layer: int | None) -> Objective:
        """What a map at a place is refined on."""
        lowest = before.placements[0].layer if before.placements else layer
        model = self.resuming([lowest], share=0.25)
        return ModelObjective(model, self.task, site, layer, data.limit(layer), self.seed, before)

    def _data(self, cell: Cell) -> FitData:
        """What a cell is fitted on; where it is fitted after others, the latest is remembered."""
        if not cell.after:
            return self._captured[cell.site]
        key = digest([*map(self.id_of, cell.after), cell.site, cell.layer])
        if self._latest is None or self._latest[0] != key:
            layers = None if cell.layer is None else [cell.layer]
            self._latest = key, self._capture([cell.site], layers, self._before(cell))[cell.site]
        return self._latest[1]

    def _before(self, cell: Cell) -> Edit:
        """What a cell is fitted after."""
        return Edit(tuple(p for c in cell.after for p in self.edit(c).edit.placements))

    def resuming(self, layers: Sequence[int | None], share: float = 1.0) -> LanguageModel:
        """The model, going on from the layers of edits instead of starting anew for each.

        Args:
            layers: those of the edits; None stands for an edit below all blocks.
            share: of the memory for activations; less than all is counted on its own.
        """
        own = self.scratch
        if share < 1:
            own = replace(self.scratch, budget=int(share * self.scratch.budget))
        inside = self.sites != ("resid_post",)  # an edit inside a block changes its output
        places = [layer for layer in layers if layer is not None]
        below = [layer - 1 for layer in places] if inside else []
        return resuming(self.model, sorted({*places, *below}), own)

    def characters(self, split: MeasuredSplit) -> tuple[float, float]:
        """How much is scored to measure a split, of sets and of running text."""
        if split not in self._characters:
            self._characters[split] = measured(self.task, split)
        return self._characters[split]

    def own_rows(self) -> list[Row]:
        """What the run has recorded of this task so far."""
        return [row for row in self.folder.rows() if row.task == self.task.name]

    def capture(self, cell: Cell) -> None:
        """Capture now what a cell is fitted on, so that its failure is no eraser's fault."""
        self._data(cell)

    def candidate_layers(self, site: str) -> tuple[int | None, ...]:
        """The layers at which an eraser can be fitted at a site; None where it has none."""
        if not has_layers(site):
            return (None,)
        return tuple(range(self.model.n_layers) if self.layers is None else self.layers)

    @cached_property
    def _basis(self) -> str:
        """What every fit of this study depends on."""
        neutral = self.task.neutral.get("fit", ())
        task = [self.task.fingerprint, self.task.groups, neutral]
        model = [self.model.fingerprint, self.model.adds_bos]
        return digest([task, model, self.positions, self.sinks])

    def basis(self, cell: Cell) -> list[object]:
        """All that the edit of a cell depends on."""
        place = [cell.site, cell.layer]
        alone = [self._basis, ERASERS.name_of(cell.eraser), cell.params, place]
        return [*alone, *map(self.id_of, cell.after)]

    def id_of(self, cell: Cell) -> str:
        """The id of a cell's edit, known before it is fitted."""
        return edit_id(cell.name, self.basis(cell))

    def fit(self, cell: Cell) -> BaseEraser:
        """The eraser of a cell, fitted; once in this process."""
        key = self.id_of(cell)
        if key not in self._fits:
            # What is fitted after others waits for them.
            ahead = {self.id_of(other): other for other in self._ahead if not other.after}
            missing = {k: c for k, c in ahead.items() if not self.folder.has_edit(k)}
            wanted = {k: c for k, c in {key: cell, **missing}.items() if k not in self._fits}
            data = self._data(cell)
            calls = [partial(self._data(c).fit, c.eraser, c.layer) for c in wanted.values()]
            done = side_by_side(calls, data.at(cell.layer))
            for (k, other), future in zip(wanted.items(), done, strict=True):
                self._fits[k] = future
                if future.exception() is None:
                    self.edit(other)  # kept at once: a kill costs no fit that is done
        return self._fits[key].result()

    def fit_ahead(self, cells: Sequence[Cell]) -> None:
        """Let these be fitted side by side as soon as the first of them is asked for."""
        self._ahead = cells

    def fit_data(self, site: str) -> FitData:
        """What erasers are fitted on alone at a site."""
        return self._captured[site]

    def edit(self, cell: Cell) -> NamedEdit:
        """The edit of a cell: from the run where it is kept, else fitted and kept."""
        key = self.id_of(cell)
        if self.folder.has_edit(key):
            return self.folder.edit(key)
        limit = self._data(cell).limit(cell.layer)
        named = NamedEdit.of(
            Edit((Placement(cell.site, cell.layer, self.fit(cell).erasure_, limit),)),
            cell.name,
            cell.params,
            basis=self.basis(cell),
            baseline=cell.eraser.is_baseline,
            task=self.task.name,
            after=[place for before in cell.after for place in self.edit(before).record.places],
        )
        self.folder.keep(named, made_for=self.model.fingerprint)
        return named

    def together(self, cells: Sequence[Cell]) -> list[Cell]:
        """The cells of one edit as they are fitted: in turn, or alone as they stand."""
        return in_turn(cells) if self.fitted == "in_turn" else [*cells]

    def joined(self, cells: Sequence[Cell]) -> NamedEdit:
        """The edits of some cells, fitted as the cells say, as one; kept in the run."""
        named = NamedEdit.combined([self.edit(cell) for cell in cells])
        if not self.folder.has_edit(named.id):
            self.folder.keep(named, made_for=self.model.fingerprint)
        return named

    def control(self, edit: NamedEdit) -> NamedEdit:
        """Random directions of equal rank at the same places: what removing just anything does."""
        return self.joined([random_cell(place, self.seed) for place in edit.record.places])

    def certificate(self, cell: Cell) -> list[Row]:
        """What is known of a fit: what probes still read, how it was refined, where a gate opened.

        Folds of probes never share a name.
        """
        data = self._data(cell)
        state = unit_seed(self.seed, "certificate", cell.layer) % 2**32
        eraser = self.fit(cell)
        with fitting_threads(data.at(cell.layer)):
            certificate = data.certify(eraser, cell.layer, state)
        n = int((data.used(eraser, cell.layer)[0] & ~data.keep).sum())
        anew, remark = eraser.is_refitted, eraser.remark_
        rows = certificate_rows(certificate, self.task, n, self.seed, refitted=anew, remark=remark)
        rows += refinement_rows(getattr(eraser, "curve_", ()), self.task, self.seed)
        named = self.edit(cell)
        [place] = named.edit.placements
        with applied(self.model, self._before(cell)) as model:
            rows += gate_rows(openings(model, self.task, place, self.scratch), self.seed)
        return self.marked(rows, named, "validation")

    def measure(
        self, edit: NamedEdit | None, split: MeasuredSplit, metrics: Sequence[Metric]
    ) -> list[Row]:
        """The rows of some metrics under an edit."""
        rows = [row for metric in metrics for row in metric.rows(self.bench, edit, split)]
        return self.marked(rows, edit, split)

    def told_apart(self) -> list[Row]:
        """Whether there is any of the bias that is chosen by, on validation data."""
        row = self.bias.told_apart(self.bench)
        return [] if row is None else self.marked([row], None, "validation")

    def removed(self, edit: NamedEdit, split: MeasuredSplit) -> list[Row]:
        """How much of the bias that is chosen by is gone over a split's sets together."""
        row = self.bias.removed(self.bench, edit, split)
        return [] if row is None else self.marked([row], edit, split)

    def marked(
        self, rows: Sequence[Row], edit: NamedEdit | None, split: MeasuredSplit
    ) -> list[Row]:
        """Rows with the columns of their edit, task and split."""
        columns = {} if edit is None else edit.record.columns
        return [
            replace(row, **columns, task=self.task.name, split=row.split or split) for row in rows
        ]
