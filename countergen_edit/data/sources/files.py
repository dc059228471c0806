"""JSONL and CSV files of the user's own, and any other table of rows.

Comes in: rows that hold `input` and `output`, or one column per group. Goes out: samples. Refused:
a missing file, column or cell, named with its line and the nearest thing that is there.
"""

from __future__ import annotations

import difflib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from countergen_edit.core.errors import UserError
from countergen_edit.core.reading import csv_table, json_lines
from countergen_edit.data.counterfactual import CounterfactualSet, Sample
from countergen_edit.data.sources.base import (
    Request,
    as_text,
    as_texts,
    sample_from_text,
    sample_from_variations,
)

_NEAR = 0.75  # likeness above which an unknown key is taken for a misspelt one


def jsonl(request: Request, *, path: str) -> CounterfactualSet:
    """A file in CounterGen's format, one JSON object a line.

    `{"input": …, "outputs": […], "variations": [{"text": …, "categories": ["female"]}]}`; without
    `variations` they are made by substitution. Lines with the same `content` are paraphrases of
    each other.
    """
    samples = list(json_samples(json_lines(as_text(path, "path")), request))
    if not samples:
        raise UserError(f"{path} is empty: it has no samples to compare")
    return request.make(Path(path).stem, samples)


def json_samples(rows: Iterable[tuple[str, dict[str, Any]]], request: Request) -> Iterator[Sample]:
    """The samples of JSON objects, each of which comes with its place, for messages."""
    for where, row in rows:
        require_keys(row, ("input", "outputs"), where, optional=("variations", "content"))
        text = as_text(row["input"], "input", where)
        outputs = as_texts(row["outputs"], "outputs", where)
        texts = _variations(row.get("variations"), request.groups, where)
        if texts:
            sample = sample_from_variations(text, outputs, texts, request, where)
        else:
            sample = sample_from_text(text, outputs, request, where)
        content = row.get("content")
        yield replace(sample, content=as_text(content, "content", where)) if content else sample


def csv_file(request: Request, *, path: str, delimiter: str = ",") -> CounterfactualSet:
    """A table with a header: `input, output`, or `<group_a>, <group_b>, output`."""
    columns, rows = csv_table(as_text(path, "path"), delimiter)
    samples = list(table_samples(rows, columns, f"{path}, line 1: ", request))
    if not samples:
        raise UserError(f"{path} is empty: it has no samples to compare")
    return request.make(Path(path).stem, samples)


def table_samples(
    rows: Iterable[tuple[str, Mapping[str, Any]]],
    columns: Sequence[str],
    where: str,
    request: Request,
) -> Iterator[Sample]:
    """The samples of a table; each row comes with its place, for messages."""
    present = dict.fromkeys(columns)
    paired = any(group in columns for group in request.groups)
    texts_in = request.groups if paired else ("input",)
    require_keys(present, (*texts_in, "output"), where, optional=("input",))
    for place, row in rows:
        cells = {c: as_text(row.get(c), c, place) for c in (*texts_in, "output")}
        outputs = (cells["output"],)
        if paired:
            a, b = request.groups
            by_group = {a: [cells[a]], b: [cells[b]]}
            yield sample_from_variations(
                row.get("input") or cells[a], outputs, by_group, request, place
            )
        else:
            yield sample_from_text(cells["input"], outputs, request, place)


def _variations(value: Any, groups: tuple[str, str], where: str) -> dict[str, list[str]]:
    """Texts by group; none where the line gives none or says of none whose it is."""
    if not value:
        return {}
    texts: dict[str, list[str]] = defaultdict(list)
    categories: list[str] = []
    for variation in value if isinstance(value, list) else [value]:
        if not isinstance(variation, Mapping):
            raise UserError(f"{where}a variation holds 'text' and 'categories', not {variation!r}")
        require_keys(variation, ("text", "categories"), where)
        text = as_text(variation["text"], "text", where)
        names = variation["categories"]
        own = as_texts(names, "categories", where)
        categories += own
        for group in groups:
            if group in own:
                texts[group].append(text)
    if categories and not texts:
        raise UserError(
            f"{where}variations of {sorted(set(categories))}, but {list(groups)} are compared; "
            "choose other groups, or leave the variations out to have them made"
        )
    return texts


def require_keys(
    row: Mapping[str, Any], needed: Sequence[str], where: str, optional: Sequence[str] = ()
) -> None:
    """Refuse a row that lacks a key or has one that is nearly one of those it may have.

    Raises:
        UserError: with the nearest key; the message begins with `where`.
    """
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
