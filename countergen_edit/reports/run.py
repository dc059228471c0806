"""A run as reports read it: its rows, its manifest, and the texts that metrics left in its store.

Comes in: a run folder. Goes out: a frozen `Run`. Refused: a folder that holds no run, or one whose
results were cut off.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from countergen_edit.errors import UserError
from countergen_edit.experiments.audit import STORE
from countergen_edit.experiments.run_folder import CONFIG, MANIFEST, finished_rows
from countergen_edit.reports.results import Results

Lines = list[dict[str, Any]]


@dataclass(frozen=True)
class Run:
    """What a report is made from."""

    path: Path
    results: Results
    manifest: dict[str, Any] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    axis: str = ""
    """The one axis that this is about, of a run whose edits are named after theirs."""

    @property
    def name(self) -> str:
        """The folder's own name."""
        return self.path.resolve().name

    def store(self, metric: str) -> list[Path]:
        """The JSON-lines files of a metric, in the order of their names."""
        return sorted((self.path / STORE / metric / self.axis).rglob("*.jsonl"))

    def by_axis(self) -> dict[str, Run]:
        """The run axis by axis, as `Results.by_axis` parts its rows."""
        parts = self.results.by_axis()
        return {axis: replace(self, results=part, axis=axis) for axis, part in parts.items()}


def open_run(path: Path) -> Run:
    """Read a run folder.

    Raises:
        UserError: it holds no run, or a file of it is damaged.
    """
    if not path.is_dir():
        raise UserError(f"{path} is no run folder: there is no such folder")
    rows = finished_rows(path)
    return Run(
        path,
        Results(rows),
        _mapping(path / MANIFEST, json.loads),
        _mapping(path / CONFIG, yaml.safe_load),
    )


def json_lines(path: Path) -> Lines:
    """The mappings of a JSON-lines file.

    Raises:
        UserError: a line is none; the message names it.
    """
    found: Lines = []
    for number, line in enumerate(path.read_text("utf-8", errors="replace").split("\n"), start=1):
        if not line:
            continue
        try:
            content = json.loads(line)
        except json.JSONDecodeError as error:
            raise UserError(f"{path}, line {number} is not JSON: {error}") from error
        if not isinstance(content, dict):
            raise UserError(f"{path}, line {number} is no mapping")
        found.append(content)
    return found


def _mapping(path: Path, parse: Callable[[str], Any]) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        content = parse(path.read_text("utf-8"))
    except (ValueError, yaml.YAMLError) as error:
        raise UserError(f"{path} is damaged: {' '.join(str(error).split())[:200]}") from error
    return content if isinstance(content, dict) else {}
