"""Sheets on which people rate texts of a run, and the ratings that come back.

A sheet is a CSV file for one rater with prompts, texts and an empty column, in random order,
without model, edit, side or name. What a metric asks, and the rows that it makes of the answers,
are a `RatedTexts`.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd

from countergen_edit.core.errors import UserError
from countergen_edit.core.reading import csv_table
from countergen_edit.core.seeds import generator
from countergen_edit.core.writing import spreadsheet_cell
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import Row

KEY = "item"
"""The column that says which text it is."""
OF_EDIT = ("task", "axis", "edit", "eraser", "site", "layers", "rank", "baseline", "split")


@dataclass(frozen=True)
class RatedItem:
    """A distinct text after its prompt, as raters see both; it is rated once."""

    prompt: str
    text: str

    @property
    def key(self) -> str:
        """A digest that hides where the text is from."""
        content = f"{self.prompt}\x1f{self.text}".encode()
        return hashlib.blake2b(content, digest_size=6).hexdigest()


Ratings = Mapping[RatedItem, int]
"""The answers of one rater."""


class RatedTexts(ABC):
    """The texts of one run that people rate for one metric."""

    name: ClassVar[str]
    """The end of the names of its sheets."""
    asks: ClassVar[str]
    """What raters are asked of every text."""
    columns: ClassVar[tuple[str, str, str]]
    """The headings of the prompt, of the text and of the answer."""
    answers: ClassVar[Mapping[str, int]]
    """Answers in small letters, with their values."""
    wanted: ClassVar[str]
    """The answers in words."""
    items: Sequence[RatedItem]
    """As often as they occur; empty where the run has none."""

    @abstractmethod
    def __init__(self, results: Results) -> None:
        """Read the texts of all measured edits."""

    @abstractmethod
    def rows(self, ratings: Mapping[str, Ratings], seed: int) -> list[Row]:
        """The rows of the run by what every rater said; `seed` is of the intervals."""


def distinct(texts: Iterable[RatedTexts]) -> list[RatedItem]:
    """Every distinct item, by its key."""
    return sorted({item for own in texts for item in own.items}, key=lambda item: item.key)


def columns_of(row: Row) -> dict[str, Any]:
    """The columns that rated rows share with the other rows of their edit."""
    return {name: getattr(row, name) for name in OF_EDIT}


def write_sheet(path: Path, kind: type[RatedTexts], items: Sequence[RatedItem], seed: int) -> None:
    """Write a sheet for one rater, in random order; `UserError` if it cannot be made."""
    order = generator(seed, "ratings", path.stem).permutation(len(items))
    lines = [(items[i].key, items[i].prompt, items[i].text, "") for i in order]
    sheet = pd.DataFrame(lines, columns=[KEY, *kind.columns]).map(spreadsheet_cell)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        sheet.to_csv(path, index=False, mode="x", encoding="utf-8-sig", lineterminator="\r\n")
    except OSError as error:
        raise UserError(f"cannot write rating sheet {path}: {error.strerror}") from error


def read_sheet(path: Path, kind: type[RatedTexts], items: Collection[RatedItem]) -> Ratings:
    """Read a sheet; `UserError` if an item is missing, foreign, doubled, altered or unrated."""
    needed = [KEY, *kind.columns]
    columns, lines = csv_table(path, needed)
    if lacking := [column for column in needed if column not in columns]:
        raise UserError(f"{path}, line 1: no column {lacking[0]!r}; needed: {', '.join(needed)}")
    by_key = {item.key: item for item in items}
    ratings: dict[RatedItem, int] = {}
    for where, cells in lines:
        key, _, text, answer = (cells[column] or "" for column in needed)
        item, rating = by_key.get(key), kind.answers.get(answer.strip().lower())
        if item is None:
            remedy = "name the runs that the sheet was written for, or take the row out"
            raise UserError(f"{where}item {key!r} is not of these runs; {remedy}")
        if item in ratings:
            raise UserError(f"{where}item {key!r} is rated twice; keep one of its rows")
        if text not in (item.text, spreadsheet_cell(item.text)):
            altered = f"the {kind.columns[1]} of item {key!r} was altered from {item.text!r}"
            raise UserError(f"{where}{altered}")
        if rating is None:
            content = repr(answer) if answer.strip() else "nothing"
            raise UserError(f"{where}column {needed[3]!r} holds {content}; write {kind.wanted}")
        ratings[item] = rating
    if missing := [item for item in items if item not in ratings]:
        raise UserError(
            f"{path} lacks {len(missing)} of {len(items)} items, such as item "
            f"{missing[0].key!r} ({missing[0].text!r}); the sheet is left as it is: put its rows "
            "back, or rate a newly written sheet as well"
        )
    return {item: ratings[item] for item in items}  # whatever the order of the rows
