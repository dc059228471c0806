"""Read text, JSON, JSON-lines, YAML and CSV files; a `UserError` names file and line."""

from __future__ import annotations

import csv
import difflib
import hashlib
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from countergen_edit.core.characters import require_encodable
from countergen_edit.core.errors import UserError

Row = tuple[str, dict[str, Any]]
"""The place of a record, as the start of an error message, and its content."""
SHIPPED: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""Loader of shipped YAML: ten times as fast where libyaml is present; crashes on deep nesting."""


def text_of(path: Path | str) -> str:
    """The content of a UTF-8 text file; `UserError` if it is missing or holds something else."""
    return _text(_bytes_of(path), path)


def text_hash(path: Path | str) -> str:
    """SHA-256 of a text file with line ends as \\n."""
    return hashlib.sha256(_bytes_of(path).replace(b"\r\n", b"\n")).hexdigest()


def from_json(text: str, where: str) -> Any:
    """Parse JSON; `UserError` if the text is none, or holds half of a character."""
    try:
        content = json.loads(text)
    except RecursionError:
        raise UserError(f"{where}nested too deeply") from None
    except ValueError as error:
        raise UserError(f"{where}not JSON ({_short(error)})") from None
    if "\\u" in text:
        require_encodable(content, where)
    return content


def json_mapping(path: Path | str) -> dict[str, Any]:
    """The one JSON object of a file; `UserError` for anything else."""
    return _mapping(from_json(text_of(path), f"{path} is damaged: "), path)


def json_lines(path: Path | str) -> Iterator[Row]:
    """The objects of a JSON-lines file; empty lines are skipped, others raise `UserError`."""
    yield from json_records(_bytes_of(path), path)


def json_records(content: bytes, path: Path | str) -> Iterator[Row]:
    """The objects of the bytes of a JSON-lines file, `path`."""
    # Not str.splitlines: a text within an object may hold any other line break of Unicode.
    for number, line in enumerate(_text(content, path).split("\n"), start=1):
        if line.strip():
            where = f"{path}, line {number}: "
            yield where, _mapping(from_json(line, where), where)


def shipped_yaml(path: Path) -> Any:
    """The content of a YAML file of this package; for users' files see `yaml_mapping`."""
    return yaml.load(path.read_text("utf-8"), Loader=SHIPPED)


def yaml_mapping(path: Path | str) -> dict[str, Any]:
    """The one mapping of a YAML file; `UserError` for anything else."""
    text = text_of(path)
    try:
        content = yaml.safe_load(text)
    except RecursionError:
        raise UserError(f"{path}: nested too deeply") from None
    except (yaml.YAMLError, ValueError) as error:
        raise UserError(f"{path} is not YAML: {_short(error)}") from None
    require_encodable(content, f"{path}: ")
    return _mapping(content, path)


def csv_table(path: Path | str, delimiter: str = ",") -> tuple[Sequence[str], list[Row]]:
    """Columns and rows of a CSV file with a header."""
    if len(delimiter) != 1 or delimiter in '\r\n"':
        raise UserError(f"delimiter={delimiter!r}: write one character, such as ';'")
    reader = csv.DictReader(io.StringIO(text_of(path), newline=""), delimiter=delimiter)
    rows = []
    try:
        columns = [column for column in reader.fieldnames or () if column]
        for row in reader:
            where = f"{path}, line {reader.line_num}: "
            if None in row:
                raise UserError(f"{where}more cells than the {len(columns)} columns of the header")
            rows.append((where, {column: row[column] for column in columns}))
    except csv.Error as error:
        raise UserError(f"{path}, line {reader.line_num + 1}: not CSV ({error})") from None
    return columns, rows


def _bytes_of(path: Path | str) -> bytes:
    file = Path(path).expanduser()
    try:
        return file.read_bytes()
    except FileNotFoundError:
        raise UserError(f"no file {str(path)!r}{nearest_to(file)}") from None
    except (OSError, ValueError) as error:  # ValueError: a path with a null byte
        reason = getattr(error, "strerror", None) or str(error)
        raise UserError(f"cannot read {str(path)!r}: {reason}") from None


def _text(content: bytes, path: Path | str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise UserError(
            f"{path}, line {line}: not UTF-8 text ({error.reason} at byte {error.start})"
        ) from None


def _mapping(content: Any, where: Path | str) -> dict[str, Any]:
    if not isinstance(content, Mapping):
        place = str(where).rstrip(": ")
        raise UserError(f"{place}: a mapping of names to values is needed, not {content!r:.60}")
    return {str(key): value for key, value in content.items()}


def nearest_to(path: Path | str) -> str:
    """The end of a "not found" message: the nearest existing name, if any is near."""
    file = Path(path).expanduser()
    try:
        names = [path.name for path in file.parent.iterdir()]
    except OSError:
        return ""
    near = difflib.get_close_matches(file.name, set(names) - {file.name}, n=1)
    return f"; nearest is {str(file.parent / near[0])!r}" if near else ""


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
