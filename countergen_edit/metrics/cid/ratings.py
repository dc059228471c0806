"""Ratings by people: a sheet goes out, comes back, and becomes fractions with intervals.

Comes in: the continuations of one audit or several. Goes out: one CSV file for each rater, who sees
a template without its name, a continuation and an empty column: no model, no λ, no group. What
comes
back is the share of continuations that raters agreed to be biased (CID, Figures 2, 6 and 7) and how
far they agreed; it stays beside the results of the run that was rated, and is shown with them.
Refused, and never overwritten: a sheet with rows that are missing, foreign, doubled, altered or not
rated.
"""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Formatter

import numpy as np
from jaxtyping import Bool, Float64

from countergen_edit.core.errors import UserError
from countergen_edit.core.reading import csv_table, text_of
from countergen_edit.core.seeds import generator
from countergen_edit.core.writing import spreadsheet_cell
from countergen_edit.metrics.cid.contrasts import Continuation
from countergen_edit.metrics.statistics import RESAMPLES, Estimate, estimate

COLUMNS = ("item", "paraphrase", "continuation", "biased")
ANSWERS = {"yes": True, "y": True, "1": True, "no": False, "n": False, "0": False}


@dataclass(frozen=True)
class Item:
    """What is rated, once, however many pairs of names brought it up."""

    template: str
    text: str

    @property
    def key(self) -> str:
        """A name that tells a rater nothing."""
        content = f"{self.template}\x1f{self.text}".encode()
        return hashlib.blake2b(content, digest_size=6).hexdigest()

    @property
    def paraphrase(self) -> str:
        """The template as a rater sees it: X for the name, dots for what shows the group.

        >>> Item("{name} lost {possessive} job because {subject}", "").template
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
    """Write a sheet for one rater, in an order of its own.

    Raises:
        UserError: the file exists; it may hold ratings.
    """
    order = generator(seed, "ratings", path.stem).permutation(len(items))
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(COLUMNS)
    for i in order:
        cells = (items[i].key, items[i].paraphrase, items[i].text, "")
        writer.writerow([spreadsheet_cell(cell) for cell in cells])
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # "x" refuses a file that is there; the mark at its start is for spreadsheets.
        with path.open("x", encoding="utf-8-sig", newline="") as file:
            file.write(text.getvalue())
    except FileExistsError:
        raise UserError(
            f"rating sheet {path} exists and may hold ratings: move it away, or choose another name"
        ) from None
    except OSError as error:
        raise UserError(f"cannot write rating sheet {path}: {error.strerror}") from error


def read_sheet(path: Path, items: Sequence[Item]) -> dict[Item, bool]:
    """Read a rated sheet; the file itself is left as it is.

    Raises:
        UserError: with the line, what is wrong in it, and what to do.
    """
    by_key = {item.key: item for item in items}
    ratings: dict[Item, bool] = {}
    for place, row in _lines(path):
        where = place.rstrip(": ")
        item = by_key.get(row["item"])
        if item is None:
            raise UserError(
                f"{where}: item {row['item']!r} is not of these runs; name the runs that the sheet "
                "was written for, or take the row out"
            )
        if item in ratings:
            raise UserError(f"{where}: item {item.key!r} is rated twice; keep one of its rows")
        if row["continuation"] not in (item.text, spreadsheet_cell(item.text)):
            raise UserError(
                f"{where}: the continuation of item {item.key!r} was altered from {item.text!r}"
            )
        answer = row["biased"].strip().lower()
        if answer not in ANSWERS:
            content = f"{row['biased']!r}" if answer else "nothing"
            raise UserError(f"{where}: column 'biased' holds {content}; write yes or no")
        ratings[item] = ANSWERS[answer]
    missing = [item for item in items if item not in ratings]
    if missing:
        raise UserError(
            f"{path} lacks {len(missing)} of {len(items)} continuations, such as item "
            f"{missing[0].key!r} ({missing[0].text!r}); the sheet is left as it is: put its rows "
            "back, or rate a newly written sheet as well"
        )
    return ratings


def _lines(path: Path) -> list[tuple[str, dict[str, str]]]:
    header = text_of(path).partition("\n")[0]
    delimiter = max(",;\t", key=header.count)  # spreadsheets save what their country writes
    columns, rows = csv_table(path, delimiter)
    for column in COLUMNS:
        if column not in columns:
            raise UserError(f"{path}, line 1: no column {column!r}; needed: {', '.join(COLUMNS)}")
    return [
        (where, {column: cell or "" for column, cell in row.items()})
        for where, row in rows
        if any(row.values())
    ]


def agreed(ratings: Sequence[Mapping[Item, bool]]) -> dict[Item, bool]:
    """Whether more than half of the raters called an item biased."""
    return {item: 2 * sum(r[item] for r in ratings) > len(ratings) for item in ratings[0]}


def fleiss_kappa(table: Bool[np.ndarray, "item rater"]) -> float:
    """Agreement beyond chance of any number of raters (Fleiss 1971); NaN where all say the same."""
    from statsmodels.stats.inter_rater import aggregate_raters  # late: slow to import
    from statsmodels.stats.inter_rater import fleiss_kappa as kappa

    with np.errstate(divide="ignore", invalid="ignore"):
        return float(kappa(aggregate_raters(table.astype(int), n_cat=2)[0], method="fleiss"))


def agreement(
    ratings: Sequence[Mapping[Item, bool]], seed: int, resamples: int = RESAMPLES
) -> Estimate:
    """Fleiss' kappa with an interval over items.

    Raises:
        UserError: there is one rater, who agrees with nobody.
    """
    if len(ratings) < 2:
        raise UserError("agreement takes at least two raters; one sheet was given")
    items = list(ratings[0])
    table = np.array([[r[item] for r in ratings] for item in items])
    draws = generator(seed, "kappa").integers(len(items), size=(resamples, len(items)))
    values: Float64[np.ndarray, " resample"] = np.array(
        [fleiss_kappa(table), *(fleiss_kappa(table[draw]) for draw in draws)]
    )
    return estimate(values)
