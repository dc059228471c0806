"""What a run depended on, so that it can be repeated; its name and title; every row it recorded."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from countergen_edit.reports.blocks import Cell, Number, Section, Table
from countergen_edit.runs.ran import in_words

if TYPE_CHECKING:
    from countergen_edit.metrics.rows import Row
    from countergen_edit.reports.run import Run

MOST = 1500
"""Rows that the page lists; a search has many thousands."""
NOT_SHOWN = ("schema", "texts")
"""Keys of a manifest that only programs read."""


def title(run: Run) -> str:
    """What a report is called: its model, and who is compared in each task."""
    model = Path(str(run.manifest.get("model", run.name))).name
    about = []
    for task, part in run.by_task().items():
        first = next((r for r in part.results.rows if r.group_a and r.group_b), None)
        if first is not None:
            groups = f"{first.group_a} and {first.group_b}".replace("_", " ")
            if of_how_many := run.manifest.get("compared", {}).get(task):
                groups += f" ({of_how_many.partition(';')[0]})"
            about.append(f"{first.axis}, {groups}" if first.axis else groups)
    return f"{model}: {'; '.join(about)}" if about else model


def kind(run: Run) -> str:
    """What made it."""
    words = [str(word) for word in run.manifest.get("command", [])][1:2]
    return " ".join([*map(str.capitalize, words), *(["of a language model"] if words else [])])


def about(run: Run) -> list[str]:
    """What tells it from other runs, briefly."""
    versions = run.manifest.get("versions", {})
    lines = [f"run {run.name}", *filter(None, [in_words(run.manifest)])]
    if origin := run.manifest.get("model_origin"):
        lines.append(f"made of {origin['file']}: {origin['weights']}")
    if told := in_template(run.manifest):
        lines.append(told)
    if "seed" in run.manifest:
        lines.append(f"seed {run.manifest['seed']}")
    if "countergen-edit" in versions:
        lines.append(f"countergen-edit {versions['countergen-edit']}")
    return [*lines, f"{len(run.results.rows)} result rows"]


def in_template(manifest: Mapping[str, Any]) -> str:
    """Within what conversation the texts stand; empty where they stand as they are."""
    template = manifest.get("template")
    if not template:
        return ""
    return (
        "texts stand in the model's chat template, as the beginning of its reply to "
        f"“{template['instruction']}”"
    )


def provenance(run: Run) -> Section:
    """Versions, hashes, command and seed; and all rows."""
    lines: list[tuple[Cell, ...]] = [("run folder", run.name)]
    for key, value in run.manifest.items():
        if key in NOT_SHOWN:
            continue
        if isinstance(value, Mapping):
            lines += [(f"{key}: {name}", _told(fact)) for name, fact in value.items()]
        elif key == "command":
            lines.append((key, shlex.join(map(str, value))))
        else:
            lines.append((key.replace("_", " "), "" if value is None else _told(value)))
    tables = [Table("run", "What the run depended on", ("fact", "value"), tuple(lines))]
    if config := tuple(_flat(run.config)):
        tables.append(Table("settings", "Settings", ("setting", "value"), config, searchable=True))
    return Section("run", "The run", (*tables, _rows(run)))


def _told(fact: object) -> str:
    return "; ".join(map(str, fact)) if isinstance(fact, list) else str(fact)


def _flat(content: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    lines: list[tuple[str, str]] = []
    for key, value in content.items():
        if isinstance(value, Mapping) and value:
            lines += _flat(value, f"{prefix}{key}.")
        elif isinstance(value, list):
            lines.append((f"{prefix}{key}", ", ".join(map(str, value))))
        else:
            lines.append((f"{prefix}{key}", str(value)))
    return lines


def subject(row: Row) -> str:
    """The data of a row with its facets.

    >>> from countergen_edit.metrics.rows import Row
    >>> subject(Row("m", 0.0, dataset="jobs", facets={"lambda": 10.0}))
    'jobs, lambda 10'
    """
    facets = (f"{k} {v:g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.facets.items())
    return ", ".join(filter(None, (row.dataset, *facets)))


def groups(row: Row) -> str:
    """The groups of a row."""
    return " / ".join(group for group in (row.group_a, row.group_b) if group)


def _rows(run: Run) -> Table:
    rows = run.results.rows
    lines: list[tuple[Cell, ...]] = [
        (
            row.metric,
            subject(row),
            groups(row),
            run.results.label(row.edit),
            row.split,
            Number.of(row, 4),
            str(row.n),
        )
        for row in rows[:MOST]
    ]
    note = "" if len(rows) <= MOST else f"The first {MOST} of {len(rows)}; results.jsonl has all."
    columns = ("metric", "data", "groups", "edit", "split", "value", "n")
    return Table("rows", "Every row of the run", columns, tuple(lines), note, searchable=True)
