"""What the run depended on, so that it can be repeated, and every row that it recorded."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from countergen_edit.reports.blocks import Cell, Number, Section, Table
from countergen_edit.reports.run import Run
from countergen_edit.reports.sections.labels import edit_label

MOST = 1500
"""Rows that the page lists; a sweep has many thousands."""


def facts(run: Run) -> Section:
    """Versions, hashes, command and seed; and all rows."""
    lines: list[tuple[Cell, ...]] = [("run folder", run.name)]
    for key, value in run.manifest.items():
        if isinstance(value, Mapping):
            lines += [(f"{key}: {name}", str(text)) for name, text in value.items()]
        elif isinstance(value, list):
            lines.append((key, shlex.join(map(str, value))))
        else:
            lines.append((key.replace("_", " "), "" if value is None else str(value)))
    about = Table("run", "What the run depended on", ("fact", "value"), tuple(lines))
    config = tuple((key, text) for key, text in _flat(run.config))
    tables = [about]
    if config:
        tables.append(Table("settings", "Settings", ("setting", "value"), config, searchable=True))
    return Section("run", "The run", (*tables, _rows(run)))


def _flat(content: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for key, value in content.items():
        if isinstance(value, Mapping) and value:
            found += _flat(value, f"{prefix}{key}.")
        elif isinstance(value, list):
            found.append((f"{prefix}{key}", ", ".join(map(str, value))))
        else:
            found.append((f"{prefix}{key}", str(value)))
    return found


def _rows(run: Run) -> Table:
    rows = run.results.rows
    lines: list[tuple[Cell, ...]] = [
        (
            row.metric,
            row.dataset,
            " / ".join(g for g in (row.group_a, row.group_b) if g),
            edit_label(row.edit),
            row.split,
            Number.of(row, 4),
            str(row.n),
        )
        for row in rows[:MOST]
    ]
    note = "" if len(rows) <= MOST else f"The first {MOST} of {len(rows)}; results.jsonl has all."
    columns = ("metric", "data", "groups", "edit", "split", "value", "n")
    return Table("rows", "Every row of the run", columns, tuple(lines), note, searchable=True)
