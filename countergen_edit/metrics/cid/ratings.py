"""Ratings of continuations: sheets for raters, and the rows made from them.

A sheet is a CSV file for one rater with templates, continuations and an empty column, without
model, λ, group or name. Rows `cid_biased_fraction` (Figures 2, 6 and 7) and `cid_rater_agreement`
are kept in `ratings.jsonl` beside the results of the rated run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Formatter
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float64

from countergen_edit.core.errors import UserError
from countergen_edit.core.reading import csv_table, json_lines, text_of
from countergen_edit.core.seeds import generator
from countergen_edit.core.writing import spreadsheet_cell, write_json_lines
from countergen_edit.metrics.cid.metric import DATASET, Continuation, fraction_rows
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.statistics import RESAMPLES, Estimate, estimate

COLUMNS = ("item", "paraphrase", "continuation", "biased")
RATINGS = "ratings.jsonl"
"""The file within a run folder."""
FRACTION, AGREEMENT = "cid_biased_fraction", "cid_rater_agreement"

Store = Mapping[tuple[str, str], Sequence[Continuation]]
"""(task, id of the edit) → its continuations."""
OF_EDIT = ("task", "axis", "edit", "eraser", "site", "layers", "rank", "baseline", "split")
"""Columns that rated rows share with the other rows of their edit."""
ANSWERS = {"yes": True, "y": True, "1": True, "no": False, "n": False, "0": False}


@dataclass(frozen=True)
class Item:
    """A distinct continuation of a template, which is rated once."""

    template: str
    text: str

    @property
    def key(self) -> str:
        """A digest that hides group, name and λ."""
        content = f"{self.template}\x1f{self.text}".encode()
        return hashlib.blake2b(content, digest_size=6).hexdigest()

    @property
    def paraphrase(self) -> str:
        """The template on a sheet: X for the name, dots for words that show the group.

        >>> Item("{name} lost {possessive} job because {subject}", "").paraphrase
        'X lost … job because …'
        """
        parts = Formatter().parse(self.template)
        seen = {None: "", "name": "X", "Name": "X"}
        return "".join(literal + seen.get(slot, "…") for literal, slot, _, _ in parts)


def items_of(continuations: Sequence[Continuation]) -> list[Item]:
    """Every distinct continuation, by its key."""
    items = {Item(c.template, c.plain) for c in continuations}
    return sorted(items, key=lambda item: item.key)


def write_sheet(path: Path, items: Sequence[Item], seed: int) -> None:
    """Write a sheet for one rater, in random order; `UserError` if the file exists."""
    order = generator(seed, "ratings", path.stem).permutation(len(items))
    lines = [(items[i].key, items[i].paraphrase, items[i].text, "") for i in order]
    sheet = pd.DataFrame(lines, columns=COLUMNS).map(spreadsheet_cell)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        sheet.to_csv(path, index=False, mode="x", encoding="utf-8-sig", lineterminator="\r\n")
    except FileExistsError:
        raise UserError(
            f"rating sheet {path} exists and may hold ratings: move it away, or choose another name"
        ) from None
    except OSError as error:
        raise UserError(f"cannot write rating sheet {path}: {error.strerror}") from error


def read_sheet(path: Path, items: Sequence[Item]) -> dict[Item, bool]:
    """Read a sheet; `UserError` if an item is missing, foreign, doubled, altered or unrated."""
    header = text_of(path).partition("\n")[0]
    columns, lines = csv_table(path, max(",;\t", key=header.count))  # as the locale has it
    if lacking := [column for column in COLUMNS if column not in columns]:
        raise UserError(f"{path}, line 1: no column {lacking[0]!r}; needed: {', '.join(COLUMNS)}")
    by_key = {item.key: item for item in items}
    ratings: dict[Item, bool] = {}
    for where, cells in lines:
        if not any(cells.values()):
            continue
        key, _, text, answer = (cells[column] or "" for column in COLUMNS)
        item = by_key.get(key)
        if item is None:
            raise UserError(
                f"{where}item {key!r} is not of these runs; name the runs that the sheet was "
                "written for, or take the row out"
            )
        if item in ratings:
            raise UserError(f"{where}item {key!r} is rated twice; keep one of its rows")
        if text not in (item.text, spreadsheet_cell(item.text)):
            raise UserError(
                f"{where}the continuation of item {key!r} was altered from {item.text!r}"
            )
        if answer.strip().lower() not in ANSWERS:
            content = f"{answer!r}" if answer.strip() else "nothing"
            raise UserError(f"{where}column 'biased' holds {content}; write yes or no")
        ratings[item] = ANSWERS[answer.strip().lower()]
    if missing := [item for item in items if item not in ratings]:
        raise UserError(
            f"{path} lacks {len(missing)} of {len(items)} continuations, such as item "
            f"{missing[0].key!r} ({missing[0].text!r}); the sheet is left as it is: put its rows "
            "back, or rate a newly written sheet as well"
        )
    return ratings


def agreed(ratings: Sequence[Mapping[Item, bool]]) -> dict[Item, bool]:
    """Whether more than half of the raters called an item biased."""
    return {item: 2 * sum(r[item] for r in ratings) > len(ratings) for item in ratings[0]}


def fleiss_kappa(table: Bool[np.ndarray, "item rater"]) -> float:
    """Agreement beyond chance of several raters (Fleiss 1971); NaN if all answers are equal."""
    from statsmodels.stats.inter_rater import aggregate_raters  # late: slow to import
    from statsmodels.stats.inter_rater import fleiss_kappa as kappa

    with np.errstate(divide="ignore", invalid="ignore"):
        return float(kappa(aggregate_raters(table.astype(int), n_cat=2)[0], method="fleiss"))


def agreement(
    ratings: Sequence[Mapping[Item, bool]], seed: int, resamples: int = RESAMPLES
) -> Estimate:
    """Fleiss' kappa of two raters or more, with an interval over items."""
    items = list(ratings[0])
    table = np.array([[r[item] for r in ratings] for item in items])
    draws = generator(seed, "kappa").integers(len(items), size=(resamples, len(items)))
    values: Float64[np.ndarray, " resample"] = np.array(
        [fleiss_kappa(table), *(fleiss_kappa(table[draw]) for draw in draws)]
    )
    return estimate(values)


def rated_rows(
    rows: Sequence[Row], texts: Store, ratings: Mapping[str, Mapping[Item, bool]], seed: int
) -> list[Row]:
    """The share of biased continuations by edit, group and λ, and the agreement of raters.

    Args:
        rows: Of the run.
        texts: The run's continuations.
        ratings: Sheet → ratings of all items.
        seed: Of the intervals.
    """
    answers = list(ratings.values())
    biased = {(item.template, item.text): yes for item, yes in agreed(answers).items()}
    by_people = {"rated_by": f"{len(ratings)} rater(s), majority", "sheets": list(ratings)}
    rows_of_edits = {(row.task, row.edit): row for row in rows if row.metric == "cid_divergence"}
    shares = []
    for key, items in texts.items():
        if (about := rows_of_edits.get(key)) is not None:
            columns = {name: getattr(about, name) for name in OF_EDIT}
            shares += fraction_rows(items, biased, FRACTION, seed, rated_by=by_people, **columns)
    if len(answers) < 2:
        return shares
    kappa = agreement(answers, seed).columns
    detail: dict[str, Any] = {"statistic": "Fleiss' kappa", **by_people}
    if kappa["value"] is None:
        detail["reason"] = "every rater gave the same answer throughout"
    about_all: dict[str, Any] = {"dataset": DATASET, "split": "test", "n": len(answers[0])}
    return [*shares, Row(AGREEMENT, **kappa, **about_all, seed=seed, detail=detail)]


def write_ratings(run: Path, rows: Sequence[Row]) -> None:
    """Write rated rows to a run folder, replacing those of an earlier rating."""
    write_json_lines(run / RATINGS, (row.to_dict() for row in rows))


def with_ratings(results: Results) -> Results:
    """The results with the rated rows of their run folder, if it has any."""
    path = None if results.folder is None else results.folder / RATINGS
    if path is None or not path.is_file():
        return results
    edits = {row.edit for row in results.rows}
    rows = []
    for where, content in json_lines(path):
        row = Row.from_dict(content, where)
        if row.edit in edits and (not results.task or row.task in ("", results.task)):
            rows.append(row)
    return Results([*results.rows, *rows], results.records, results.folder, results.task)
