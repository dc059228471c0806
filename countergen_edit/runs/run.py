"""A run as people and programs read it: rows, edits, findings and the selected edit."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from countergen_edit.core.errors import UserError
from countergen_edit.core.reading import text_hash, yaml_mapping
from countergen_edit.core.writing import only_writer
from countergen_edit.decisions.judgement import recommended
from countergen_edit.edits import EditRecord, NamedEdit, applied
from countergen_edit.edits.checkpoints import Saved, edits_in_record, folded_into, save_checkpoint
from countergen_edit.metrics.base import METRICS, Cost
from countergen_edit.metrics.decisions import taken_rows
from countergen_edit.metrics.items import item_scores, logged_scores
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import COLUMNS
from countergen_edit.models import LanguageModel
from countergen_edit.runs.files import CONFIG, EDITS, MANIFEST, ORIGINAL, RATINGS, RESULTS
from countergen_edit.runs.folder import finished_rows, read_manifest, read_records, read_rows
from countergen_edit.runs.logs import Log, read_log

if TYPE_CHECKING:
    from pandas import DataFrame

    from countergen_edit.reports.findings import Verdict
    from countergen_edit.reports.views.base import Quantity, View

DECISIONS = ".csv"


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
        return self.path.resolve().name

    @property
    def title(self) -> str:
        """The model, and the groups of each task."""
        model = Path(str(self.manifest.get("model", self.name))).name
        about = []
        for task, part in self.results.by_task().items():
            for row in [r for r in part.rows if r.group_a and r.group_b][:1]:
                pair = f"{row.group_a} and {row.group_b}".replace("_", " ")
                if of_how_many := self.manifest.get("compared", {}).get(task):
                    pair += f" ({of_how_many.partition(';')[0]})"
                about.append(f"{row.axis}, {pair}" if row.axis else pair)
        return f"{model}: {'; '.join(about)}" if about else model

    def by_task(self) -> dict[str, Run]:
        """The run task by task."""
        return self._by_task

    @cached_property
    def _by_task(self) -> dict[str, Run]:
        parts = self.results.by_task()
        if len(parts) == 1:
            return dict.fromkeys(parts, self)
        return {task: replace(self, results=part) for task, part in parts.items()}

    @cached_property
    def original(self) -> Run | None:
        """The run of the model that an audited checkpoint was made of."""
        path = self.path / ORIGINAL
        return open_run(path) if (path / RESULTS).is_file() else None

    @cached_property
    def edits(self) -> dict[str, NamedEdit]:
        """The run's edits by their id, read from the folder at first access."""
        return {key: NamedEdit.load(self.path / EDITS / key) for key in self.results.records}

    @cached_property
    def best(self) -> SelectedEdit | None:
        """The edit to keep; None without one, or where each of several tasks has its own.

        Of an audit of one edit that edit, else the recommended.
        """
        record = self.best_record
        if record is None:
            return None
        return SelectedEdit(NamedEdit.load(self.path / EDITS / record.id), self)

    @cached_property
    def best_record(self) -> EditRecord | None:
        parts = self.results.by_task().values()
        edits = [edit for edit in self.results.edits if not edit.baseline]
        if len(parts) > 1:  # the last edit that every task was measured under
            ids = set.intersection(*({e.id for e in part.edits} for part in parts))
            return next((e for e in reversed(edits) if e.id in ids), None)
        if len(edits) == 1 and not self.results.of("cost", "validation"):
            return edits[0]
        return recommended(self.results)

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

    # A run shows itself: the room of reports, which reads runs, is imported late.

    @cached_property
    def views(self) -> list[View]:
        """The views of every metric that may have rows here; `unshown` names the others."""
        from countergen_edit.reports.views.base import views_of

        return views_of(self.manifest.get("metrics", {}), self.unshown)

    def quantities(self, split: str = "test") -> list[Quantity]:
        """The figures of all metrics: bias, then costs, then others."""
        from countergen_edit.reports.views.base import in_order

        return in_order(q for view in self.views for q in view.quantities(self.results, split))

    @cached_property
    def verdict(self) -> Verdict:
        """Bias, removal and costs in at most six lines."""
        from countergen_edit.reports.findings import verdict

        return verdict(self)

    @cached_property
    def findings(self) -> tuple[str, ...]:
        """Every finding, a sentence each."""
        from countergen_edit.reports.findings import findings

        return findings(self)

    def report(self, path: Path | str | None = None) -> Path:
        """Write the run's page, by default `report.html` in its folder; its path.

        `UserError` if it cannot be written.
        """
        from countergen_edit.reports.render.html import REPORT, write_page
        from countergen_edit.reports.sections import head, sections

        place = self.path / REPORT if path is None else Path(path)
        if path is None:  # that of a CSV file is new
            self.path.mkdir(exist_ok=True)
        with only_writer(self.path) if path is None else nullcontext():
            return write_page(sections(self), place, **head(self))

    def to_frame(self) -> DataFrame:
        """Every row as a line of a DataFrame, with a column for each facet and the edit's label.

        A facet with the name of another column becomes `facet_NAME`.
        """
        from pandas import DataFrame

        records, rows, taken = [], self.results.rows, (*COLUMNS, "label")
        for row in rows:
            facets = {f"facet_{k}" if k in taken else k: v for k, v in row.facets.items()}
            records.append(row.to_dict() | facets)
        frame = DataFrame(records).drop(columns="facets", errors="ignore")
        return frame.assign(label=[self.results.label(row.edit) for row in rows])


@dataclass(frozen=True)
class SelectedEdit:
    """The best edit of a run."""

    named: NamedEdit
    run: Run = field(repr=False)

    @property
    def label(self) -> str:
        return self.named.label

    def on(self, model: LanguageModel | None = None) -> AbstractContextManager[LanguageModel]:
        """Attach the edit to the model within a `with` block.

        `UserError` if there is no model, or the edit has another width.
        """
        return applied(self._unedited(model), self.named.edit)

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
        form : `folded` (`auto`), stock weights; `adapter`, for PEFT; `carried`, with code
        overwrite : whether a checkpoint that is there is replaced
        model : the unedited model, where the run was read without it

        Raises
        ------
        UserError
            There is no model, the form cannot hold the edit, the folder cannot be written, or the
            saved model differs.
        """
        from countergen_edit.reports.render.card import model_card  # late, as in `Run`

        run, record, unedited = self.run, self.named.record, self._unedited(model)
        earlier = folded_into(unedited)
        manifest = {key: value for key, value in run.manifest.items() if key != "texts"}
        about = {"edits": [*earlier, *edits_in_record(record)], "record": asdict(record)}
        return save_checkpoint(
            unedited,
            self.named.edit,
            Path(directory).expanduser(),
            form=form,
            texts=run.manifest.get("texts", ()),
            record={**about, **manifest, "config": dict(run.config)},
            card=lambda chosen, parity: model_card(run, record, chosen, parity, earlier),
            overwrite=overwrite,
        )

    def _unedited(self, model: LanguageModel | None) -> LanguageModel:
        unedited = model or self.run.model
        if unedited is None:
            raise UserError(
                "the run was read without its model: give the unedited model, "
                f"{self.run.manifest.get('model', '')!r}, as model="
            )
        return unedited


def open_run(path: Path | str, model: LanguageModel | None = None) -> Run:
    """Read a run folder, or a CSV file of decisions that were taken as a run.

    With its unedited model, edits can be used and saved. The report of a CSV file goes to a folder
    of its name beside it. `UserError` if it is neither, a file is damaged, or another version wrote
    it.
    """
    path = Path(path)
    if path.suffix == DECISIONS:
        rows = taken_rows(path.expanduser())
        about = {"model": path.name, "sha256": text_hash(path), "seed": 0}
        return Run(path.with_suffix(""), Results(rows), about)
    if not path.is_dir():
        raise UserError(f"{path} is not a run folder: there is no such folder")
    manifest = read_manifest(path) if (path / MANIFEST).is_file() else {}
    config = yaml_mapping(path / CONFIG) if (path / CONFIG).is_file() else {}
    rated = read_rows(path / RATINGS) if (path / RATINGS).is_file() else []
    results = Results([*finished_rows(path), *rated], read_records(path), path)
    return Run(path, results, manifest, config, model)


def open_run_or_log(path: Path | str, seed: int = 0) -> Run:
    """Read a run folder, or the log of another tool as a run.

    `seed` is that of its rows. `UserError` if it is neither, is damaged, or another version wrote
    it.
    """
    path = Path(path).expanduser()
    log = None if (path / RESULTS).is_file() else read_log(path)
    if log is not None:
        results = Results(logged_scores(item_scores(log.items), seed))
        return Run(path, results, {"model": log.model, "command": log.tool}, log=log)
    if path.is_file():
        raise UserError(f"{path} is not a run folder, and no log of lm_eval or inspect")
    return open_run(path)
