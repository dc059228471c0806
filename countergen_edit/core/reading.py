"""Read text, JSON, YAML, CSV and Excel files; a `UserError` names file and line."""

from __future__ import annotations

import csv
import difflib
import hashlib
import io
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any

import yaml

from countergen_edit.core.characters import require_encodable
from countergen_edit.core.errors import UserError

PlacedRecord = tuple[str, dict[str, Any]]
"""The place of a record, as the start of an error message, and its content."""
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""Loader of shipped YAML: ten times as fast where libyaml is present; crashes on deep nesting."""


def text_of(path: Path | str) -> str:
    """The content of a UTF-8 text file; `UserError` if it is missing or holds something else."""
    return _text(_bytes_of(path), path)


def text_hash(path: Path | str) -> str:
    """SHA-256 of a text file with line ends as \\n."""
    return hashlib.sha256(_bytes_of(path).replace(b"\r\n", b"\n")).hexdigest()


def from_json(text: str, where: str) -> Any:
    """Parse JSON; `UserError` if it is not JSON, repeats a name or holds half of a character."""
    try:
        content = json.loads(text, object_pairs_hook=named)
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


def json_lines(path: Path | str, content: bytes | None = None) -> Iterator[PlacedRecord]:
    """The objects of a JSON-lines file, or of bytes of it, without empty lines.

    `UserError` if a line is something else.
    """
    text = _text(_bytes_of(path) if content is None else content, path)
    # Not str.splitlines: a text within an object may hold any other line break of Unicode.
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            where = f"{path}, line {number}: "
            yield where, _mapping(from_json(line, where), where)


def json_objects(path: Path | str) -> Iterator[PlacedRecord]:
    """The objects of a JSON list, or of JSON lines."""
    text = text_of(path)
    if not text.lstrip().startswith("["):
        return json_lines(path)
    entries = enumerate(from_json(text, f"{path}: "), start=1)
    places = ((f"{path}, item {number}: ", entry) for number, entry in entries)
    return ((where, _mapping(entry, where)) for where, entry in places)


def named(pairs: Iterable[tuple[str, Any]], where: str = "") -> dict[str, Any]:
    """The values by name; `UserError` for a name that comes twice."""
    by_name: dict[str, Any] = {}
    for name, value in pairs:
        if name in by_name:
            raise UserError(f"{where}{name!r} is given twice: take one out")
        by_name[name] = value
    return by_name


def shipped_yaml(path: Path) -> Any:
    """The content of a YAML file of this package; for users' files see `yaml_mapping`."""
    return yaml.load(path.read_text("utf-8"), Loader=_LOADER)


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


def csv_table(path: Path | str, keys: Collection[str] = ()) -> tuple[list[str], list[PlacedRecord]]:
    """Columns and rows of a CSV file, or of the first sheet of an Excel workbook.

    Its delimiter is the one that gives most columns of `keys`, in lower case.
    """
    text = _sheet(path) if str(path).lower().endswith(".xlsx") else text_of(path)
    lines = io.StringIO(text, newline="").readlines()
    first = next(filter(str.strip, lines), "").casefold()
    split = {mark: [cell.strip('" \t\r\n') for cell in first.split(mark)] for mark in ",;\t|"}
    mark = max(split, key=lambda mark: (len({*keys} & {*split[mark]}), len(split[mark])))
    reader = csv.reader(lines, delimiter=mark, strict=True)
    header, rows = list[str](), list[PlacedRecord]()
    start = 0
    try:
        for cells in reader:
            where = f"{path}, line {start + 1}: "
            record = lines[start : reader.line_num]
            if len(record) > 1 and "".join(record).count('"') % 2:
                raise csv.Error("an odd number of quotes")
            start = reader.line_num
            if not any(header):
                header = cells
                named(((cell, None) for cell in header if cell), where)
            elif len(cells) > len(header):
                raise UserError(f"{where}more cells than the {len(header)} columns of the header")
            elif any(cells):
                row = zip_longest(header, cells)
                rows.append((where, {column: cell for column, cell in row if column}))
    except csv.Error as error:
        remedy = "close the quote that opens here, or double the quotes within it"
        raise UserError(f"{path}, line {start + 1}: not CSV ({error}): {remedy}") from None
    return [column for column in header if column], rows


def _sheet(path: Path | str) -> str:
    """The first sheet of an Excel workbook as CSV."""
    import pandas as pd

    content = io.BytesIO(_bytes_of(path))
    try:
        sheet = pd.read_excel(content, header=None, dtype=str, na_filter=False, engine="openpyxl")
    except Exception as error:  # openpyxl is missing, or one of many kinds of damage
        remedy = "pip install 'countergen-edit[excel]', or save it as CSV"
        raise UserError(f"cannot read {str(path)!r} ({_short(error)}): {remedy}") from None
    return str(sheet.to_csv(index=False, header=False))


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
        likely = "UTF-16" if b"\0" in content else "cp1252"
        raise UserError(
            f"{path}, line {line}: not UTF-8 text ({error.reason} at byte {error.start}), probably "
            f"{likely}: iconv -f {likely} -t UTF-8 FILE > NEW"
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
