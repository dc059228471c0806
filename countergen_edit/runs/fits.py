"""What is fitted of one task on one model: erasers at places, in turn, on what stands before them.

Comes in: a model, a task, a run folder, and edits that the model is to have besides. Goes out:
edits, each fitted once and kept in the run from that moment, those of several cells as one, and
their controls.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import cached_property, partial, reduce

from countergen_edit.data.task import Task
from countergen_edit.edits import (
    UNCHANGED,
    Edit,
    EditRecord,
    NamedEdit,
    Place,
    Placement,
    applied,
    combined_record,
)
from countergen_edit.edits.record import edit_id
from countergen_edit.erasers import ERASERS, BaseEraser, Objective, run_parallel
from countergen_edit.runs.cells import Cell, Fitted, random_cells, sequential
from countergen_edit.runs.fit_data import FitData, Positions, capture_sites
from countergen_edit.runs.refinement import ModelObjective
from countergen_edit.runs.run_folder import RunFolder
from countergen_edit.models import LanguageModel, Scratch, resuming
from countergen_edit.models.capture import depth, has_layers
from countergen_edit.core.writing import as_json, digest


class Fits:
    """The fits of one task on one model, in progress in a run folder.

    Args:
        model: the model; unedited whenever a method has returned.
        task: what is asked of whom.
        folder: where edits go.
        sites: where edits may go; none where the model is only measured.
        layers: blocks at which erasers may be fitted; None takes all.
        positions: the tokens on which erasers are fitted.
        skip_attention_sinks: whether edits skip attention sinks.
        fitted: on what the cells of one edit are fitted.
        scratch: memory and disk for activations.
        before: edits that the model is to have besides, of other axes say: what is fitted here is
            fitted on what they leave, and is one edit with them.
        seed: the run's seed.
    """

    def __init__(
        self,
        model: LanguageModel,
        task: Task,
        folder: RunFolder,
        *,
        sites: Sequence[str],
        layers: Sequence[int] | None = None,
        positions: Positions = "outputs",
        skip_attention_sinks: bool = True,
        fitted: Fitted = "sequential",
        scratch: Scratch | None = None,
        before: NamedEdit | None = None,
        seed: int = 0,
    ) -> None:
        self.model = model
        self.task = task
        self.folder = folder
        self.sites = tuple(sites)
        self.layers = layers
        self.positions = positions
        self.skip_attention_sinks = skip_attention_sinks
        self.fitted = fitted
        self.scratch = scratch or Scratch()
        self.before = before
        self.seed = seed
        self._fits: dict[str, Future[BaseEraser]] = {}
        self._ahead: Sequence[Cell] = ()
        self._latest: tuple[str, FitData] | None = None

    @cached_property
    def _captured(self) -> dict[str, FitData]:
        """What erasers are fitted on alone, every site and layer from one pass."""
        return self._capture(self.sites, self.layers, self._given)

    @property
    def _given(self) -> Edit:
        """What the model is to have besides."""
        return UNCHANGED if self.before is None else self.before.edit

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
                skip_attention_sinks=self.skip_attention_sinks,
                scratch=self.scratch,
            )
        return {
            site: replace(data, objective=partial(self._objective, site, data, before))
            for site, data in by_site.items()
        }

    def _objective(self, site: str, data: FitData, before: Edit, layer: int | None) -> Objective:
        """What a map at a place is refined on."""
        places = [(site, layer), *((p.site, p.layer) for p in before.placements)]
        _, lowest = min(places, key=lambda place: depth(*place))
        model = self.resuming([lowest], share=0.25)
        limit = data.limit(layer)
        return ModelObjective(
            model, self.task, site, layer, limit, self.seed, before, wanted_of=self._given
        )

    def _data(self, cell: Cell) -> FitData:
        """What a cell is fitted on; where it is fitted after others, the latest is remembered."""
        if not cell.after:
            return self._captured[cell.site]
        key = digest([*map(self.part_id, cell.after), cell.site, cell.layer])
        if self._latest is None or self._latest[0] != key:
            layers = None if cell.layer is None else [cell.layer]
            self._latest = key, self._capture([cell.site], layers, self._before(cell))[cell.site]
        return self._latest[1]

    def _before(self, cell: Cell) -> Edit:
        """What a cell is fitted after."""
        return reduce(Edit.then, (self.part(c).edit for c in cell.after), self._given)

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
        model = [self.model.fingerprint, self.model.adds_bos, self.model.conversation]
        # These words name an edit, by which a random map is drawn.
        sinks = "leave" if self.skip_attention_sinks else "edit"
        return digest([task, model, self.positions, sinks])

    def basis(self, cell: Cell) -> list[object]:
        """All that the fit of a cell depends on."""
        place = [cell.site, cell.layer]
        alone = [self._basis, ERASERS.name_of(cell.eraser), cell.params, place]
        given = [] if self.before is None else [self.before.id]
        return [*alone, *given, *map(self.part_id, cell.after)]

    def part_id(self, cell: Cell) -> str:
        """The id of what a cell alone is fitted to be, known before it is."""
        return edit_id(cell.name, self.basis(cell))

    def id_of(self, cell: Cell) -> str:
        """The id of a cell's edit, what the model is to have besides included."""
        key = self.part_id(cell)
        if self.before is None:
            return key
        own = EditRecord(
            key,
            cell.name,
            as_json(cell.params),
            (Place(cell.site, cell.layer, 0),),
            baseline=cell.eraser.is_baseline,
            task=self.task.name,
            after=self.before.record.places,
        )
        return combined_record([self.before.record, own]).id

    def fit(self, cell: Cell) -> BaseEraser:
        """The eraser of a cell, fitted; once in this process."""
        key = self.part_id(cell)
        if key not in self._fits:
            # What is fitted after others waits for them.
            ahead = {self.part_id(other): other for other in self._ahead if not other.after}
            missing = {k: c for k, c in ahead.items() if not self.folder.has_edit(k)}
            wanted = {k: c for k, c in {key: cell, **missing}.items() if k not in self._fits}
            data = self._data(cell)
            calls = [partial(self._data(c).fit, c.eraser, c.layer) for c in wanted.values()]
            done = run_parallel(calls, data.at(cell.layer))
            for (k, other), future in zip(wanted.items(), done, strict=True):
                self._fits[k] = future
                if future.exception() is None:
                    self.part(other)  # kept at once: a kill costs no fit that is done
        return self._fits[key].result()

    def fit_ahead(self, cells: Sequence[Cell]) -> None:
        """Let these be fitted side by side as soon as the first of them is asked for."""
        self._ahead = cells

    def fit_data(self, site: str) -> FitData:
        """What erasers are fitted on alone at a site."""
        return self._captured[site]

    def edit(self, cell: Cell) -> NamedEdit:
        """The edit of a cell, with what the model is to have besides."""
        return self.joined([cell])

    def part(self, cell: Cell) -> NamedEdit:
        """What a cell alone is fitted to be: from the run that keeps it, else fitted and kept."""
        key = self.part_id(cell)
        if self.folder.has_edit(key):
            return self.folder.edit(key)
        limit = self._data(cell).limit(cell.layer)
        given = () if self.before is None else self.before.record.places
        named = NamedEdit.of(
            Edit((Placement(cell.site, cell.layer, self.fit(cell).erasure_, limit),)),
            cell.name,
            cell.params,
            basis=self.basis(cell),
            baseline=cell.eraser.is_baseline,
            task=self.task.name,
            after=[*given, *(p for before in cell.after for p in self.part(before).record.places)],
        )
        self.folder.keep(named, made_for=self.model.fingerprint)
        return named

    def together(self, cells: Sequence[Cell]) -> list[Cell]:
        """The cells of one edit as they are fitted: in turn, or alone as they stand."""
        return sequential(cells) if self.fitted == "sequential" else [*cells]

    def joined(self, cells: Sequence[Cell]) -> NamedEdit:
        """The edits of some cells, fitted as the cells say, as one; kept in the run.

        It begins with what the model is to have besides.
        """
        given = [] if self.before is None else [self.before]
        named = NamedEdit.combined([*given, *map(self.part, cells)])
        if not self.folder.has_edit(named.id):
            self.folder.keep(named, made_for=self.model.fingerprint)
        return named

    def control(self, edit: NamedEdit) -> NamedEdit:
        """Random directions of equal rank at the same places: what removing just anything does.

        They stand for the whole edit, so that nothing is given besides.
        """
        return self._alone.joined(random_cells(edit.record.places, self.seed))

    @cached_property
    def _alone(self) -> Fits:
        """The same of a model that has nothing besides."""
        if self.before is None:
            return self
        own = copy.copy(self)
        own.before, own._fits, own._ahead, own._latest = None, {}, (), None
        own.__dict__.pop("_captured", None)
        return own
