"""The runs below a folder, read from their files without loading any model library."""

from __future__ import annotations

import html
import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from countergen_edit.core.errors import UserError
from countergen_edit.core.reading import json_mapping
from countergen_edit.core.writing import LOCK, hold
from countergen_edit.decisions import JUDGEMENT, RECOMMENDED
from countergen_edit.metrics.rows import SCHEMA
from countergen_edit.reports.blocks import Cell, Link, Section, Table
from countergen_edit.runs.files import MANIFEST, PROGRESS, QUICK, RESULTS

PAGE, INDEX = "report.html", "index.html"
DEEPEST = 4
"""Levels of folders below which no run is looked for."""
HEAD = 8192
"""Bytes of a page that contain its head."""
FIRST_SENTENCE = re.compile(r'<meta name="description" content="([^"]*)">')
GENERATOR = '<meta name="generator" content="countergen-edit">'


@dataclass
class Listed:
    """A run in the list."""

    path: Path
    when: str
    command: str = ""
    model: str = ""
    tasks: str = ""
    verdict: str = ""
    """The judgement of its edits; of an unedited model, whether it is biased."""
    edit: str = ""
    """The recommended edit."""
    says: str = ""
    """The first sentence of its page."""
    wrong: str = ""
    """Why it cannot be shown; empty for a whole run."""


def list_runs(folder: Path) -> list[Listed]:
    """Every run below a folder, the newest first, then what is broken or not finished.

    Raises
    ------
    UserError
        The folder does not exist, or holds no run.
    """
    if not folder.is_dir():
        what = "is a file, no folder" if folder.exists() else "is not there"
        raise UserError(f"{folder} {what}: name the folder that holds your runs")
    found = [listed(path) for path in _run_folders(folder)]
    if not found:
        raise UserError(
            f"{folder} holds no run: a run is a folder with {RESULTS}, which countergen-edit audit "
            "makes below runs/ unless run_dir says where"
        )
    found.sort(key=lambda run: run.when, reverse=True)
    return sorted(found, key=lambda run: bool(run.wrong))


def _run_folders(folder: Path) -> Iterator[Path]:
    for place, folders, files in os.walk(folder):
        path = Path(place)
        if RESULTS in files or {MANIFEST, PROGRESS} <= {*files}:
            yield path
            folders.clear()  # the run of an original is part of its run
        elif len(path.relative_to(folder).parts) >= DEEPEST:
            folders.clear()
        else:
            folders[:] = sorted(name for name in folders if not name.startswith("."))


def listed(path: Path) -> Listed:
    """A run folder in the list; errors go into `wrong`."""
    results = path / RESULTS
    newest = results if results.is_file() else path
    run = Listed(path, datetime.fromtimestamp(newest.stat().st_mtime).isoformat(" ", "minutes"))
    try:
        run.wrong = _read(run)
    except (UserError, OSError, ValueError, AttributeError) as error:
        run.wrong = " ".join(f"broken: {error}".split())
    return run


def _read(run: Listed) -> str:
    """Fill in what the files of a run say; why the run cannot be shown."""
    path, results, page = run.path, run.path / RESULTS, run.path / PAGE
    manifest = json_mapping(path / MANIFEST) if (path / MANIFEST).is_file() else {}
    run.command = next((str(word) for word in manifest.get("command", [])[1:2]), "")
    run.model = Path(str(manifest.get("model", ""))).name
    run.tasks = ", ".join(manifest.get("tasks", {}))
    if manifest.get("schema", SCHEMA) != SCHEMA:
        version = manifest.get("versions", {}).get("countergen-edit", "another version")
        return f"made by countergen-edit {version}, whose rows have another form"
    end = _recorded(path)
    if not results.is_file() or results.stat().st_size < end:
        return f"broken: {RESULTS} is shorter than its progress record"
    if _is_open(path):
        return "running: another process has it open"
    if not end:
        return "unfinished: no step of it was finished"
    if not page.is_file():
        return f"unfinished, or without a page: countergen-edit report {path} makes one"
    if match := FIRST_SENTENCE.search(_head(page)):
        run.says = html.unescape(match[1])
    _judge(run, [*_judgements(results, end)])
    return ""


def _recorded(path: Path) -> int:
    """The end of the last finished step in the results; their size without a record."""
    progress = path / PROGRESS
    if not progress.is_file():
        return (path / RESULTS).stat().st_size
    whole = progress.read_bytes().rpartition(b"\n")[0].splitlines()
    return max((int(json.loads(line)["end"]) for line in whole), default=0)


def _is_open(path: Path) -> bool:
    """Whether a process writes to the run."""
    if not (path / LOCK).is_file() or not os.access(path / LOCK, os.W_OK):
        return False
    try:
        hold(path, path / LOCK, wait=False).release()
    except UserError:
        return True
    return False


def _judgements(results: Path, end: int) -> Iterator[dict[str, Any]]:
    for line in results.read_bytes()[:end].splitlines():
        if f'"{JUDGEMENT}"'.encode() in line:
            row = json.loads(line)
            if row.get("metric") == JUDGEMENT:
                yield row


def _judge(run: Listed, rows: Sequence[dict[str, Any]]) -> None:
    words = dict.fromkeys(str(row["detail"]["word"]) for row in rows)
    named = [f"{row['eraser']}-{row['rank']}" for row in rows if row["detail"]["named"]]
    run.verdict = RECOMMENDED if RECOMMENDED in words else ", ".join(words)
    run.edit = ", ".join(dict.fromkeys(named))
    if not rows:  # the first words of an unedited model's page, such as "Biased:"
        first, colon, _ = run.says.partition(": ")
        run.verdict = first.lower() if colon and len(first.split()) <= 3 else ""
    elif run.says.startswith(QUICK):
        run.verdict = f"{QUICK.lower()}: {run.verdict}"


def _head(page: Path) -> str:
    with page.open("rb") as file:
        return file.read(HEAD).decode("utf-8", "replace")


def section(runs: Sequence[Listed], folder: Path, beside: Path) -> Section:
    """The list as a section of a page.

    Parameters
    ----------
    runs : as `list_runs` gives them
    folder : that contains them
    beside : the folder of the page, for its links
    """

    def link(run: Listed) -> Link:
        address = Path(os.path.relpath(run.path / PAGE, beside)).as_posix()
        return Link(_name(run, folder), quote(address))

    good = [run for run in runs if not run.wrong]
    lines: list[tuple[Cell, ...]] = [
        (
            link(run),
            run.command,
            run.model,
            run.tasks,
            run.verdict or "–",
            run.edit or "–",
            run.says,
            run.when,
        )
        for run in good
    ]
    columns = ("run", "command", "model", "axis", "verdict", "edit", "finding", "when")
    table = Table("runs", "Runs, the newest first", columns, tuple(lines), searchable=True)
    return Section("runs", "Runs", (*([table] if good else []), *_broken(runs, folder)))


def in_brief(runs: Sequence[Listed], folder: Path) -> list[Table]:
    """The list for a terminal."""
    lines = tuple(
        (
            _name(run, folder),
            run.command,
            run.model,
            f"{run.verdict or '–'}{f': {run.edit}' if run.edit else ''}",
            run.when,
        )
        for run in runs
        if not run.wrong
    )
    columns = ("run", "command", "model", "verdict", "when")
    tables = [Table("runs", "Runs, the newest first", columns, lines)] if lines else []
    return [*tables, *_broken(runs, folder)]


def counted(runs: Sequence[Listed]) -> str:
    """The number of runs."""
    bad = sum(bool(run.wrong) for run in runs)
    good = len(runs) - bad
    more = f", and {bad} not finished or broken" if bad else ""
    return f"{good} run{'' if good == 1 else 's'}{more}"


def _broken(runs: Sequence[Listed], folder: Path) -> list[Table]:
    bad = [run for run in runs if run.wrong]
    lines = tuple((_name(run, folder), run.command, run.model, run.wrong) for run in bad)
    columns = ("run", "command", "model", "reason")
    return [Table("not_finished", "Not finished, or broken", columns, lines)] if bad else []


def _name(run: Listed, folder: Path) -> str:
    inner = run.path.relative_to(folder).as_posix()
    return inner if inner != "." else run.path.resolve().name


def check_ours(path: Path) -> None:
    """Refuse to replace a page of another program.

    Raises
    ------
    UserError
        There is one.
    """
    if path.is_file() and GENERATOR not in _head(path):
        raise UserError(f"{path} is not of countergen-edit, and stays: rename it")
