"""A run is a folder: config, manifest, edits, and rows that are appended unit by unit.

A unit's rows become part of the run when `progress.jsonl` records where they end. Whatever a killed
process left behind that record is cut off when the run is opened again, so that a resumed run ends
with the rows of one that was never killed. One process at a time has a run open.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from countergen_edit.core.errors import UserError
from countergen_edit.core.reading import json_mapping, json_records
from countergen_edit.core.stages import stage
from countergen_edit.core.typed import require
from countergen_edit.core.writing import LOCK, NEW, append, hold, tidy, whole
from countergen_edit.edits import EditRecord, NamedEdit, read_record
from countergen_edit.metrics.rows import SCHEMA, Row
from countergen_edit.models.progress import Bar, bar
from countergen_edit.runs.files import (
    CONFIG,
    EDITS,
    MANIFEST,
    PROGRESS,
    RESULTS,
    require_free,
)
from countergen_edit.runs.ran import now, ran_of, until_now
from countergen_edit.runs.tracking.following import followers

TYPES: Mapping[str, Any] = {
    "fingerprint": str,
    "model": str,
    "model_hash": str,
    "model_origin": Mapping[str, str],
    "bos": bool | None,
    "template": Mapping[str, str] | None,
    "data_hash": str,
    "seed": int,
    "versions": Mapping[str, str],
    "python": str,
    "command": Sequence[str],
    "metrics": Mapping[str, str],
    "budgets": Mapping[str, float],
    "git_commit": str | None,
    "tasks": Mapping[str, str],
    "before": Sequence[str],
    "warnings": Sequence[str],
    "texts": Sequence[str],
    "names": Mapping[str, Any],
    "kept": Mapping[str, Sequence[str]],
    "compared": Mapping[str, str],
}
"""The types of a manifest's entries."""


class RunFolder:
    """A run folder, open for more units.

    Args:
        path: made if it does not exist.
        config: the resolved configuration.
        manifest: `fingerprint` identifies the run.
        wait: whether to wait for another process that has the run open.

    Raises:
        UserError: the folder belongs to another run or process, holds something else, or cannot be
            written.
    """

    def __init__(
        self,
        path: Path,
        config: Mapping[str, Any],
        manifest: Mapping[str, Any],
        *,
        wait: bool = False,
    ) -> None:
        self.path, self._begin = path, now()
        try:
            check_folder(path, manifest)
            path.mkdir(parents=True, exist_ok=True)
            self._lock = hold(path, path / LOCK, wait=wait)
            self._open(config, manifest)
        except OSError as error:
            raise UserError(f"cannot write the run folder {path}: {error.strerror}") from error
        self._followers = followers(path, config, manifest, self.rows)

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let other processes write to the run."""
        self._lock.release()

    def _open(self, config: Mapping[str, Any], manifest: Mapping[str, Any]) -> None:
        path, known = self.path, self.path / MANIFEST
        check_folder(path, manifest)  # again: another process may have had it until now
        if not known.is_file():
            text = yaml.safe_dump(dict(config), sort_keys=False, allow_unicode=True)
            with whole(path / CONFIG) as temporary:
                temporary.write_text(text, "utf-8")
            _write_manifest(path, manifest)
        self._manifest = read_manifest(path)
        self._earlier = ran_of(self._manifest)
        self._results = path / RESULTS
        self._progress = path / PROGRESS
        self._units: dict[str, int] = {}
        self._recover()

    def _recover(self) -> None:
        """Keep the recorded units, cut off what was being written when the process died."""
        tidy(self.path / EDITS)
        (self.path / f"{MANIFEST}{NEW}").unlink(missing_ok=True)
        for file in (self._results, self._progress):
            file.touch()
        whole, self._units = _progress(self._progress)
        end = max(self._units.values(), default=0)
        if self._results.stat().st_size < end:
            raise UserError(
                f"{self._results} is shorter than its progress record: it was cut off or edited; "
                f"delete {self.path} to start anew"
            )
        os.truncate(self._progress, len(whole))
        os.truncate(self._results, end)

    def done(self, unit: str) -> bool:
        """Whether the unit's rows are already part of the run."""
        return unit in self._units

    def record(self, unit: str, rows: Sequence[Row]) -> None:
        """Append a unit's rows, durably and as a whole.

        Raises:
            UserError: the disk is full; the unit is then not part of the run.
        """
        ran = until_now(self._earlier, self._begin)
        _write_manifest(self.path, self._manifest | ran.entry)
        lines = "".join(
            json.dumps(replace(row, unit=unit).to_dict(), ensure_ascii=False, allow_nan=False)
            + "\n"
            for row in rows
        )
        before = self._results.stat().st_size
        append(self._results, lines)
        end = self._results.stat().st_size
        try:
            append(self._progress, json.dumps({"unit": unit, "end": end}) + "\n")
        except UserError:
            with suppress(OSError):
                os.truncate(self._results, before)
            raise
        self._units[unit] = end
        for follower in self._followers:
            follower.tell(unit, rows)

    def rows(self) -> list[Row]:
        """All rows of the run so far, in the order in which they were recorded."""
        return read_rows(self._results)

    def keep(self, named: NamedEdit, made_for: str | None = None) -> None:
        """Keep an edit in the run, whole or not at all.

        Raises:
            UserError: the disk is full.
        """
        named.save(self.path / EDITS / named.id, made_for)

    def has_edit(self, edit: str) -> bool:
        """Whether the run keeps an edit of that id."""
        return (self.path / EDITS / edit).is_dir()

    def edit(self, edit: str) -> NamedEdit:
        """The edit of an id."""
        return NamedEdit.load(self.path / EDITS / edit)


def _write_manifest(path: Path, manifest: Mapping[str, Any]) -> None:
    with whole(path / MANIFEST) as temporary:
        temporary.write_text(json.dumps(manifest, indent=2) + "\n", "utf-8")


def check_folder(path: Path, manifest: Mapping[str, Any]) -> None:
    """Refuse the folder of another run; nothing is written.

    Raises:
        UserError: the folder belongs to another run, or holds something else.
    """
    known = path / MANIFEST
    if known.is_file():
        other = str(read_manifest(path).get("fingerprint"))
        if other != manifest["fingerprint"]:
            raise UserError(
                f"run folder {path} belongs to another run (fingerprint {other[:8]}, this one "
                f"is {manifest['fingerprint'][:8]}): choose another run_dir"
            )
    require_free(path)


def read_manifest(path: Path) -> dict[str, Any]:
    """The manifest of a run.

    Raises:
        UserError: it is missing, damaged, or of another version.
    """
    manifest = json_mapping(path / MANIFEST)
    if manifest.get("schema") != SCHEMA:
        versions = manifest.get("versions")
        own = versions.get("countergen-edit") if isinstance(versions, Mapping) else None
        version = own or "of unknown version"
        raise UserError(
            f"{path} was written by countergen-edit {version}, whose rows this version does not "
            "read: give the command that made it again, with another run_dir"
        )
    for key, value in manifest.items():
        require(TYPES.get(key, Any), value, f"{path / MANIFEST} is damaged: {key}")
    ran_of(manifest, f"{path / MANIFEST} is damaged: ")
    return manifest


def read_records(path: Path) -> dict[str, EditRecord]:
    """The record of every edit that a run keeps, by its id."""
    folders = sorted(p for p in (path / EDITS).glob("*") if p.suffix != ".tmp")
    return {folder.name: read_record(folder) for folder in folders}


def finished_rows(path: Path) -> list[Row]:
    """Rows of the recorded units of a run.

    Raises:
        UserError: the folder holds no run, no rows, or fewer than its record says.
    """
    results, progress = path / RESULTS, path / PROGRESS
    if not results.is_file():
        raise UserError(f"{path} is no run folder: it holds no {RESULTS}")
    if not progress.is_file():
        return read_rows(results)
    end = max(_progress(progress)[1].values(), default=0)
    content = results.read_bytes()
    if len(content) < end:
        raise UserError(
            f"{results} is shorter than its progress record: it was cut off or edited; run the "
            "command that made it again in another run_dir"
        )
    if not end:
        raise UserError(f"{results} holds no finished unit yet: let the run go on first")
    return _rows(results, content[:end])


def read_rows(results: Path) -> list[Row]:
    """Rows of a `results.jsonl`.

    Raises:
        UserError: naming a line that is not a row.
    """
    return _rows(results, results.read_bytes())


def _rows(results: Path, content: bytes) -> list[Row]:
    return [Row.from_dict(record, where) for where, record in json_records(content, results)]


def recorded_units(folder: Path) -> dict[str, list[Row]]:
    """Recorded rows by unit of a run that another process may have open."""
    results, progress = folder / RESULTS, folder / PROGRESS
    if not (results.is_file() and progress.is_file()):
        return {}
    _, ends = _progress(progress)
    content = results.read_bytes()[: max(ends.values(), default=0)]
    units: dict[str, list[Row]] = {unit: [] for unit in ends}
    for row in _rows(results, content):
        units[row.unit].append(row)
    return units


def _progress(path: Path) -> tuple[bytes, dict[str, int]]:
    """The whole lines of a progress record, and where in the results each unit ends."""
    records = path.read_bytes()
    whole = records[: records.rfind(b"\n") + 1]
    ends: dict[str, int] = {}
    for where, record in json_records(whole, path):
        for key, hint in (("unit", str), ("end", int)):
            require(hint, record.get(key), f"{where}{key}")
        ends[record["unit"]] = record["end"]
    return whole, ends


class Units:
    """Runs the units that the folder does not hold yet, under one progress bar."""

    def __init__(
        self, folder: RunFolder, progress: Bar, parts: Mapping[str, Sequence[Row]]
    ) -> None:
        self._folder, self._bar, self._parts = folder, progress, parts

    def stage(self, name: str, units: int | None = None) -> None:
        """Begin a stage of so many units; None where the number is unknown."""
        self._bar.begin(name, units)
        stage(name if units is None else f"{name}: {units} {'unit' if units == 1 else 'units'}")

    def __call__(self, unit: str, description: str, work: Callable[[], list[Row]]) -> None:
        """Run a unit, unless the folder holds it.

        Args:
            unit: its name in the folder.
            description: shown while it runs.
            work: gives its rows.
        """
        if not self._folder.done(unit):
            recorded = self._parts.get(unit)
            if recorded is None:
                self._bar.show(description)
                recorded = work()
            self._folder.record(unit, recorded)
        self._bar.advance()


@contextmanager
def units(folder: RunFolder, parts: Mapping[str, Sequence[Row]] | None = None) -> Iterator[Units]:
    """Run units under one progress bar; `parts` are rows by unit of other jobs."""
    with bar() as progress:
        yield Units(folder, progress, parts or {})
