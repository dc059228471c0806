"""Logs of Inspect (`inspect_ai`), as `.eval` (a zip of JSON) or `.json`, one task each.

Comes in: a log, or a folder of logs of several tasks. Goes out: a `Log`. An item is known by its
input with its choices, or its target where it has none: the ids that Inspect gives are places in a
data set, which shuffling changes. Epochs are an item several times. Refused: a log whose status is
not `success`, one without samples or with fewer than it tells of, one task twice, several models.

Scores are numbers as Inspect makes them of answers: C, yes and true are 1, P is 0.5, I, N, no and
false are 0. A score of several values is as many metrics.
"""

from __future__ import annotations

import copy
import io
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from countergen_edit.core.errors import UserError
from countergen_edit.core.reading import from_json, json_mapping
from countergen_edit.core.typed import require
from countergen_edit.core.writing import digest
from countergen_edit.metrics.items import Item
from countergen_edit.runs.logs.log import Log, Reader, cluster_in, named, part

BEGINS = re.compile(rb'\s*\{\s*"version"\s*:\s*\d+\s*,\s*"status"\s*:')
"""How a log begins that is JSON."""
ARCHIVE = ".eval"
HEADER, SAMPLES = "header.json", "samples/"
"""What an archive holds: the log without its samples, and these, a file each."""
LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
WORDS = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
DONE = "success"


@dataclass(frozen=True)
class _Scorer:
    name: str
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class _Eval:
    task: str
    model: str
    task_version: int | str = 0
    model_args: dict[str, Any] = field(default_factory=dict)
    packages: dict[str, str] = field(default_factory=dict)
    scorers: list[_Scorer] | None = None


@dataclass(frozen=True)
class _Counts:
    total_samples: int


@dataclass(frozen=True)
class _Error:
    message: str = ""


@dataclass(frozen=True)
class _Header:
    """A log but for its samples."""

    status: str
    eval: _Eval
    results: _Counts | None = None
    error: _Error | None = None


@dataclass(frozen=True)
class _Score:
    value: Any = None


@dataclass(frozen=True)
class _Sample:
    input: str | list[dict[str, Any]]
    choices: list[str] | None = None
    target: str | list[str] = ""
    scores: dict[str, _Score] | None = None
    metadata: dict[str, Any] = field(default_factory=dict)


class InspectAi(Reader):
    """Reads what `inspect eval` wrote."""

    def knows(self, path: Path) -> bool:
        """A log, or a folder that holds one."""
        return _is_log(path) if path.is_file() else bool(_logs_in(path))

    def read(self, path: Path, cluster: str | None) -> Log:
        """Every task of it."""
        files = [path] if path.is_file() else _logs_in(path)
        whole: dict[str, Path] = {}
        models: dict[str, None] = {}
        items: list[Item] = []
        versions: dict[str, dict[str, str]] = {}
        unread: dict[str, None] = {}
        for file in files:
            header, samples = _opened(file)
            task = header.eval.task
            if task in whole:
                both = f"{whole[task].name}, {file.name}"
                raise UserError(f"{path} holds {task} twice ({both}): name one of the files")
            whole[task] = file
            models[str(header.eval.model_args.get("model_path") or header.eval.model)] = None
            versions[task] = {"version": str(header.eval.task_version)} | {
                f"scorer {scorer.name}": str(scorer.options) for scorer in header.eval.scorers or ()
            }
            scores = [_scores(sample) for _, sample in samples]
            for name in dict.fromkeys(name for each in scores for name in each):
                if any(name in each and each[name] is None for each in scores):
                    unread[f"{task}, {name}"] = None
                    continue
                for (where, sample), each in zip(samples, scores, strict=True):
                    own, value = cluster_in(sample.metadata, cluster, where), each.get(name)
                    value = float("nan") if value is None else value
                    items.append(Item(task, name, _key(sample), value, own))
        if len(models) > 1:
            raise UserError(f"{path} holds logs of several models: {', '.join(models)}")
        tool = f"inspect_ai {header.eval.packages.get('inspect_ai', '')}".strip()
        return Log(tool, next(iter(models)), tuple(items), versions, {}, tuple(unread))


def _is_log(path: Path) -> bool:
    if path.suffix == ARCHIVE:
        return True
    if path.suffix != ".json":
        return False
    with path.open("rb") as file:
        return bool(BEGINS.match(file.read(200)))


def _logs_in(path: Path) -> list[Path]:
    return sorted(file for file in path.glob("*") if file.is_file() and _is_log(file))


def _opened(path: Path) -> tuple[_Header, list[tuple[str, _Sample]]]:
    """A log that was finished, and its samples with their places."""
    if path.suffix == ARCHIVE:
        try:
            with zipfile.ZipFile(path) as archive:
                return _checked(path, _in_archive(path, archive, HEADER), _members(path, archive))
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError) as error:
            raise UserError(f"{path} is no whole archive, it was cut off: {error}") from None
    content = json_mapping(path)
    samples = content.get("samples")
    require(list[Any] | None, samples, f"{path}: samples")
    numbered = ((f"{path}, sample {n}: ", each) for n, each in enumerate(samples or (), start=1))
    return _checked(path, content, numbered)


def _checked(
    path: Path, content: Any, samples: Iterator[tuple[str, Any]]
) -> tuple[_Header, list[tuple[str, _Sample]]]:
    """The header first: what was not finished is refused by its status, whatever it lacks."""
    header = part(_Header, content, f"{path}: ")
    if header.status != DONE:
        message = " ".join(header.error.message.split()) if header.error else ""
        raise UserError(
            f"{path} has status {header.status!r}{f' ({message:.120})' if message else ''}, not "
            f"{DONE!r}: finish it with inspect eval-retry"
        )
    found = [(where, part(_Sample, each, where)) for where, each in samples]
    if not found:
        raise UserError(f"{path} has no samples: run inspect with --log-samples")
    total = header.results.total_samples if header.results else len(found)
    if len(found) != total:
        raise UserError(
            f"{path} holds {len(found)} of the {total} samples that it tells of: it was cut off"
        )
    return header, found


def _members(path: Path, archive: zipfile.ZipFile) -> Iterator[tuple[str, Any]]:
    for name in archive.namelist():
        if name.startswith(SAMPLES):
            yield f"{path}, {name}: ", _in_archive(path, archive, name)


def _in_archive(path: Path, archive: zipfile.ZipFile, name: str) -> Any:
    try:
        info = archive.getinfo(name)
    except KeyError:
        raise UserError(f"{path} has no {name}: its run was not finished") from None
    where = f"{path}, {name}: "
    try:
        content = archive.read(info)
    except NotImplementedError:  # Zstandard, which Inspect writes, from Python 3.14 on
        content = _zstandard(path, archive, info)
    try:
        return from_json(content.decode(), where)
    except UnicodeDecodeError as error:
        raise UserError(f"{where}not UTF-8 text ({error.reason})") from None


def _zstandard(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    try:
        import zstandard
    except ImportError:
        raise UserError(
            f"{path} is compressed with Zstandard: pip install 'countergen-edit[inspect]', or "
            "write it as JSON: inspect log convert --to json"
        ) from None
    stored = copy.copy(info)  # its bytes as they are, whose checksum is another
    stored.compress_type, stored.file_size = zipfile.ZIP_STORED, info.compress_size
    stored.CRC = None  # type: ignore[assignment]
    raw = archive.read(stored)
    try:
        reader = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(raw))
        content: bytes = reader.read()
    except zstandard.ZstdError as error:
        raise zipfile.BadZipFile(str(error)) from None
    if zlib.crc32(content) != info.CRC:
        raise zipfile.BadZipFile(f"bad checksum of {info.filename}")
    return content


def _key(sample: _Sample) -> str:
    asked: Any = sample.input
    if not isinstance(asked, str):  # the messages but for ids, which are new in every run
        asked = [[message.get("role"), message.get("content")] for message in asked]
    return digest([asked, sorted(sample.choices) if sample.choices else sample.target])


def _scores(sample: _Sample) -> dict[str, float | None]:
    """By metric; NaN where there is no score, None where it is no number."""
    found: dict[str, float | None] = {}
    for scorer, score in (sample.scores or {}).items():
        values = score.value if isinstance(score.value, Mapping) else {"": score.value}
        found |= {named([scorer, key]): _number(value) for key, value in values.items()}
    return found


def _number(value: Any) -> float | None:
    """The number that a score is.

    >>> _number("C"), _number(True), _number("0.25"), _number("well")
    (1.0, 1.0, 0.25, None)
    """
    if value is None:
        return float("nan")
    if isinstance(value, str):
        known = LETTERS.get(value, WORDS.get(value.lower()))
        if known is not None:
            return known
        try:
            return float(value)
        except ValueError:
            return None
    return float(value) if isinstance(value, int | float) else None
