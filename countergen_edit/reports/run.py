"""A run as people and programs read it: its rows, its edits, what it found, and its best edit.

Comes in: a run folder. Goes out: a `Run`. Refused: a folder that holds no run, one whose results
were cut off, one that another version of this package wrote in another form.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from countergen_edit.core.errors import UserError
from countergen_edit.core.reading import yaml_mapping
from countergen_edit.core.writing import only_writer
from countergen_edit.edits import EditRecord, NamedEdit
from countergen_edit.metrics.base import METRICS, Cost
from countergen_edit.metrics.results import NO_EDIT, Results
from countergen_edit.metrics.rows import COLUMNS, UNEDITED
from countergen_edit.models import LanguageModel
from countergen_edit.reports.findings import findings
from countergen_edit.reports.kept import Kept, best_record, record_of_all
from countergen_edit.reports.verdict import Verdict, verdict
from countergen_edit.reports.views.base import VIEWS, Quantity, View, view_of
from countergen_edit.runs.compare import rows_of_log
from countergen_edit.runs.folder import (
    CONFIG,
    EDITS,
    MANIFEST,
    ORIGINAL,
    RESULTS,
    finished_rows,
    read_manifest,
    read_records,
)
from countergen_edit.runs.logs import LOGS, Log, read_log

if TYPE_CHECKING:
    from pandas import DataFrame

KINDS = ("bias", "cost", "other")
"""In this order quantities stand side by side."""


@dataclass(frozen=True)
class Run:
    """What an experiment found."""

    path: Path
    results: Results
    manifest: Mapping[str, Any] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    model: LanguageModel | None = field(default=None, repr=False)
    """The unedited model, where it is at hand."""
    log: Log | None = field(default=None, repr=False)
    """What another tool measured, where it is no run of ours."""

    def __repr__(self) -> str:
        rows, edits = len(self.results.rows), len(self.results.edits)
        model = self.manifest.get("model", "")
        return f"Run({str(self.path)!r}, model={str(model)!r}, {rows} rows, {edits} edits)"

    @property
    def name(self) -> str:
        """The folder's own name."""
        return self.path.resolve().name

    @cached_property
    def views(self) -> list[View]:
        """The views of every metric that may have rows in the run.

        Custom metrics that cannot be loaded are left out, and `unshown` names them.
        """
        recorded = {name: VIEWS.get(name)(None, name) for name in VIEWS if name not in METRICS}
        names = {name: name for name in METRICS if ".py:" not in name}  # not of another run's file
        names |= {str(kind): str(name) for name, kind in self._measured.items()}
        ours = {
            kind: view_of(METRICS.get(kind), kind, name)
            for kind, name in names.items()
            if kind not in self.unshown
        }
        return [*ours.values(), *recorded.values()]

    @property
    def _measured(self) -> Mapping[str, Any]:
        metrics: Mapping[str, Any] = self.manifest.get("metrics", {})
        return metrics

    @cached_property
    def unshown(self) -> dict[str, str]:
        """The metrics of the manifest that cannot be loaded, and why."""
        reasons = {}
        for name in map(str, self._measured.values()):
            try:
                METRICS.get(name)
            except UserError as error:
                reasons[name] = str(error)
        return reasons

    @property
    def budgets(self) -> dict[str, float]:
        """What is tolerated of each cost that was measured, by the metric's name in the run."""
        measured = {row.metric for row in self.results.rows}
        costs = {str(name): self.cost(str(name)) for name in self._tolerated}
        return {
            name: float(self._tolerated[name])
            for name, cost in costs.items()
            if cost is None or cost.counts in measured
        }

    @property
    def _tolerated(self) -> Mapping[str, float]:
        budgets: Mapping[str, float] = self.manifest.get("budgets", {})
        return budgets

    def cost(self, name: str) -> Cost | None:
        """The cost of a name in the run, with its budget; None where it is not at hand."""
        try:
            metric = METRICS.get(str(self._measured.get(name, name)))
        except UserError:
            return None
        return metric(self._tolerated.get(name)) if issubclass(metric, Cost) else None

    def quantities(self, split: str = "test") -> list[Quantity]:
        """The figures of all metrics that can stand side by side: bias, then costs, then others."""
        every = [q for view in self.views for q in view.quantities(self.results, split)]
        return sorted(every, key=lambda quantity: KINDS.index(quantity.kind))

    def compared(self) -> list[Quantity]:
        """The figures by which it is told from other runs: bias, then costs, then others."""
        every = [q for view in self.views for q in view.side_by_side(self.results)]
        return sorted(every, key=lambda quantity: KINDS.index(quantity.kind))

    @cached_property
    def erasers(self) -> tuple[str, ...]:
        """Every eraser of the run but controls, a user's own among them; those shown come first."""
        shown = [edit for edit in self.results.shown if not edit.baseline]
        rest = [edit for edit in self.results.records.values() if not edit.baseline]
        simple = [part for edit in (*shown, *rest) for part in (edit.parts or (edit,))]
        return tuple(dict.fromkeys(edit.eraser for edit in simple))

    @cached_property
    def original(self) -> Run | None:
        """The run of the model that an audited checkpoint was made of, where it was measured."""
        path = self.path / ORIGINAL
        return open_run(path) if (path / RESULTS).is_file() else None

    def by_task(self) -> dict[str, Run]:
        """The run task by task; of a run of one, all of it."""
        parts = self.results.by_task()
        return {task: replace(self, results=part) for task, part in parts.items()}

    @cached_property
    def edits(self) -> Mapping[str, NamedEdit]:
        """The run's edits by their id, each read from the folder when it is asked for."""
        return _Edits(self.path / EDITS, self.results.records)

    @cached_property
    def best(self) -> Kept | None:
        """The edit to keep.

        Of a search the chosen one, if it keeps within the budgets; of an audit the only edit, or of
        several that keep within the budgets the one that leaves least of the first bias quantity.
        Of edits over several axes the one of all. None where there is none, and where each task of
        several has its own: ask `by_task()` then.
        """
        alone = len(self.results.by_task()) == 1
        record = best_record(self) if alone else record_of_all(self)
        return None if record is None else Kept(self.edits[record.id], self)

    @property
    def verdict(self) -> Verdict:
        """What was biased, removed and paid, in at most six lines."""
        return verdict(self)

    @property
    def findings(self) -> tuple[str, ...]:
        """Every finding, a sentence each."""
        return findings(self)

    def to_frame(self) -> DataFrame:
        """Every row as a line of a pandas DataFrame.

        Columns are those of rows, each facet as one of its own (`facet_…` where a column has the
        name already), and `label`, what the edit is called.
        """
        from pandas import DataFrame

        lines, columns_of_rows = [], (*COLUMNS, "label")
        for row in self.results.rows:
            facets = {f"facet_{k}" if k in columns_of_rows else k: v for k, v in row.facets.items()}
            columns = {k: v for k, v in row.to_dict().items() if k != "facets"}
            # No edit is called the same in every run: frames of several are put together.
            label = NO_EDIT if row.edit == UNEDITED else self.results.label(row.edit)
            lines.append(columns | facets | {"label": label})
        return DataFrame(lines)

    def report(self, path: Path | str | None = None) -> Path:
        """Write the run's page, as `report.html` in its folder unless told otherwise; its path.

        Raises:
            UserError: it cannot be written.
        """
        from countergen_edit.reports.provenance import about, kind, title
        from countergen_edit.reports.render.html import REPORT, write_page
        from countergen_edit.reports.sections import sections

        place = self.path / REPORT if path is None else Path(path)
        with only_writer(self.path) if path is None else nullcontext():
            return write_page(
                sections(self),
                place,
                title=title(self),
                kind=kind(self),
                about=about(self),
                erasers=self.erasers,
            )

    def _repr_html_(self) -> str:
        from countergen_edit.reports.render.html import fragment
        from countergen_edit.reports.sections import overview_of

        return fragment(overview_of(self))


class _Edits(Mapping[str, NamedEdit]):
    def __init__(self, folder: Path, records: Mapping[str, EditRecord]) -> None:
        self._folder, self._ids = folder, tuple(records)
        self._loaded: dict[str, NamedEdit] = {}

    def __getitem__(self, key: str) -> NamedEdit:
        if key not in self._ids:
            raise KeyError(key)
        if key not in self._loaded:
            self._loaded[key] = NamedEdit.load(self._folder / key)
        return self._loaded[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._ids)

    def __len__(self) -> int:
        return len(self._ids)


def open_run(path: Path | str, model: LanguageModel | None = None) -> Run:
    """Read a run folder.

    Args:
        path: the folder.
        model: the unedited model, for whoever wants to use or save an edit of the run.

    Raises:
        UserError: it holds no run, a file of it is damaged, or another version wrote it.
    """
    path = Path(path)
    if not path.is_dir():
        raise UserError(f"{path} is no run folder: there is no such folder")
    manifest = read_manifest(path) if (path / MANIFEST).is_file() else {}
    config = yaml_mapping(path / CONFIG) if (path / CONFIG).is_file() else {}
    results = Results(finished_rows(path), read_records(path), path)
    return Run(path, results, manifest, config, model)


def open_run_or_log(path: Path | str, cluster: str | None = None, seed: int = 0) -> Run:
    """Read a run folder, or the log of another tool as if it were one.

    Args:
        path: a folder, or a file of a log.
        cluster: the column of a log's items by which intervals are drawn.
        seed: of those draws.

    Raises:
        UserError: it is neither, is damaged, or another version wrote it; or a cluster is named of
            a run folder.
    """
    path = Path(path).expanduser()
    log = None if (path / RESULTS).is_file() else read_log(path, cluster)
    if log is not None:
        results = Results(rows_of_log(log, seed))
        return Run(path, results, {"model": log.model, "command": log.tool}, log=log)
    if path.is_file():
        raise UserError(f"{path} is no run folder, and no log of {' or '.join(LOGS)}")
    if cluster is not None:
        raise UserError(
            f"cluster={cluster!r} is a column of the items of a log; {path} is none, and runs are "
            "drawn over templates and names"
        )
    return open_run(path)
