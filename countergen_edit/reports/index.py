"""The runs below a folder: what made each, what it found, and which are broken or not finished.

Comes in: a folder. Goes out: a line for each run, of what its files say as they are, so that many
runs are listed within a second. Refused: a folder that is not there or holds no run.
"""

from __future__ import annotations

import html
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from countergen_edit.core.errors import UserError
from countergen_edit.core.reading import json_mapping
from countergen_edit.core.writing import LOCK, hold
from countergen_edit.decisions.judgement import JUDGEMENT, RECOMMENDED
from countergen_edit.metrics.rows import SCHEMA
from countergen_edit.reports.blocks import Cell, Link, Section, Table
from countergen_edit.runs.folder import MANIFEST, PROGRESS, QUICK, RESULTS

PAGE, INDEX = "report.html", "index.html"
FINISHED = "Runs, the newest first"
DEEPEST = 4
"""Levels of folders below which no run is looked for."""
LONGEST = 3
"""Words of a verdict."""
HEAD = 8192
"""Bytes at the beginning of a page that hold its head."""
SAID = re.compile(r'<meta name="description" content="([^"]*)">')
OURS = '<meta name="generator" content="countergen-edit">'
"""What tells a page of ours from another that has its name."""


@dataclass(frozen=True)
class Listed:
    """A run, as it is told among others."""

    path: Path
    made_by: str = ""
    """The command."""
    model: str = ""
    tasks: str = ""
    verdict: str = ""
    """What the edits that it tested come to; of an unedited model, what that is."""
    edit: str = ""
    """The one that is named."""
    says: str = ""
    """The first sentence of its page."""
    when: str = ""
    has_page: bool = False
    wrong: str = ""
    """Why there is nothing to show; empty of a whole run."""


def list_runs(folder: Path) -> list[Listed]:
    """Every run below a folder, the newest first, then what is broken or not finished.

    Raises:
        UserError: the folder is not there, or holds no run.
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
            folders.clear()  # what lies within, such as the run of its original, is a part of it
        elif len(path.relative_to(folder).parts) >= DEEPEST:
            folders.clear()
        else:
            folders[:] = sorted(name for name in folders if not name.startswith("."))


def listed(path: Path) -> Listed:
    """What a run folder tells of itself; what is wrong with it is told and not raised."""
    results, page = path / RESULTS, path / PAGE
    newest = results if results.is_file() else path
    when = datetime.fromtimestamp(newest.stat().st_mtime).isoformat(" ", "minutes")
    bare = Listed(path, when=when, has_page=page.is_file())
    try:
        manifest = json_mapping(path / MANIFEST) if (path / MANIFEST).is_file() else {}
        about = _about(bare, manifest)
        end = _recorded(path)
        if manifest.get("schema", SCHEMA) != SCHEMA:
            own = manifest.get("versions", {}).get("countergen-edit", "another version")
            return _wrong(about, f"made by countergen-edit {own}, whose rows have another form")
        if not results.is_file() or results.stat().st_size < end:
            return _wrong(about, f"broken: {RESULTS} is shorter than its progress record")
        if _is_open(path):
            return _wrong(about, "running: another process has it open")
        if not end:
            return _wrong(about, "unfinished: no step of it was finished")
        if not about.has_page:
            return _wrong(
                about,
                "unfinished: the same command continues it; or it has no page yet, which "
                f"countergen-edit report {path} makes",
            )
        return _with_verdict(about, _judged(results, end))
    except (UserError, OSError, ValueError, AttributeError) as error:
        return _wrong(bare, f"broken: {error}")


def _wrong(run: Listed, why: str) -> Listed:
    return Listed(**vars(run) | {"wrong": " ".join(why.split())})


def _about(bare: Listed, manifest: Mapping[str, Any]) -> Listed:
    command = [str(word) for word in manifest.get("command", [])]
    told = {
        "made_by": next(iter(command[1:2]), ""),
        "model": Path(str(manifest.get("model", ""))).name,
        "tasks": ", ".join(manifest.get("tasks", {})),
        "says": _said(bare.path / PAGE) if bare.has_page else "",
    }
    return Listed(**vars(bare) | told)


def _recorded(path: Path) -> int:
    """Where the last finished step ends in the results; their size where no record is kept."""
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


def _judged(results: Path, end: int) -> list[dict[str, Any]]:
    """The rows that say whether an edit is one to keep."""
    wanted = f'"{JUDGEMENT}"'.encode()
    lines = results.read_bytes()[:end].splitlines()
    rows = [json.loads(line) for line in lines if wanted in line]
    return [row for row in rows if row.get("metric") == JUDGEMENT]


def _with_verdict(run: Listed, rows: Sequence[Mapping[str, Any]]) -> Listed:
    words = dict.fromkeys(str(row["detail"]["word"]) for row in rows)
    named = [f"{row['eraser']}-{row['rank']}" for row in rows if row["detail"]["named"]]
    verdict = RECOMMENDED if RECOMMENDED in words else ", ".join(words)
    if not rows:  # what is said of an unedited model begins with its verdict, as far as it has one
        first, colon, _ = run.says.partition(": ")
        verdict = first.lower() if colon and len(first.split()) <= LONGEST else ""
    if rows and run.says.startswith(QUICK):
        verdict = f"{QUICK.lower()}: {verdict}"
    return Listed(**vars(run) | {"verdict": verdict, "edit": ", ".join(dict.fromkeys(named))})


def _said(page: Path) -> str:
    """What a page says first, which its head repeats for whoever lists pages."""
    with page.open("rb") as file:
        found = SAID.search(file.read(HEAD).decode("utf-8", "replace"))
    return html.unescape(found[1]) if found else ""


def section(runs: Sequence[Listed], folder: Path, beside: Path) -> Section:
    """The index as a section of a page.

    Args:
        runs: as `list_runs` gives them.
        folder: where they lie.
        beside: the folder of the page, from which it leads to theirs.
    """
    good, bad = _parted(runs)
    lines: list[tuple[Cell, ...]] = [
        (
            Link(_name(run, folder), _address(run, beside)),
            run.made_by,
            run.model,
            run.tasks,
            run.verdict or "–",
            run.edit or "–",
            run.says,
            run.when,
        )
        for run in good
    ]
    columns = ("run", "made by", "model", "axis", "verdict", "edit", "what was found", "when")
    note = "A run without a verdict tested no edit on a bias, and shows no single one."
    tables = [Table("runs", FINISHED, columns, tuple(lines), note, searchable=True)] if good else []
    return Section("runs", "Runs", (*tables, *_wrongs(bad, folder)))


def in_brief(runs: Sequence[Listed], folder: Path) -> list[Table]:
    """The index as a terminal has room for it."""
    good, bad = _parted(runs)
    lines: list[tuple[Cell, ...]] = [
        (
            _name(run, folder),
            run.made_by,
            run.model,
            f"{run.verdict or '–'}{f': {run.edit}' if run.edit else ''}",
            run.when,
        )
        for run in good
    ]
    columns = ("run", "made by", "model", "verdict", "when")
    tables = [Table("runs", FINISHED, columns, tuple(lines))] if good else []
    return [*tables, *_wrongs(bad, folder)]


def told_of(runs: Sequence[Listed]) -> str:
    """How many there are."""
    good, bad = _parted(runs)
    more = f", and {len(bad)} not finished or broken" if bad else ""
    return f"{len(good)} run{'' if len(good) == 1 else 's'}{more}"


def _parted(runs: Sequence[Listed]) -> tuple[list[Listed], list[Listed]]:
    return [run for run in runs if not run.wrong], [run for run in runs if run.wrong]


def _wrongs(bad: Sequence[Listed], folder: Path) -> list[Table]:
    lines = tuple((_name(run, folder), run.made_by, run.model, run.wrong) for run in bad)
    columns = ("run", "made by", "model", "what is wrong")
    return [Table("not_finished", "Not finished, or broken", columns, lines)] if bad else []


def _name(run: Listed, folder: Path) -> str:
    inner = run.path.relative_to(folder).as_posix()
    return inner if inner != "." else run.path.resolve().name


def _address(run: Listed, beside: Path) -> str:
    return quote(Path(os.path.relpath(run.path / PAGE, beside)).as_posix())


def check_ours(path: Path) -> None:
    """Refuse to replace a page that somebody else wrote.

    Raises:
        UserError: one lies there.
    """
    if path.is_file():
        with path.open("rb") as file:
            if OURS.encode() not in file.read(HEAD):
                raise UserError(
                    f"{path} is not of countergen-edit, and stays: name another by page=FILE"
                )
