"""A run is a folder: config, manifest, edits, and rows that are appended unit by unit.

A unit's rows become part of the run when `progress.jsonl` records where they end. Rows beyond that
record, of a killed process, are cut off when the run is opened again, by one process at a time. The
manifest has the length and SHA-256 of the rows, noted before the record.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from countergen_edit.core.errors import UserError
from countergen_edit.core.reading import json_lines, json_mapping
from countergen_edit.core.typed import require
from countergen_edit.core.writing import LOCK, NEW, append, hold, tidy, whole
from countergen_edit.edits import EditRecord, NamedEdit, read_record
from countergen_edit.metrics.rows import SCHEMA, Row
from countergen_edit.runs.files import CONFIG, EDITS, MANIFEST, PROGRESS, RESULTS, require_free
from countergen_edit.runs.ran import Ran, now, until_now

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
    "fitted": Mapping[str, Sequence[str]],
    "kept": Mapping[str, Sequence[str]],
    "compared": Mapping[str, str],
    "batch_reductions": Mapping[str, int],
    "results": tuple[int, str],
    "ran": Ran,
}
"""The types of a manifest's entries."""


class RunFolder:
    """A run folder, open for more units; it is made if it does not exist.

    `fingerprint` of the manifest identifies the run. `UserError` if the folder is of another run or
    process, holds something else, or cannot be written.
    """

    def __init__(self, path: Path, config: Mapping[str, Any], manifest: Mapping[str, Any]) -> None:
        self.path = path
        self._begin = now()
        self._results, self._progress = path / RESULTS, path / PROGRESS
        try:
            check_folder(path, manifest)
            path.mkdir(parents=True, exist_ok=True)
            self._lock = hold(path, path / LOCK, wait=False)
            self._open(config, manifest)
        except OSError as error:
            raise UserError(f"cannot write the run folder {path}: {error.strerror}") from error

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let other processes write to the run."""
        self._lock.release()

    def _open(self, config: Mapping[str, Any], manifest: Mapping[str, Any]) -> None:
        """Keep the recorded units, cut off anything that a killed process left behind."""
        path = self.path
        check_folder(path, manifest)  # again: another process may have had it until now
        if not (path / MANIFEST).is_file():
            text = yaml.safe_dump(dict(config), sort_keys=False, allow_unicode=True)
            with whole(path / CONFIG) as temporary:
                temporary.write_text(text, "utf-8")
            _write_manifest(path, {**manifest, "results": (0, hashlib.sha256().hexdigest())})
        self._manifest = read_manifest(path)
        self._earlier = self._manifest.get("ran")
        tidy(path / EDITS)
        (path / f"{MANIFEST}{NEW}").unlink(missing_ok=True)
        for file in (self._results, self._progress):
            file.touch()
        self._units, rows, lines = _recorded(path)
        self._sum = hashlib.sha256(rows)
        self.note(results=(len(rows), self._sum.hexdigest()))
        os.truncate(self._progress, lines)
        os.truncate(self._results, len(rows))

    def done(self, unit: str) -> bool:
        """Whether the unit's rows are already part of the run."""
        return unit in self._units

    def record(self, unit: str, rows: Sequence[Row]) -> None:
        """Append a unit's rows, durably and as a whole."""
        lines = (replace(row, unit=unit).to_dict() for row in rows)
        text = "".join(json.dumps(x, ensure_ascii=False, allow_nan=False) + "\n" for x in lines)
        append(self._results, text)
        self._sum.update(text.encode())
        end, ran = self._results.stat().st_size, until_now(self._earlier, self._begin)
        self.note(results=(end, self._sum.hexdigest()), ran=ran)
        append(self._progress, json.dumps({"unit": unit, "end": end}) + "\n")
        self._units[unit] = end

    @property
    def manifest(self) -> Mapping[str, Any]:
        """The manifest with what was noted so far."""
        return self._manifest

    def note(self, **entries: Any) -> None:
        self._manifest |= entries
        _write_manifest(self.path, self._manifest)

    def warn(self, warning: str) -> None:
        """Add a warning to the manifest, once."""
        self.note(warnings=[*dict.fromkeys([*self._manifest.get("warnings", ()), warning])])

    def rows(self) -> list[Row]:
        """All rows of the run so far, in the order of recording."""
        return read_rows(self._results)

    def keep(self, named: NamedEdit, made_for: str | None = None) -> None:
        """Keep an edit in the run, whole or not at all."""
        named.save(self.path / EDITS / named.id, made_for)

    def has_edit(self, edit: str) -> bool:
        return (self.path / EDITS / edit).is_dir()

    def edit(self, edit: str) -> NamedEdit:
        return NamedEdit.load(self.path / EDITS / edit)


def _write_manifest(path: Path, manifest: Mapping[str, Any]) -> None:
    with whole(path / MANIFEST) as temporary:
        temporary.write_text(json.dumps(manifest, indent=2) + "\n", "utf-8")


def check_folder(path: Path, manifest: Mapping[str, Any]) -> None:
    """Refuse a folder of another run or of something else, before any writing."""
    if (path / MANIFEST).is_file():
        other = str(read_manifest(path).get("fingerprint"))
        if other != manifest["fingerprint"]:
            raise UserError(
                f"run folder {path} belongs to another run (fingerprint {other[:8]}, this one "
                f"is {manifest['fingerprint'][:8]}): choose another run_dir"
            )
    require_free(path)


def read_manifest(path: Path) -> dict[str, Any]:
    """The manifest of a run; `UserError` if it is missing, damaged or of another version."""
    manifest = json_mapping(path / MANIFEST)
    if manifest.get("schema") != SCHEMA:
        versions = manifest.get("versions")
        version = versions.get("countergen-edit") if isinstance(versions, Mapping) else None
        raise UserError(
            f"{path} was written by countergen-edit {version or 'of unknown version'}, whose rows "
            "this version does not read: give the command that made it again, with another run_dir"
        )
    for key, value in manifest.items():
        require(TYPES.get(key, Any), value, f"{path / MANIFEST} is damaged: {key}")
    return manifest


def read_records(path: Path) -> dict[str, EditRecord]:
    """The record of every edit that a run keeps, by its id."""
    folders = sorted(p for p in (path / EDITS).glob("*") if p.suffix != ".tmp")
    return {folder.name: read_record(folder) for folder in folders}


def finished_rows(path: Path) -> list[Row]:
    """Rows of the recorded units of a run; `UserError` without any, or if rows are lost."""
    for name in (RESULTS, MANIFEST):
        if not (path / name).is_file():
            raise UserError(f"{path} is not a run folder: it holds no {name}")
    units = recorded_units(path)
    if not units:
        raise UserError(f"{path / RESULTS} holds no finished unit yet: let the run go on first")
    return [row for rows in units.values() for row in rows]


def read_rows(results: Path) -> list[Row]:
    """Rows of a `results.jsonl`; `UserError` names a line that is not a row."""
    return [Row.from_dict(record, where) for where, record in json_lines(results)]


def recorded_units(folder: Path) -> dict[str, list[Row]]:
    """Recorded rows by unit of a run that another process may have open."""
    if not (folder / PROGRESS).is_file():
        return {}
    ends, content, _ = _recorded(folder)
    units: dict[str, list[Row]] = {unit: [] for unit in ends}
    for where, record in json_lines(folder / RESULTS, content):
        row = Row.from_dict(record, where)
        units.setdefault(row.unit, []).append(row)
    return units


def _recorded(folder: Path) -> tuple[dict[str, int], bytes, int]:
    """The ends of recorded units, their rows, and the length of their record."""
    results, progress = folder / RESULTS, folder / PROGRESS
    records = progress.read_bytes()
    lines = records[: records.rfind(b"\n") + 1]  # a kill may have cut the last one
    # In this order, as another process may be writing.
    length, checksum = read_manifest(folder).get("results", (0, ""))
    content = results.read_bytes()
    if hashlib.sha256(content[:length]).hexdigest() != checksum:
        raise UserError(
            f"{results} was cut off or changed: its SHA-256 is not that in {MANIFEST}; run the "
            "command that made it again in another run_dir"
        )
    ends: dict[str, int] = {}
    for where, record in json_lines(progress, lines):
        for key, hint in (("unit", str), ("end", int)):
            require(hint, record.get(key), f"{where}{key}")
        if record["end"] <= length:  # else a loss of power took the manifest
            ends[record["unit"]] = record["end"]
    recorded = lines.splitlines(keepends=True)[: len(ends)]
    return ends, content[: max(ends.values(), default=0)], sum(map(len, recorded))
