"""The runs behind the reproduction guide, and their records.

A `Record` (command, time, the rows that the guide shows) is one line of
`docs/reproduction/runs.jsonl`. A command with a record is not run again; a killed one is resumed.
"""

from __future__ import annotations

import json
import os
import resource
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from guide.entries import ENTRIES, MODELS, Entry

from countergen_edit.core.errors import UserError
from countergen_edit.core.writing import digest, whole
from countergen_edit.metrics.rows import Row
from countergen_edit.runs.folder import finished_rows
from countergen_edit.runs.manifest import git_commit, source_digest

RECORDS = ENTRIES / "runs.jsonl"
RUNS = Path("runs") / "reproduction"


@dataclass(frozen=True)
class Record:
    """The record of a run."""

    entry: str
    column: str
    command: str
    """As the guide prints it."""
    seconds: float
    """Processor time of all its threads, so that what else the machine did is not counted."""
    commit: str | None
    """Of the checkout that ran it."""
    shown: Sequence[Sequence[Row]]
    """For each figure of the entry, its rows."""

    def to_json(self) -> str:
        """The record as a line."""
        shown = [[row.to_dict() for row in rows] for rows in self.shown]
        return json.dumps(asdict(self) | {"shown": shown}, ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, line: str) -> Record:
        """Read a line."""
        content = json.loads(line)
        shown = [[Row.from_dict(row) for row in rows] for rows in content["shown"]]
        return cls(**content | {"shown": shown})


Records = dict[tuple[str, str], Record]
"""(entry, column) → its record."""


def read_records(path: Path = RECORDS) -> Records:
    """All records; empty if the file does not exist.

    Raises:
        UserError: a line is no record.
    """
    records: Records = {}
    lines = path.read_text("utf-8").split("\n")[:-1] if path.is_file() else []
    for number, line in enumerate(lines, start=1):
        try:
            record = Record.from_json(line)
        except (TypeError, ValueError, KeyError) as error:
            raise UserError(f"{path.name}, line {number} is no record of a run: {error}") from error
        records[record.entry, record.column] = record
    return records


def write_records(records: Records, path: Path = RECORDS) -> None:
    """Write all records in a fixed order."""
    with whole(path) as temporary:
        lines = [records[key].to_json() + "\n" for key in sorted(records)]
        temporary.write_text("".join(lines), "utf-8")


def is_current(record: Record | None, entry: Entry, column: str) -> bool:
    """Whether a record has the entry's command and all rows that it shows."""
    return (
        record is not None
        and record.command == typed(entry, column)
        and len(record.shown) == len(entry.figures)
        and all(
            rows and figure.of(rows) == list(rows)
            for figure, rows in zip(entry.figures, record.shown, strict=True)
        )
    )


def typed(entry: Entry, column: str) -> str:
    """The command of a column as a person types it."""
    return shlex.join(["countergen-edit", *entry.words(column)])


def run(entry: Entry, column: str, models: Mapping[str, str], place: Path = RUNS) -> Record:
    """Run a command, or what is left of it, in a process of its own.

    Args:
        entry: whose command.
        column: of which model.
        models: column → where its model lies.
        place: under which run folders are made.

    Raises:
        UserError: the command failed, or a figure finds no row in what it wrote.
    """
    words = entry.words(column)
    folder = place / column / f"{entry.name}-{digest([words, source_digest()])[:8]}"
    times = folder.with_suffix(".seconds")  # of every process that worked in the folder
    before = float(times.read_text("utf-8")) if times.is_file() and folder.is_dir() else 0.0
    command = [sys.executable, "-m", "countergen_edit.cli.main", *words, f"run_dir={folder}"]
    model = f"model={MODELS[column]}"
    command = [f"model={models[column]}" if word == model else word for word in command]
    folder.parent.mkdir(parents=True, exist_ok=True)
    started = _seconds()
    try:
        finished = subprocess.run(
            command,
            check=False,
            env=os.environ | {"HF_HUB_OFFLINE": "1"},
            stdout=subprocess.DEVNULL,
        )
    finally:
        seconds = before + _seconds() - started
        times.write_text(f"{seconds:.1f}", "utf-8")
    if finished.returncode:
        raise UserError(f"{typed(entry, column)} ended with {finished.returncode}")
    rows = finished_rows(folder)
    shown = [figure.of(rows) for figure in entry.figures]
    for figure, found in zip(entry.figures, shown, strict=True):
        if not found:
            raise UserError(f"the run of {entry.name} holds no row for {figure.what!r} ({folder})")
    return Record(entry.name, column, typed(entry, column), round(seconds, 1), git_commit(), shown)


def _seconds() -> float:
    """Processor time of all ended child processes."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
