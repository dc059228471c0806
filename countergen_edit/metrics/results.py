"""Rows and their edits, looked up by views; nothing is computed here."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from countergen_edit.metrics.rows import UNEDITED, Row

if TYPE_CHECKING:
    from countergen_edit.edits import EditRecord  # torch comes with it

NO_EDIT = "unedited"
MOST_EDITS = 6
"""Edits shown at length; a search has hundreds, which its own figures show."""
STORE = "store"
"""Folder within a run for what metrics keep."""


class Results:
    """The rows and edits of a run.

    Parameters
    ----------
    rows : in the order of recording
    records : the edits by their id
    folder : the run folder, for the single texts that metrics kept
    task : the one task that this is about; of a run of several, one `Results` each
    """

    def __init__(
        self,
        rows: Sequence[Row],
        records: Mapping[str, EditRecord] | None = None,
        folder: Path | None = None,
        task: str = "",
    ) -> None:
        self.rows = list(rows)
        self.records = dict(records or {})
        self.folder = folder
        self.task = task
        self._index = {row.key: row for row in self.rows}

    def of(self, metric: str, split: str = "test", edit: str | None = None) -> list[Row]:
        """All rows of a metric in one split, of one edit if it is named."""
        rows = self._by_metric.get((metric, split), [])
        return rows if edit is None else [row for row in rows if row.edit == edit]

    def unedited(self, metric: str, split: str = "test") -> list[Row]:
        return self.of(metric, split, UNEDITED)

    def under(self, row: Row, edit: str, metric: str | None = None) -> Row | None:
        """The row about the same data under another edit, or of another metric."""
        key = row.key
        return self._index.get((metric or row.metric, *key[1:-2], edit, row.split))

    @cached_property
    def _by_metric(self) -> dict[tuple[str, str], list[Row]]:
        index: dict[tuple[str, str], list[Row]] = {}
        for row in self.rows:
            index.setdefault((row.metric, row.split), []).append(row)
        return index

    @cached_property
    def edits(self) -> list[EditRecord]:
        """Every edit measured on test data, in the order of measuring."""
        ids = dict.fromkeys(r.edit for r in self.rows if r.split == "test" and r.edit != UNEDITED)
        return [self.records[edit] for edit in ids if edit in self.records]

    @cached_property
    def is_unedited(self) -> bool:
        """Whether a model was measured unedited, and nothing else."""
        return bool(self.rows) and all(row.edit == UNEDITED for row in self.rows)

    @cached_property
    def shown(self) -> list[EditRecord]:
        """The edits shown at length: of a search, the chosen one and the front."""
        choices = [r for r in self.of("cost", "validation") if r.detail["front"]]
        choices.sort(key=lambda row: not row.detail["chosen"])
        ahead = [row.edit for row in choices]
        controls = {c.id for c in (self.baseline_of(e) for e in self.edits if not e.baseline) if c}
        edits = [e for e in self.edits if e.id not in controls and not e.baseline_kind]
        front = sorted((e for e in edits if e.id in ahead), key=lambda e: ahead.index(e.id))
        return (front or edits)[:MOST_EDITS]

    @cached_property
    def chosen(self) -> EditRecord | None:
        """The edit that a search chose."""
        picked = [r.edit for r in self.of("cost", "validation") if r.detail["chosen"]]
        return next((self.records[edit] for edit in picked if edit in self.records), None)

    def baseline_of(self, edit: EditRecord) -> EditRecord | None:
        """The control of equal rank at the same places, if the run measured one."""
        controls = (e for e in self.edits if e.baseline and not e.baseline_kind)
        return next((e for e in controls if e.places == edit.places), None)

    @cached_property
    def baselines(self) -> list[EditRecord]:
        """Other ways to the same end, such as prompting, in the order of measuring."""
        return [edit for edit in self.edits if edit.baseline_kind]

    @cached_property
    def compared(self) -> list[str]:
        """Ids in the order in which edits are listed: none, those shown, and their controls."""
        real = [edit for edit in self.shown if not edit.baseline]
        controls = [self.baseline_of(edit) for edit in real]
        controls += [edit for edit in self.shown if edit.baseline]
        ids = [UNEDITED, *(e.id for e in real), *(e.id for e in controls if e)]
        return list(dict.fromkeys(ids))

    def is_reference(self, edit: str) -> bool:
        """Whether others are compared with it: no edit, or a control."""
        if self.is_unedited:
            return False
        return edit == UNEDITED or (edit in self.records and self.records[edit].baseline)

    def label(self, edit: str) -> str:
        """An edit's name where people read it."""
        if edit == UNEDITED:
            return NO_EDIT
        return self.records[edit].label if edit in self.records else edit

    def by_task(self) -> dict[str, Results]:
        """The results of each task; of a run of one, all of them.

        >>> rows = [Row("r", 0.1, task="race"), Row("r", 0.0, task="age"), Row("r", 0.2)]
        >>> {task: len(part.rows) for task, part in Results(rows).by_task().items()}
        {'race': 1, 'age': 1}
        """
        tasks = list(dict.fromkeys(row.task for row in self.rows if row.task)) or [""]
        if len(tasks) == 1:
            return {tasks[0]: self}
        rows = {task: [row for row in self.rows if row.task == task] for task in tasks}
        return {t: Results(of_task, self.records, self.folder, t) for t, of_task in rows.items()}

    def only(self, *, edits: Collection[str]) -> Results:
        rows = [row for row in self.rows if row.edit in edits]
        return Results(rows, self.records, self.folder, self.task)

    def stored(self, metric: str) -> Iterator[tuple[str, Path]]:
        """The files that a metric kept, each with the id of its edit."""
        if self.folder is None:
            return
        for folder in sorted((self.folder / STORE).glob(f"{self.task or '*'}/{metric}/*")):
            files = [folder] if folder.is_file() else sorted(folder.rglob("*.jsonl"))
            for path in files:
                if path.suffix == ".jsonl":
                    yield (folder.stem if folder.is_file() else folder.name), path


@dataclass(frozen=True)
class State:
    """The unedited model, or the model under an edit, as one series of a figure."""

    name: str
    results: Results
    edit: str = UNEDITED
    baseline: bool = False
    """Whether others are compared with it."""
