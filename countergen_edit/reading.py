"""Files of others, read whole: what is malformed becomes one line with its place.

Comes in: the path of a text, JSON, JSON-lines, YAML or CSV file. Goes out: plain values. Refused,
as `UserError` with file and line: a file that is absent, a folder, not UTF-8, not of its format,
nested too deeply, with a number too long to be one or half a character (a lone surrogate).
"""

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

from countergen_edit.errors import UserError

Row = tuple[str, dict[str, Any]]
"""Where a record stands, to begin a message with, and what it holds."""
SHIPPED: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""Reads YAML of ours, ten times as fast where it was built; deep nesting would crash it."""


def text_of(path: Path | str) -> str:
    """A text file.

    Raises:
        UserError: it is absent, cannot be read, or is not UTF-8.
    """
    return _text(_bytes_of(path), path)


def text_hash(path: Path | str) -> str:
    """SHA-256 of a text file, its line ends written as \\n: the same however it was copied.

    Raises:
        UserError: it is absent or cannot be read.
    """
    return hashlib.sha256(_bytes_of(path).replace(b"\r\n", b"\n")).hexdigest()


def from_json(text: str, where: str) -> Any:
    """What a JSON text says.

    Args:
        text: the text.
        where: its place, to begin a message with.

    Raises:
        UserError: it is not JSON, or holds what no file can be written with.
    """
    try:
        content = json.loads(text)
        if "\\u" in text:  # the only way in which UTF-8 can hold half a character
            json.dumps(content, ensure_ascii=False).encode()
    except RecursionError:
        raise UserError(f"{where}nested too deeply") from None
    except UnicodeEncodeError as error:
        raise UserError(
            f"{where}holds half a character (lone surrogate {error.object[error.start]!a})"
        ) from None
    except ValueError as error:
        raise UserError(f"{where}not JSON ({_short(error)})") from None
    return content


def json_mapping(path: Path | str) -> dict[str, Any]:
    """A file that holds one JSON object.

    Raises:
        UserError: it does not.
    """
    return _mapping(from_json(text_of(path), f"{path} is damaged: "), path)


def json_lines(path: Path | str) -> Iterator[Row]:
    """The objects of a file that holds one a line; empty lines are passed over.

    Raises:
        UserError: a line holds something else.
    """
    yield from json_records(_bytes_of(path), path)


def json_records(content: bytes, path: Path | str) -> Iterator[Row]:
    """The objects of what was read of such a file.

    Args:
        content: its bytes, or those of its first lines.
        path: the file, for messages.

    Raises:
        UserError: a line holds something else.
    """
    # Not str.splitlines: a text within an object may hold any other line break of Unicode.
    for number, line in enumerate(_text(content, path).split("\n"), start=1):
        if line.strip():
            where = f"{path}, line {number}: "
            yield where, _mapping(from_json(line, where), where)


def shipped_yaml(path: Path) -> Any:
    """What a YAML file of this package holds; others' are for `yaml_mapping`."""
    return yaml.load(path.read_text("utf-8"), Loader=SHIPPED)


def yaml_mapping(path: Path | str) -> dict[str, Any]:
    """A YAML file that holds one mapping.

    Raises:
        UserError: it does not.
    """
    try:
        content = yaml.safe_load(text_of(path))
    except RecursionError:
        raise UserError(f"{path}: nested too deeply") from None
    except (yaml.YAMLError, ValueError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"{path} is not YAML: {_short(error)}") from None
    return _mapping(content, path)


def csv_table(path: Path | str, delimiter: str = ",") -> tuple[Sequence[str], list[Row]]:
    """A CSV file with a header: its columns, and its rows by column.

    Raises:
        UserError: the delimiter is none, a row has more cells than there are columns, or a cell is
            longer than any that CSV readers take.
    """
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
    """The end of a message that a file or folder is not there: which one may have been meant."""
    file = Path(path).expanduser()
    try:
        names = [path.name for path in file.parent.iterdir()]
    except OSError:
        return ""
    near = difflib.get_close_matches(file.name, set(names) - {file.name}, n=1)
    return f"; nearest is {str(file.parent / near[0])!r}" if near else ""


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
