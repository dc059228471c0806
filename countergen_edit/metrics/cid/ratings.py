"""Ratings of CID's continuations by people: blind sheets, the share called biased, and agreement.

A sheet is a CSV file for one rater with prompts, continuations and an empty column, in random
order, without model, edit, side or name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Formatter
from typing import Any

import numpy as np
import pandas as pd

from countergen_edit.core.errors import UserError
from countergen_edit.core.reading import csv_table
from countergen_edit.core.seeds import generator
from countergen_edit.core.writing import spreadsheet_cell
from countergen_edit.metrics.cid import (
    AUTOMATIC,
    DATASET,
    Continuation,
    fraction_rows,
    read_continuations,
)
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.statistics import RESAMPLES, Estimate, estimate

SHEET = ("item", "paraphrase", "continuation", "biased")
"""Columns of a sheet: which text it is, its prompt, the text, and the answer."""
_ANSWERS = {"yes": True, "y": True, "1": True, "no": False, "n": False, "0": False}
OF_EDIT = ("task", "axis", "edit", "eraser", "site", "layers", "rank", "baseline", "split")
"""The columns that rated rows share with the other rows of their edit."""


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


Ratings = Mapping[RatedItem, bool]
"""Whether one rater called each item biased."""


def item_of(continuation: Continuation) -> RatedItem:
    """A continuation as raters see it: X for the name, dots for words that show the group.

    >>> text = "{name} lost {possessive} job because {subject}"
    >>> item_of(Continuation(text, "usa", "John", "Omar", 1.0, "was late", 0.1)).prompt
    'X lost … job because …'
    """
    seen = {None: "", "name": "X", "Name": "X"}
    parts = Formatter().parse(continuation.template)
    prompt = "".join(literal + seen.get(slot, "…") for literal, slot, _, _ in parts)
    return RatedItem(prompt, continuation.plain)


class RatedTexts:
    """The continuations of a run, with one of the rows of their edit."""

    def __init__(self, results: Results) -> None:
        self._texts = []
        for part in results.by_task().values():
            rows = {row.edit: row for row in part.of(AUTOMATIC)}
            for edit, path in part.stored(DATASET):
                if edit in rows:
                    self._texts.append((rows[edit], read_continuations(path)))
        self.items = {item_of(c) for _, texts in self._texts for c in texts}

    def rows(self, ratings: Mapping[str, Ratings], seed: int) -> list[Row]:
        """The share of biased continuations by edit, group and λ, and the agreement of raters."""
        answers = list(ratings.values())
        verdicts = agreed(answers)
        by_people = {"rated_by": f"{len(ratings)} rater(s), majority", "raters": list(ratings)}
        rows: list[Row] = []
        for row, texts in self._texts:
            biased = {(c.template, c.plain): verdicts[item_of(c)] for c in texts}
            columns = {name: getattr(row, name) for name in OF_EDIT}
            name = "cid_biased_fraction"
            rows += fraction_rows(texts, biased, name, seed, rated_by=by_people, **columns)
        if len(answers) > 1:
            kappa = rater_agreement(answers, seed)
            detail: dict[str, Any] = {"statistic": "Fleiss' kappa", **by_people}
            if not np.isfinite(kappa.value):
                detail["reason"] = "every rater gave the same answer throughout"
            columns = {"dataset": DATASET, "split": "test", "n": len(answers[0]), "seed": seed}
            tasks = dict.fromkeys(row.task for row, _ in self._texts)
            name = "cid_rater_agreement"
            rows += [Row.of(name, kappa, task=task, detail=detail, **columns) for task in tasks]
        return rows


def distinct(texts: Iterable[RatedTexts]) -> list[RatedItem]:
    """Every distinct item, by its key."""
    return sorted({item for run in texts for item in run.items}, key=lambda item: item.key)


def agreed(ratings: Sequence[Ratings]) -> dict[RatedItem, bool]:
    """Whether more than half of the raters called an item biased."""
    return {item: 2 * sum(r[item] for r in ratings) > len(ratings) for item in ratings[0]}


def rater_agreement(ratings: Sequence[Ratings], seed: int, resamples: int = RESAMPLES) -> Estimate:
    """Fleiss' kappa (1971) of two raters or more, with an interval over items; NaN if all agree."""
    from statsmodels.stats.inter_rater import fleiss_kappa  # late: slow to import

    yes = np.array([sum(r[item] for r in ratings) for item in ratings[0]])
    counts = np.stack([len(ratings) - yes, yes], axis=1)
    draws = generator(seed, "kappa").integers(len(counts), size=(resamples, len(counts)))
    with np.errstate(divide="ignore", invalid="ignore"):
        values = [fleiss_kappa(table, method="fleiss") for table in (counts, *counts[draws])]
    return estimate(np.array(values))


def write_sheet(path: Path, items: Sequence[RatedItem], seed: int) -> None:
    """Write a sheet for one rater, in random order; `UserError` if it cannot be made."""
    order = generator(seed, "ratings", path.stem).permutation(len(items))
    lines = [(items[i].key, items[i].prompt, items[i].text, "") for i in order]
    sheet = pd.DataFrame(lines, columns=SHEET).map(spreadsheet_cell)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        sheet.to_csv(path, index=False, mode="x", encoding="utf-8-sig", lineterminator="\r\n")
    except OSError as error:
        raise UserError(f"cannot write rating sheet {path}: {error.strerror}") from error


def read_sheet(path: Path, items: Collection[RatedItem]) -> Ratings:
    """Read a sheet; `UserError` if an item is missing, foreign, doubled, altered or unrated."""
    columns, lines = csv_table(path, SHEET)
    if lacking := [column for column in SHEET if column not in columns]:
        raise UserError(f"{path}, line 1: no column {lacking[0]!r}; needed: {', '.join(SHEET)}")
    by_key = {item.key: item for item in items}
    ratings: dict[RatedItem, bool] = {}
    for where, cells in lines:
        key, _, text, answer = (cells[column] or "" for column in SHEET)
        item, rating = by_key.get(key), _ANSWERS.get(answer.strip().lower())
        if item is None:
            remedy = "name the runs that the sheet was written for, or take the row out"
            raise UserError(f"{where}item {key!r} is not of these runs; {remedy}")
        if item in ratings:
            raise UserError(f"{where}item {key!r} is rated twice; keep one of its rows")
        if text not in (item.text, spreadsheet_cell(item.text)):
            raise UserError(
                f"{where}the continuation of item {key!r} was altered from {item.text!r}"
            )
        if rating is None:
            content = repr(answer) if answer.strip() else "nothing"
            raise UserError(f"{where}column 'biased' holds {content}; write yes or no")
        ratings[item] = rating
    if missing := [item for item in items if item not in ratings]:
        raise UserError(
            f"{path} lacks {len(missing)} of {len(items)} items, such as item "
            f"{missing[0].key!r} ({missing[0].text!r}); the sheet is left as it is: put its rows "
            "back, or rate a newly written sheet as well"
        )
    return {item: ratings[item] for item in items}  # whatever the order of the rows
