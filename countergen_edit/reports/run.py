"""A run as people and programs read it: rows, edits, findings and the best edit."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from countergen_edit.core.errors import UserError
from countergen_edit.core.reading import yaml_mapping
from countergen_edit.core.writing import only_writer
from countergen_edit.decisions import JUDGEMENT, RECOMMENDED
from countergen_edit.decisions.significance import BIAS_SIGNIFICANT, has_significant_bias
from countergen_edit.edits import EditRecord, NamedEdit, applied
from countergen_edit.edits.checkpoints import (
    Form,
    Parity,
    Saved,
    edits_in_record,
    folded_into,
    save_checkpoint,
)
from countergen_edit.metrics.base import METRICS, Cost
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import COLUMNS, UNEDITED
from countergen_edit.models import LanguageModel
from countergen_edit.reports.findings import Verdict, findings, recommended, verdict, worthwhile
from countergen_edit.reports.render.card import model_card, parameters
from countergen_edit.reports.views.base import VIEWS, Quantity, View, view_of
from countergen_edit.runs.compare import rows_of_log
from countergen_edit.runs.files import CONFIG, EDITS, MANIFEST, ORIGINAL, RATINGS, RESULTS
from countergen_edit.runs.folder import finished_rows, read_manifest, read_records, read_rows
from countergen_edit.runs.logs import Log, read_log

if TYPE_CHECKING:
    from pandas import DataFrame

KINDS = ("bias", "cost", "other")
"""The order of quantities."""


@dataclass(frozen=True)
class Run:
    """The results of an experiment."""

    path: Path
    results: Results
    manifest: Mapping[str, Any] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    model: LanguageModel | None = field(default=None, repr=False)
    """The unedited model, where it is loaded."""
    log: Log | None = field(default=None, repr=False)
    """The log of another tool, where the run is one."""

    def __repr__(self) -> str:
        rows, edits = len(self.results.rows), len(self.results.edits)
        model = self.manifest.get("model", "")
        return f"Run({str(self.path)!r}, model={str(model)!r}, {rows} rows, {edits} edits)"

    @property
    def name(self) -> str:
        """The name of its folder."""
        return self.path.resolve().name

    @cached_property
    def views(self) -> list[View]:
        """The views of every metric that may have rows here; `unshown` names the others."""
        recorded = {name: VIEWS.get(name)(None, name) for name in VIEWS if name not in METRICS}
        names = {name: name for name in METRICS if ".py:" not in name}  # not of another run's file
        names |= {str(kind): name for name, kind in self.manifest.get("metrics", {}).items()}
        ours = {
            kind: view_of(METRICS.get(kind), kind, name)
            for kind, name in names.items()
            if kind not in self.unshown
        }
        return [*ours.values(), *recorded.values()]

    @cached_property
    def unshown(self) -> dict[str, str]:
        """The metrics of the manifest that cannot be loaded, with the errors."""
        reasons = {}
        for name in map(str, self.manifest.get("metrics", {}).values()):
            try:
                METRICS.get(name)
            except UserError as error:
                reasons[name] = str(error)
        return reasons

    @property
    def budgets(self) -> dict[str, float]:
        """The budget of each cost that was measured."""
        measured = {row.metric for row in self.results.rows}
        return {
            name: float(budget)
            for name, budget in self.manifest.get("budgets", {}).items()
            if (cost := self.cost(name)) is None or cost.counts in measured
        }

    def cost(self, name: str) -> Cost | None:
        """The cost of a name in the run, with its budget; None where it cannot be loaded."""
        try:
            metric = METRICS.get(str(self.manifest.get("metrics", {}).get(name, name)))
        except UserError:
            return None
        budget = self.manifest.get("budgets", {}).get(name)
        return metric(budget) if issubclass(metric, Cost) else None

    def quantities(self, split: str = "test") -> list[Quantity]:
        """The figures of all metrics: bias, then costs, then others."""
        every = [q for view in self.views for q in view.quantities(self.results, split)]
        return sorted(every, key=lambda quantity: KINDS.index(quantity.kind))

    def compared(self) -> list[Quantity]:
        """The figures by which runs are compared, in the same order."""
        every = [q for view in self.views for q in view.side_by_side(self.results)]
        return sorted(every, key=lambda quantity: KINDS.index(quantity.kind))

    @cached_property
    def original(self) -> Run | None:
        """The run of the model that an audited checkpoint was made of."""
        path = self.path / ORIGINAL
        return open_run(path) if (path / RESULTS).is_file() else None

    def by_task(self) -> dict[str, Run]:
        """The run task by task."""
        parts = self.results.by_task()
        return {task: replace(self, results=part) for task, part in parts.items()}

    @cached_property
    def edits(self) -> dict[str, NamedEdit]:
        """The run's edits by their id, read from the folder at first access."""
        return {key: NamedEdit.load(self.path / EDITS / key) for key in self.results.records}

    @cached_property
    def best(self) -> Kept | None:
        """The edit to keep; None without one, or where each of several tasks has its own.

        Of a search the chosen edit, if it keeps within the budgets; of an audit its only edit, or
        of those within the budgets the one that leaves least of the first bias quantity.
        """
        record = self.best_record
        return Kept(NamedEdit.load(self.path / EDITS / record.id), self) if record else None

    @cached_property
    def best_record(self) -> EditRecord | None:
        """The record of `best`."""
        if len(parts := self.results.by_task()) == 1:
            return best_record(self)
        # The last edit that every task was measured under.
        ids = set.intersection(*({e.id for e in part.edits} for part in parts.values()))
        every = [e for e in self.results.edits if not e.baseline and e.id in ids]
        return every[-1] if every else None

    @property
    def verdict(self) -> Verdict:
        """Bias, removal and costs in at most six lines."""
        return verdict(self)

    @property
    def findings(self) -> tuple[str, ...]:
        """Every finding, a sentence each."""
        return findings(self)

    def to_frame(self) -> DataFrame:
        """Every row as a line of a DataFrame, with a column for each facet and the edit's label.

        A facet with the name of another column becomes `facet_NAME`.
        """
        from pandas import DataFrame

        rows, taken = self.results.rows, (*COLUMNS, "label")
        facets = [
            {f"facet_{k}" if k in taken else k: v for k, v in row.facets.items()} for row in rows
        ]
        frame = DataFrame([row.to_dict() | own for row, own in zip(rows, facets, strict=True)])
        return frame.drop(columns="facets", errors="ignore").assign(
            label=[self.results.label(row.edit) for row in rows]
        )

    def report(self, path: Path | str | None = None) -> Path:
        """Write the run's page, by default `report.html` in its folder; its path.

        Raises
        ------
        UserError
            It cannot be written.
        """
        from countergen_edit.reports.render.html import REPORT, write_page
        from countergen_edit.reports.sections import about, kind, sections, title

        place = self.path / REPORT if path is None else Path(path)
        with only_writer(self.path) if path is None else nullcontext():
            return write_page(
                sections(self),
                place,
                title=title(self),
                kind=kind(self),
                about=about(self),
            )

    def _repr_html_(self) -> str:
        from countergen_edit.reports.render.html import fragment
        from countergen_edit.reports.sections import overview

        return "".join(fragment(overview(part)) for part in self.by_task().values())


@dataclass(frozen=True)
class Kept:
    """The best edit of a run."""

    named: NamedEdit
    run: Run = field(repr=False)

    @property
    def label(self) -> str:
        return self.named.label

    def on(self, model: LanguageModel | None = None) -> AbstractContextManager[LanguageModel]:
        """Attach the edit to the model within a `with` block.

        Raises
        ------
        UserError
            There is no model, or the edit has another width.
        """
        return applied(self._model(model), self.named.edit)

    def save(
        self,
        directory: Path | str,
        form: str = "auto",
        overwrite: bool = False,
        model: LanguageModel | None = None,
    ) -> Saved:
        """Save the edited model with its card, and prove it equal in a fresh process.

        Parameters
        ----------
        directory : the folder to make
        form : `folded`, `carried`, or `auto`
        overwrite : whether a checkpoint that is there is replaced
        model : the unedited model, where the run was read without it

        Raises
        ------
        UserError
            There is no model, the folder cannot be written, or the saved model differs.
        """
        own = self._model(model)

        def card(chosen: Form, parity: Parity) -> str:
            return model_card(self.run, self.named.record, chosen, parity, folded_into(own))

        return save_checkpoint(
            own,
            self.named.edit,
            Path(directory).expanduser(),
            form=form,
            texts=self.run.manifest.get("texts", ()),
            record=self.about(),
            card=card,
            overwrite=overwrite,
        )

    def about(self) -> dict[str, Any]:
        """The record that a checkpoint keeps, with which the run can be repeated."""
        record = self.named.record
        return {
            "edits": edits_in_record(record),
            "record": record.to_dict(),
            "edit": record.label,
            "id": record.id,
            "eraser": record.eraser,
            "parameters": parameters(record),
            "site": "+".join(record.sites),
            **{key: value for key, value in self.run.manifest.items() if key != "texts"},
            "config": dict(self.run.config),
        }

    def _model(self, model: LanguageModel | None) -> LanguageModel:
        own = model or self.run.model
        if own is None:
            raise UserError(
                "the run was read without its model: give the unedited model, "
                f"{self.run.manifest.get('model', '')!r}, as model="
            )
        return own


def best_record(run: Run) -> EditRecord | None:
    """The best edit of a run of one task; see `Run.best`."""
    results = run.results
    if choices := results.of("cost", "validation"):
        if not has_significant_bias(results.unedited(BIAS_SIGNIFICANT, "validation")):
            return None
        fit = {row.edit for row in choices if worthwhile(row)}
        return results.chosen if results.chosen and results.chosen.id in fit else None
    edits = [edit for edit in results.edits if not edit.baseline]
    if len(edits) < 2:
        return next(iter(edits), None)
    if words := {row.edit: row.detail["word"] for row in results.of(JUDGEMENT)}:
        if (named := recommended(results)) is not None:
            return named
        edits = [edit for edit in edits if words.get(edit.id) == RECOMMENDED]
    bias = next((q for q in run.quantities() if q.kind == "bias" and q.drawn), None)
    left = {} if bias is None else {edit: row.value for edit, row in bias.rows.items()}
    known = [(v, e) for e in edits if (v := left.get(e.id)) is not None and _is_within(run, e)]
    return min(known, key=lambda pair: pair[0])[1] if known else None


def _is_within(run: Run, edit: EditRecord) -> bool:
    """Whether no cost exceeds its budget on test data."""
    before, after = (
        [row for row in run.results.rows if (row.edit, row.split) == (e, "test")]
        for e in (UNEDITED, edit.id)
    )
    costs = filter(None, map(run.cost, run.budgets))
    worst = filter(None, (cost.worst(before, after) for cost in costs))
    return all(degradation.share <= 1 for degradation in worst)


def open_run(path: Path | str, model: LanguageModel | None = None) -> Run:
    """Read a run folder.

    Parameters
    ----------
    path : the folder
    model : the unedited model, with which edits of the run can be used and saved

    Raises
    ------
    UserError
        It holds no run, a file is damaged, or another version wrote it.
    """
    path = Path(path)
    if not path.is_dir():
        raise UserError(f"{path} is no run folder: there is no such folder")
    manifest = read_manifest(path) if (path / MANIFEST).is_file() else {}
    config = yaml_mapping(path / CONFIG) if (path / CONFIG).is_file() else {}
    rated = read_rows(path / RATINGS) if (path / RATINGS).is_file() else []
    results = Results([*finished_rows(path), *rated], read_records(path), path)
    return Run(path, results, manifest, config, model)


def open_run_or_log(path: Path | str, cluster: str | None = None, seed: int = 0) -> Run:
    """Read a run folder, or the log of another tool as a run.

    Parameters
    ----------
    path : a folder, or a file of a log
    cluster : the column of a log's items over which intervals are drawn
    seed : of the draws

    Raises
    ------
    UserError
        It is neither, is damaged, another version wrote it, or a run folder is given a cluster.
    """
    path = Path(path).expanduser()
    log = None if (path / RESULTS).is_file() else read_log(path, cluster)
    if log is not None:
        results = Results(rows_of_log(log, seed))
        return Run(path, results, {"model": log.model, "command": log.tool}, log=log)
    if path.is_file():
        raise UserError(f"{path} is no run folder, and no log of lm_eval or inspect")
    if cluster is not None:
        raise UserError(
            f"cluster={cluster!r} is a column of the items of a log; {path} is none, and runs are "
            "drawn over templates and names"
        )
    return open_run(path)
