"""The runner: the units of work of a plan, in order, each recorded whole or run again.

For each task: the unedited model; a screening of many candidates on few data; each finalist on all
validation data; combinations; the selection, which reads validation rows only; then, on test data,
the selected edits, random directions of equal rank, and baselines; last, a judgement of each edit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from sklearn.base import clone
from tqdm import tqdm

from countergen_edit.core.errors import NotWrittenError, UserError
from countergen_edit.core.seeds import unit_seed
from countergen_edit.core.stages import stage
from countergen_edit.core.writing import digest
from countergen_edit.data.task import Task
from countergen_edit.decisions import JUDGEMENT
from countergen_edit.decisions.judgement import judgements
from countergen_edit.decisions.selection import (
    DRAWS,
    Point,
    choose,
    front,
    ordered,
    points,
    removes_enough,
)
from countergen_edit.decisions.significance import has_significant_bias, significant_bias
from countergen_edit.edits import WEIGHTS, NamedEdit, applied
from countergen_edit.erasers import BaseEraser, fitting_threads
from countergen_edit.metrics.base import DEFAULT_BIAS, METRICS, Cost, MeasuredSplit, Metric, bias_of
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.fits import certificate_rows, gate_rows, training_rows
from countergen_edit.metrics.locate import HEAD_COUNTS, carriers
from countergen_edit.metrics.results import STORE
from countergen_edit.metrics.rows import IN_CHAT, SCREENING, Row
from countergen_edit.metrics.scores import StoredScores
from countergen_edit.models import LanguageModel, reductions_kept, replying
from countergen_edit.models.capture import EVERYWHERE, HEAD
from countergen_edit.runs.distillation import SMALLEST
from countergen_edit.runs.files import FAILED, SCORES_FOLDER
from countergen_edit.runs.fit_data import openings
from countergen_edit.runs.fits import Candidate, FitCache
from countergen_edit.runs.folder import RunFolder, read_records
from countergen_edit.runs.halving import Halving, between, survivors
from countergen_edit.runs.plan import Plan

_SCORED_BY = ("model_hash", "bos", "template", "source_hash", "versions", "batch_reductions")
"""Entries of the manifest that scores depend on, beside the texts."""
KEPT_DRAWS = 200
"""Resamples kept by a row of the screening: they tell the spread of a difference to 5 %."""
STAY = 3
"""One in so many candidates stays after each rung."""
RUNG = "rung"
"""The facet of screening rows."""
WORTH_ADDING = 0.1
"""Share of the bias that an edit must remove alone to be tried in a combination."""
TRIED = 4
"""Edits that a greedy step tries to add, those of the front first."""
SCALINGS = 3
"""Times that an update over a budget is scaled down."""
SCALED_COST = 0.95
"""Share of a budget that an update is scaled to, as if costs were proportional."""
LEAST_GAIN = 0.002
"""Share of the bias that a combination must remove beyond the edit it extends."""


def run(plan: Plan, model: LanguageModel, folder: RunFolder) -> None:
    """Run the units that a folder lacks of a checked plan; the model ends unedited."""
    earlier = folder.manifest.get("batch_reductions", {})
    fixed = reductions_kept(model, earlier, lambda counts: folder.note(batch_reductions=counts))
    with tqdm(leave=False, disable=None) as progress, fixed:
        runners = [Runner(plan, model, task, folder, progress) for task in plan.tasks]
        for runner in runners:
            runner.measure_candidates() if plan.erasers else runner.measure_unedited()
        for runner in runners if plan.erasers else ():
            runner.finish()
        if runs := {run for runner in runners for run in runner.stored.others}:
            folder.warn(f"Scores of the unedited model were read from {', '.join(sorted(runs))}.")


@dataclass
class _Group:
    """An eraser at one site: its candidates by layer, and indices of those in progress."""

    candidates: Sequence[Candidate]
    current: list[int]
    measured: set[int] = field(default_factory=set)

    @property
    def left(self) -> list[Candidate]:
        return [self.candidates[i] for i in self.current]


class Runner:
    """The run of one task; the model is unedited whenever a method has returned."""

    def __init__(
        self, plan: Plan, model: LanguageModel, task: Task, folder: RunFolder, progress: Any
    ) -> None:
        self.plan = plan
        self.model = model
        self.task = task
        self.folder = folder
        self._bar = progress
        self._stage = ""
        self.fits = FitCache(model, task, folder, plan)
        self.metrics = [metric.bound(task) for metric in plan.metrics]
        self.costs = [m for m in self.metrics if isinstance(m, Cost)]
        self.bias = bias_of(self.metrics) or METRICS.make(DEFAULT_BIAS).bound(task)
        others = [m for m in self.metrics if not (m.is_slow or m is self.bias)]
        self.quick = [self.bias, *others]
        """The metrics of every candidate."""
        tested: tuple[MeasuredSplit, ...] = ("test",) if plan.tested == "every" else ()
        self.splits: tuple[MeasuredSplit, ...] = (*tested, "validation")
        """The splits that every candidate is measured on."""
        self.store = folder.path / STORE / task.name
        device = model.device.type if model.is_identified else None
        key = digest([device, *(folder.manifest.get(name) for name in _SCORED_BY)])
        # Without all weights in the key, another model's scores might be read.
        self.stored = StoredScores(folder.path / SCORES_FOLDER, key, read=model.is_identified)
        self.context = EvaluationContext(model, self.store, plan.seed, self.stored)
        if not plan.erasers:
            return
        self.erasers = [
            (name, ranked) for name, one in plan.erasers.items() for ranked in _ranked(one, plan)
        ]
        """With their names in the run, at every rank."""
        self.groups = [
            [Candidate(site, layer, name, eraser) for layer in self.fits.layers(site)]
            for site in plan.sites
            if site != HEAD
            for name, eraser in self.erasers
            if not eraser.trains_weights
        ]
        """The candidates of one eraser at one site; `together` they are one edit."""
        if plan.together:
            self.groups = [self.fits.together(group) for group in self.groups]
        trained = [named for named in self.erasers if named[1].trains_weights]
        self.updates = [Candidate(WEIGHTS, None, name, eraser) for name, eraser in trained]
        """The candidates that update weights."""
        self.halving = Halving(model.n_layers)  # which measures all in full
        if plan.halving and not plan.together:
            self.halving = plan.halving
        self.shares = self.halving.shares(max(map(len, self.groups), default=0))
        """Of validation data, of each rung of the screening."""
        if self.groups or HEAD in plan.sites:
            # Edits resume from states that only a pass of the unedited model keeps.
            self.stored = replace(self.stored, read=False)
            by_site = map(self.fits.layers, plan.sites)
            resumed = [layers[i] for layers in by_site for i in self.halving.grid(len(layers))]
        else:
            resumed = [*self._below(self.updates)]
        resuming = self.fits.resuming(resumed)
        self.context = EvaluationContext(resuming, self.store, plan.seed, self.stored)
        self._of_edit: dict[str, tuple[Candidate, ...]] = {
            self.fits.id_of(candidate): (candidate,) for candidate in self.candidates
        }

    def _below(self, candidates: Sequence[Candidate]) -> list[int]:
        """Layers of candidates, and the block below the first that an update changes."""
        layers = [c.layer for c in candidates if c.layer is not None]
        updates = [c.eraser for c in candidates if c.trains_weights]
        first = [update.first_block(self.model.n_layers) for update in updates]
        if updates and self.plan.layers:
            first = [min(self.plan.layers)]
        return layers + [block - 1 for block in first]

    @property
    def candidates(self) -> list[Candidate]:
        """Every candidate, by site, layer and eraser; updates of weights last."""
        by_site = [[g for g in self.groups if g[0].site == site] for site in self.plan.sites]
        maps = [c for groups in by_site for layer in zip(*groups, strict=True) for c in layer]
        return [*maps, *self.updates]

    @property
    def _competing(self) -> list[list[Candidate]]:
        """The candidates among which an audit selects, or edits together."""
        return [*self.groups, *([update] for update in self.updates)]

    def stage(self, name: str, units: int | None = None) -> None:
        """Begin a stage of so many units; None if unknown."""
        self._stage = name
        self._bar.reset(units)
        self._bar.set_description_str(name)
        stage(name if units is None else f"{name}: {units} {'unit' if units == 1 else 'units'}")

    def record(self, unit: str, label: str, work: Callable[..., list[Row]], *args: Any) -> None:
        """Record the rows of a unit of the task, unless the folder holds it."""
        name = f"{self.task.name}/{unit}"
        if not self.folder.done(name):
            prefix = "" if self._stage in ("", label) else f"{self._stage}: "
            self._bar.set_description_str(f"{prefix}{label}")
            self.folder.record(name, work(*args))
        self._bar.update()

    def rows(self, unit: str | None = None) -> list[Row]:
        """The task's recorded rows, or those of one unit."""
        name = self.task.name
        rows = [row for row in self.folder.rows() if row.task == name]
        return rows if unit is None else [r for r in rows if r.unit == f"{name}/{unit}"]

    def measure_unedited(self) -> None:
        """Measure the unedited model and the edit of a plan without erasers by each metric."""
        before = self.plan.before
        if before is not None and not self.folder.has_edit(before.id):
            self.folder.keep(before)
        for edit in dict.fromkeys((None, before)):
            self.stage("unedited model" if edit is None else edit.label, len(self.metrics))
            for metric in self.metrics:
                name = f"{'unedited' if edit is None else f'test/{edit.id}'}/{metric.name}"
                self.record(name, metric.name, self.measure, edit, "test", [metric])

    def measure_candidates(self) -> None:
        self.stage("unedited model", 1)
        self.record("unedited", "unedited model", self._unedited)
        if self.plan.stops_early and not has_significant_bias(self.rows()):
            return
        finalists = self._screened()
        if finalists:
            self.stage("candidates on validation data", len(finalists))
        for candidate in self.candidates:
            if candidate in finalists:
                self._measure_candidate(candidate)
        if HEAD in self.plan.sites:
            self._measure_heads()
        # Training takes minutes: a search does without where a map removes enough.
        is_search = self.plan.select == "task"
        if self.updates and not (is_search and removes_enough(self._points(self._of_edit))):
            self.stage("updates of weights", len(self.updates))
            for candidate in [*self.updates]:
                self._measure_candidate(candidate)
                if is_search:
                    self._measure_scaled(candidate)

    def _screened(self) -> list[Candidate]:
        """The candidates to measure on all validation data, found by halving."""
        groups = [_Group(members, self.halving.grid(len(members))) for members in self.groups]
        pools = [[group] for group in groups] if self.plan.select == "eraser" else [groups]
        sizes = [sum(len(group.current) for group in pool) for pool in pools]
        for rung, share in enumerate(self.shares, start=1):
            candidates = [c for group in groups for c in group.left]
            label = f"screening {rung} of {len(self.shares)} ({share:.0%} of validation data)"
            self.stage(label, 1 + len(candidates))
            rows = self._screening_rows(rung, share, candidates)
            for pool, size in zip(pools, sizes, strict=True):
                self._narrow(pool, rows, max(1, size // STAY**rung))
        finalists = [c for group in groups for c in group.left]
        self.fits.fit_ahead(finalists)
        return finalists

    def _screening_rows(
        self, rung: int, share: float, candidates: Sequence[Candidate]
    ) -> list[Row]:
        """Quick figures of candidates on a share of the data, with the bias removed."""
        self.fits.fit_ahead(candidates)
        task = self.task.thinned(share, self.plan.seed)
        metrics = [metric.bound(task) for metric in self.quick]
        model = self.fits.resuming([c.layer for c in candidates], share=0.25)
        context = EvaluationContext(model, self.store, self.plan.seed)

        def measured(edit: NamedEdit | None) -> list[Row]:
            bias = metrics[0]
            rows = [r for m in metrics for r in m.measure(context, edit, "validation")]
            if edit is not None and (removed := bias.removed(context, edit, "validation")):
                draws = bias.removed_draws(context, edit, "validation")
                draws = np.zeros(0) if draws is None else draws[1 : KEPT_DRAWS + 1].round(4)
                finite = draws.tolist() if np.isfinite(draws).all() else []
                rows.append(replace(removed, detail={**removed.detail, DRAWS: finite}))
            return [
                replace(row, split=SCREENING, facets={**row.facets, RUNG: float(rung)})
                for row in self.marked(rows, edit, "validation")
            ]

        self.record(f"screening/{rung}/unedited", "unedited model", measured, None)
        for candidate in candidates:
            unit = f"screening/{rung}/{candidate.label}"
            self.record(unit, candidate.label, self.attempt, candidate.chain, measured)
        return [row for row in self.rows() if row.facets.get(RUNG) == rung]

    def _narrow(self, pool: Sequence[_Group], rows: Sequence[Row], most: int) -> None:
        """Keep the best of a pool and add candidates halfway to measured neighbours."""
        ids = {self.fits.id_of(g.candidates[i]): (g, i) for g in pool for i in g.current}
        alone = all(c.eraser.is_baseline for group in pool for c in group.candidates)
        measured = points(rows, SCREENING, self.costs, baselines=alone)
        kept = [ids[p.edit] for p in survivors([p for p in measured if p.edit in ids], most)]
        for group in pool:
            group.measured |= {*group.current}
            best = [i for g, i in kept if g is group]
            group.current = sorted([*best, *between(group.measured, best)])

    def _measure_scaled(self, update: Candidate) -> None:
        """Scale an update down until it keeps the budgets: training knows costs of few texts."""
        factor = update.params.get("scale", 1.0)
        for _ in range(SCALINGS):
            points = self._points({self.fits.id_of(update)})
            if not points or points[0].cost <= 1:
                return
            factor = round(factor * SCALED_COST / points[0].cost, 3)
            if factor < SMALLEST:
                return
            update = update.scaled(factor)
            self.updates.append(update)
            self._of_edit[self.fits.id_of(update)] = (update,)
            self._measure_candidate(update)

    def _measure_heads(self) -> None:
        """Measure each eraser at ever more of the heads that carry the bias."""
        locate = METRICS.make("locate", sites=(), verified=0).bound(self.task)
        self.stage("heads", 1)
        self.record("heads", "maps of heads", self.measure, None, "validation", [locate])
        self.fits.heads = heads = carriers(self.rows("heads"))
        for name, eraser in self.erasers:
            candidates = [Candidate(f"{HEAD}.{n}", layer, name, eraser) for layer, n in heads]
            for size in (size for size in HEAD_COUNTS if size <= len(heads)):
                chosen = sorted(candidates[:size], key=lambda c: (c.layer, c.site))
                self._measure_together(tuple(chosen), f"heads/{eraser}/{size}")

    def _measure_together(self, candidates: tuple[Candidate, ...], unit: str) -> str | None:
        """Measure candidates as one edit; its id, None where a fit failed."""
        chain = self.fits.together(candidates)
        self.record(unit, unit, self.attempt, chain, self._measured)
        if any(row.metric == FAILED for row in self.rows(unit)):
            return None
        edit = self.fits.joined(chain)
        self._of_edit[edit.id] = candidates
        return edit.id

    def _measure_candidate(self, candidate: Candidate) -> None:
        figures = partial(self._measured, candidate=candidate)
        name = f"candidate/{candidate.label}"
        self.record(name, candidate.label, self.attempt, candidate.chain, figures)

    def finish(self) -> None:
        """Combine, select and test; an audit needs an edit."""
        plan = self.plan
        selected = self._selected()
        if not selected:
            return
        edits = [self.fits.joined(candidates) for candidates in selected]
        if plan.tested == "chosen":  # states below other edits are not read again
            resumed = self._below([c for chain in selected for c in chain])
            self.context.model = self.fits.resuming(resumed)
        self.stage("test data", 1 + len(edits) + sum(map(self._has_control, edits)))
        label = "test data: unedited model"
        self.record("test/unedited", label, self.measure, None, "test", self._untested)
        for edit, candidates in zip(edits, selected, strict=True):
            self._test(edit, candidates)
        if plan.baselines:
            self.stage("baselines")
        for name, baseline in plan.baselines.items():
            for group in baseline.groups(self.fits, name, edits):
                self._test_baseline(group)

        def judged() -> list[Row]:
            records = read_records(self.folder.path)
            return judgements(self.rows(), records, [edit.id for edit in edits], self.costs)

        self.record(JUDGEMENT, JUDGEMENT, judged)

    def _selected(self) -> list[list[Candidate]]:
        if self.plan.select == "task":
            best = self._best_combination()
            if best is None:
                return []
            self.record("choice", "choice", self._front_rows, best.edit)
            is_tested = self.plan.tested == "every" or best.is_worthwhile
            return [self.fits.together(self._of_edit[best.edit])] if is_tested else []
        id_of = self.fits.id_of
        if self.plan.together:
            failed = {row.edit for row in self.rows() if row.metric == FAILED}
            selected = [group for group in self._competing if not failed & {*map(id_of, group)}]
        else:
            self.record("choice", "choice", self._choice_rows)
            chosen = {row.edit for row in self.rows("choice")}
            selected = [[c] for group in self._competing for c in group if id_of(c) in chosen]
        if not selected:
            raise UserError(_why_none(self.rows()))
        return selected

    def attempt(
        self, chain: Sequence[Candidate], figures: Callable[[NamedEdit], list[Row]]
    ) -> list[Row]:
        """Rows of candidates as one edit, or the row `error` of the first fit that fails.

        An audit raises a defect of an eraser; a search goes on with the others.
        """
        errors = UserError if self.plan.select == "eraser" else Exception
        for candidate in chain:
            if not self.folder.has_edit(self.fits.id_of(candidate)):
                if not candidate.trains_weights:
                    self.fits.data(candidate)  # a lack of room is not an eraser's fault
                try:
                    self.fits.part(candidate)
                except NotWrittenError:
                    raise
                except errors as error:
                    return [self._error_row(candidate, error)]
        return figures(self.fits.joined(chain))

    def _error_row(self, candidate: Candidate, error: Exception) -> Row:
        rank = candidate.eraser.get_params().get("rank")
        name = "" if isinstance(error, UserError) else f"{type(error).__name__}: "
        return Row.of(
            FAILED,
            None,
            task=self.task.name,
            axis=self.task.axis.name,
            edit=self.fits.id_of(candidate),
            eraser=candidate.name,
            site=candidate.site,
            layers=tuple(c.layer for c in candidate.chain if c.layer is not None),
            rank=rank if isinstance(rank, int) else 0,  # some erasers choose it in the fit
            seed=self.plan.seed,
            detail={"error": f"{name}{error}"},
        )

    def _unedited(self) -> list[Row]:
        rows = [r for split in self.splits for r in self.measure(None, split, self.quick)]
        return [*rows, *significant_bias(rows)]

    @property
    def _certifies_all(self) -> bool:
        """Whether every candidate gets a certificate, else the selected one."""
        return self.plan.select == "eraser" and not self.shares

    def _measured(self, edit: NamedEdit, candidate: Candidate | None = None) -> list[Row]:
        """Rows for the selection, and in a sweep those of test data."""
        rows = self.certificate(candidate) if candidate and self._certifies_all else []
        rows += [r for split in self.splits for r in self.measure(edit, split, self.quick)]
        for split in reversed(self.splits):
            rows += self._removed(edit, split)
        return rows

    def certificate(self, candidate: Candidate) -> list[Row]:
        """Rows on a fit: accuracy of probes, the course of a training, where a gate opened."""
        seed = self.plan.seed
        named = self.fits.part(candidate)
        if candidate.trains_weights:
            curve, contexts = self.fits.distillation(candidate).recorded()
            return self.marked(training_rows(curve, contexts, self.task), named, "validation")
        data = self.fits.data(candidate)
        state = unit_seed(seed, "certificate", candidate.layer) % 2**32
        eraser = self.fits.fit(candidate)
        with fitting_threads(data.at(candidate.layer)):
            certificate = data.certify(eraser, candidate.layer, state)
        n = int((data.used(eraser, candidate.layer)[0] & ~data.keep).sum())
        anew = eraser.refit_in_folds
        remark = eraser.note_
        if candidate.site == EVERYWHERE:
            of_fit = (
                "probes read its own block under the map that was fitted there, not under the edit "
                "everywhere, which does not read the directions of attention sinks"
            )
            remark = "; ".join(filter(None, (remark, of_fit)))
        rows = certificate_rows(certificate, self.task, n, refitted=anew, remark=remark)
        [place] = named.edit.placements
        with applied(self.model, self.fits.edit_before(candidate)) as model:
            rows += gate_rows(openings(model, self.task, place, self.plan.scratch), seed)
        return self.marked(rows, named, "validation")

    def measure(
        self, edit: NamedEdit | None, split: MeasuredSplit, metrics: Sequence[Metric]
    ) -> list[Row]:
        """The rows of metrics under an edit; of test data in the chat template too, if asked.

        Slow metrics decide by themselves which text is a message and which a reply.
        """
        rows = [r for m in metrics for r in m.measure(self.context, edit, split)]
        if split == "test" and self._in_chat is not None:
            quick = [m for m in metrics if m.is_selectable and not m.is_slow]
            replies = [row for m in quick for row in m.measure(self._in_chat, edit, split)]
            rows += [replace(row, dataset=row.dataset + IN_CHAT) for row in replies]
        return self.marked(rows, edit, split)

    @cached_property
    def _in_chat(self) -> EvaluationContext | None:
        """The context of texts as replies, where these are measured besides plain ones."""
        if (model := replying(self.context.model)) is None:
            return None
        stored = replace(self.stored, key=digest([self.stored.key, IN_CHAT]))
        return EvaluationContext(model, self.store / IN_CHAT, self.plan.seed, stored)

    def _removed(self, edit: NamedEdit, split: MeasuredSplit) -> list[Row]:
        row = self.bias.removed(self.context, edit, split)
        return [] if row is None else self.marked([row], edit, split)

    def marked(
        self, rows: Sequence[Row], edit: NamedEdit | None, split: MeasuredSplit
    ) -> list[Row]:
        """Rows with the columns of their edit and run."""
        columns = {} if edit is None else {**edit.record.columns}
        columns |= {"task": self.task.name, "seed": self.plan.seed}
        return [replace(row, **columns, split=row.split or split) for row in rows]

    @property
    def _untested(self) -> list[Metric]:
        """Metrics by which no candidate is measured on test data."""
        return [m for m in self.metrics if m.is_slow or self.plan.tested == "chosen"]

    def _test(self, edit: NamedEdit, candidates: Sequence[Candidate]) -> None:
        """Measure an edit on test data and, unless every edit is, random directions."""
        self.record(f"test/{edit.id}", f"test data: {edit.label}", self._tested, edit, candidates)
        if self._has_control(edit):
            control = self.fits.control(edit)
            label = f"test data: random directions of rank {control.record.rank}"
            self.record(f"test/{control.id}", label, self._tested, control)

    def _has_control(self, edit: NamedEdit) -> bool:
        return self.plan.tested == "chosen" and self.fits.has_control(edit)

    def _tested(self, edit: NamedEdit, candidates: Sequence[Candidate] = ()) -> list[Row]:
        is_new = bool(candidates) and self.plan.tested == "chosen"
        rows: list[Row] = []
        for candidate in candidates if is_new and not self._certifies_all else ():
            rows += self.certificate(candidate)
        metrics = [m for m in self._untested if m.has_baseline or not edit.record.baseline]
        rows += self.measure(edit, "test", metrics)
        if is_new and self.plan.select == "task":
            rows += self._removed(edit, "test")
        return rows

    def _test_baseline(self, group: Sequence[NamedEdit]) -> None:
        """Measure a baseline on test data; of variants the best on validation data."""
        [edit, *others] = group
        for variant in group if others or self.plan.tested == "every" else ():
            label = f"validation data: {variant.label}"
            self.record(f"baseline/{variant.id}", label, self._measured, variant)
        if others:
            best = choose(self._points({v.id for v in group}, baselines=True))
            [edit] = [v for v in group if v.id == best.edit]
        self.record(f"test/{edit.id}", f"test data: {edit.label}", self._tested, edit)

    def _points(self, ids: Collection[str | None], *, baselines: bool = False) -> list[Point]:
        """The edits of these ids by their figures on all validation data."""
        measured = points(self.rows(), "validation", self.costs, baselines=baselines)
        return [point for point in measured if point.edit in ids]

    def _choice_rows(self) -> list[Row]:
        """The row `choice` of each eraser: the chosen edit and its cost."""
        rows = []
        removed = self._removed_rows()
        for group in self._competing:
            if candidates := self._points({*map(self.fits.id_of, group)}, baselines=True):
                best = choose(candidates)
                detail = {**best.detail, "candidates": len(group)}
                rows.append(_cost_row(removed[best.edit], "choice", best, detail))
        return rows

    def _front_rows(self, chosen: str) -> list[Row]:
        """The row `cost` of each edit, by validation rows; test rows are only reported."""
        rows, removed, costs = self.rows(), self._removed_rows(), []
        on_front = {p.edit for p in front(points(rows, "validation", self.costs))}
        tested = points(rows, "test", self.costs, baselines=True)
        of_test = {point.edit: {**point.detail, "cost": point.cost} for point in tested}
        for point in points(rows, "validation", self.costs, baselines=True):
            figures = of_test.get(point.edit, {})
            reported = ("removed", "cost", "degradations", "groups")
            detail = {
                **point.detail,
                **{f"{key}_test": figures.get(key) for key in reported},
                "front": point.edit in on_front,
                "chosen": point.edit == chosen,
            }
            costs.append(_cost_row(removed[point.edit], "cost", point, detail))
        return costs

    def _removed_rows(self) -> dict[str, Row]:
        rows = [row for row in self.rows() if row.metric == "bias_removed"]
        return {row.edit: row for row in rows if row.split == "validation"}

    def _best_combination(self) -> Point | None:
        """The best edit of the task; None where nothing but controls could be measured.

        A greedy step adds edits at other places to the best one so far, those of the front first,
        as long as it removes noticeably more or brings the cost within the budgets.
        """
        # Combinations of a resumed run are found again from single candidates.
        singles = self._points(self._of_edit)
        if not singles:
            return None
        self.stage("combinations")
        best = choose(singles)
        on_front = {p.edit for p in front(singles)}
        worthy = [p for p in ordered(singles) if p.removed >= WORTH_ADDING]
        worthy.sort(key=lambda p: p.edit not in on_front)
        for _ in range(self.plan.combine - 1 if self.groups else 0):
            better = choose([best, *self._extended(best, worthy)])
            gained = better.removed >= best.removed + LEAST_GAIN
            if better.edit == best.edit or (best.is_worthwhile and not gained):
                break
            best = better
        return best

    def _extended(self, best: Point, worthy: Sequence[Point]) -> list[Point]:
        """The best edit with each further candidate that is worth a try."""
        base = self._of_edit[best.edit]
        order = self.candidates
        places = {(c.site, c.layer) for c in base}
        singles = [c for point in worthy for c in self._of_edit[point.edit]]
        added = [c for c in singles if (c.site, c.layer) not in places][:TRIED]
        tried = [tuple(sorted([*base, c], key=order.index)) for c in added]
        self.fits.fit_ahead([c for candidates in tried for c in self.fits.together(candidates)])
        ids = set[str | None]()
        for candidates in tried:
            name = " + ".join(c.label for c in candidates)
            ids.add(self._measure_together(candidates, f"combined/{name}"))
        return self._points(ids)


def _ranked(eraser: BaseEraser, plan: Plan) -> list[BaseEraser]:
    if not plan.ranks or "rank" not in eraser.get_params():
        return [eraser]
    return [clone(eraser).set_params(rank=rank) for rank in plan.ranks]


def _cost_row(removed: Row, metric: str, point: Point, detail: Mapping[str, object]) -> Row:
    return replace(removed, metric=metric, value=point.cost, lo=None, hi=None, detail={**detail})


def _why_none(rows: Sequence[Row]) -> str:
    """Why no edit was made: each reason with its erasers."""
    by_error: dict[str, dict[str, None]] = {}
    for row in rows:
        if row.metric == FAILED:
            by_error.setdefault(row.detail["error"], {})[row.eraser] = None
    return "; ".join(f"{', '.join(names)}: {error}" for error, names in by_error.items())
