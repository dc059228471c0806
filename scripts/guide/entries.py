"""Entries of the reproduction guide: one per table and figure of the papers.

They are read from `docs/reproduction/*.yaml`, one file per paper, into `Paper` and `Entry`.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import yaml

from countergen_edit.core.errors import UserError, unknown
from countergen_edit.metrics.rows import COLUMNS, Row

DOCS = Path(__file__).parents[2] / "docs"
ENTRIES = DOCS / "reproduction"
MODELS = {"testbed": "testbed", "real": "real/SmolLM2-135M-Instruct-Q4_1"}
"""The columns of the guide, and the model of each; `make real` makes the second."""


@dataclass(frozen=True)
class Shown:
    """A line of an entry: a published figure and the rows of a run to compare."""

    what: str
    rows: Mapping[str, Any]
    """Columns of `results.jsonl`, or facets, with the value that each has in ours; of test data,
    unless `split` says otherwise."""
    published: str = ""
    by: Sequence[str] = ()
    """The columns or facets that tell several rows apart."""
    field: str = ""
    """What of a row's detail is shown; empty shows the row's value and its interval."""
    at: int | str | None = None
    """Where in each item of that field the figure stands."""
    times: float = 1.0
    """What ours is multiplied by, where the paper prints percent or hundredths."""

    def of(self, rows: Sequence[Row]) -> list[Row]:
        """The rows of the line, with the details that it needs."""
        found = [
            row
            for row in rows
            if all(self._has(row, *item) for item in self.rows.items())
            and ("split" in self.rows or row.split in ("", "test"))
        ]
        return [
            replace(row, detail={k: v for k, v in row.detail.items() if k == self.field})
            for row in found
        ]

    @staticmethod
    def _has(row: Row, key: str, value: Any) -> bool:
        found = getattr(row, key) if key in COLUMNS else row.facets.get(key)
        return bool((list(found) if isinstance(found, tuple) else found) == value)


@dataclass(frozen=True)
class Entry:
    """A table or figure."""

    name: str
    item: str
    """As the paper calls it."""
    shows: str
    command: str = ""
    """What remakes it, as it is typed behind `countergen-edit`; empty where nothing is measured."""
    extra: str = ""
    """The extra that the command needs."""
    short: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Column → the settings that keep its run short. A column that is not here is not run."""
    figures: Sequence[Shown] = ()
    apart: str = ""
    """What cannot be compared, and why."""

    def words(self, column: str) -> list[str]:
        """The command of a column's run, with its model, as words."""
        short = [str(word) for word in self.short[column]]
        model = [] if any(w.startswith("model=") for w in short) else [f"model={MODELS[column]}"]
        return [*shlex.split(self.command), *model, *short]


@dataclass(frozen=True)
class Paper:
    """The entries of a paper, in its order."""

    title: str
    text: str
    """Name of the file that holds the paper's text, where its figures can be looked up."""
    entries: Mapping[str, Entry]


def read_papers(folder: Path = ENTRIES) -> list[Paper]:
    """Every paper of a folder.

    Raises:
        UserError: a file or an entry is invalid, or two entries have one name.
    """
    papers = [_paper(path) for path in sorted(folder.glob("*.yaml"))]
    names = [name for paper in papers for name in paper.entries]
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"two entries are called {name!r}: name one of them otherwise")
    return papers


def _paper(path: Path) -> Paper:
    content = yaml.safe_load(path.read_text("utf-8"))
    entries = {name: entry_of(name, about) for name, about in content["entries"].items()}
    return Paper(content["title"], path.stem, entries)


def entry_of(name: str, content: Mapping[str, Any]) -> Entry:
    """An entry from its YAML.

    Raises:
        UserError: a key or column is unknown, or no figure of the run is shown.
    """
    known = {f.name for f in fields(Entry)} - {"name"}
    for key in content:
        if key not in known:
            raise unknown(f"key of the entry {name}", key, sorted(known))
    keys = [f.name for f in fields(Shown)]
    figures = []
    for figure in content.get("figures", ()):
        for key in figure:
            if key not in keys:
                raise unknown(f"key of a figure of {name}", key, keys)
        figures.append(Shown(**figure))
    entry = Entry(**{**content, "name": name, "figures": tuple(figures)})
    for column in entry.short:
        if column not in MODELS:
            raise unknown(f"column of the entry {name}", column, MODELS)
    if not entry.command and not entry.apart:
        raise UserError(f"the entry {name} has no command: say under `apart` why there is none")
    if entry.short and not entry.figures:
        raise UserError(f"the entry {name} is run but shows nothing: name its rows under `figures`")
    return entry
