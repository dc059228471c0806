"""A rating sheet comes back whole or not at all."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from countergen_edit.core.errors import UserError
from countergen_edit.core.writing import spreadsheet_cell
from countergen_edit.metrics.cid.metric import Continuation, fraction_rows
from countergen_edit.metrics.cid.ratings import (
    SHEET,
    RatedItem,
    agreed,
    rater_agreement,
    read_sheet,
    write_sheet,
)

TEMPLATE = "{name} lost {possessive} job because {subject}"
TEXTS = ["was too nervous", "had a strong accent", 'said "no", twice; left', "=1+1"]
ITEMS = [RatedItem("X lost … job because …", text) for text in TEXTS]


def rate(path: Path, answers: dict[str, str]) -> None:
    answers = {spreadsheet_cell(text): answer for text, answer in answers.items()}
    rows = list(csv.DictReader(io.StringIO(path.read_text("utf-8-sig"), newline="")))
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, SHEET)
        writer.writeheader()
        writer.writerows(row | {"biased": answers[row["continuation"]]} for row in rows)


@pytest.fixture
def sheet(tmp_path: Path) -> Path:
    path = tmp_path / "anna.csv"
    write_sheet(path, ITEMS, seed=0)
    rate(path, {text: "yes" if "accent" in text else "No" for text in TEXTS})
    return path


@settings(max_examples=30, deadline=None)
@given(
    texts=st.lists(st.text(st.characters(exclude_categories=["Cs", "Cc"])), min_size=1, unique=True)
)
def test_any_text_survives_the_round_trip(tmp_path_factory, texts: list[str]) -> None:
    path = tmp_path_factory.mktemp("sheet") / "anna.csv"
    items = [RatedItem("X is", text) for text in texts]
    write_sheet(path, items, seed=1)
    rate(path, {item.text: "1" if len(item.text) % 2 else "0" for item in items})
    ratings = read_sheet(path, items)
    assert ratings == {item: bool(len(item.text) % 2) for item in items}


def test_a_sheet_is_blind_and_in_an_order_of_its_own(tmp_path: Path) -> None:
    texts = []
    for rater in ("anna", "ben"):
        write_sheet(tmp_path / f"{rater}.csv", ITEMS, seed=0)
        texts.append((tmp_path / f"{rater}.csv").read_text("utf-8").splitlines()[1:])
    assert texts[0] != texts[1]
    assert sorted(texts[0]) == sorted(texts[1])
    with pytest.raises(UserError, match=r"cannot write rating sheet .*: File exists"):
        write_sheet(tmp_path / "anna.csv", ITEMS, seed=0)
    assert all("X lost … job because …" in line for line in texts[0])
    assert not [word for word in ("Jane", "John", "lambda") if word in str(texts)]


def test_a_spreadsheet_of_another_country_is_read(sheet: Path) -> None:
    rows = list(csv.reader(io.StringIO(sheet.read_text("utf-8"), newline="")))
    with sheet.open("w", encoding="utf-8-sig", newline="") as file:
        csv.writer(file, delimiter=";").writerows([*rows, [""] * 4])
    assert len(read_sheet(sheet, ITEMS)) == len(ITEMS)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda lines: lines[:-1], r"lacks 1 of 4 items, such as item '\w+'"),
        (lambda lines: [*lines, "abc,X,never said,yes\n"], "line 6: item 'abc' is not of these"),
        (lambda lines: [*lines, lines[-1]], r"line 6: item '\w+' is rated twice"),
        (lambda lines: [x.replace("strong", "slight") for x in lines], "was altered from 'had a"),
        (lambda lines: [x.replace(",yes", ",") for x in lines], "holds nothing; write yes or no"),
        (lambda lines: [x.replace(",yes", ",ja") for x in lines], "holds 'ja'; write yes or no"),
        (lambda lines: lines[1:], "line 1: no column 'item'"),
    ],
)
def test_a_damaged_sheet_is_refused(sheet: Path, change, message: str) -> None:
    lines = sheet.read_text("utf-8").splitlines(keepends=True)
    sheet.write_text("".join(change(lines)), "utf-8")
    with pytest.raises(UserError, match=message):
        read_sheet(sheet, ITEMS)


def ratings_of(*columns: list[int]) -> list[dict[RatedItem, bool]]:
    items = [RatedItem(TEMPLATE, str(i)) for i in range(len(columns[0]))]
    return [dict(zip(items, map(bool, column), strict=True)) for column in columns]


def test_more_than_half_must_agree() -> None:
    two = ratings_of([1, 1, 0], [1, 0, 0])
    assert list(agreed(two).values()) == [True, False, False]
    three = [*two, *ratings_of([0, 1, 1])]
    assert list(agreed(three).values()) == [True, True, False]


def test_kappa_is_that_of_fleiss() -> None:
    table = np.array([[1, 1, 1], [1, 1, 0], [0, 0, 0], [1, 0, 0], [1, 1, 1]], dtype=bool)
    yes = table.sum(1)
    n = table.shape[1]
    observed = np.mean((yes**2 + (n - yes) ** 2 - n) / (n * (n - 1)))
    share = yes.sum() / table.size
    by_chance = share**2 + (1 - share) ** 2
    found = rater_agreement(ratings_of(*table.T.tolist()), seed=0, resamples=50)
    assert found.value == pytest.approx((observed - by_chance) / (1 - by_chance))
    assert found.lo <= found.value <= found.hi
    assert np.isnan(rater_agreement(ratings_of([1, 1], [1, 1]), seed=0, resamples=20).value)


def test_fractions_count_pairs_and_not_texts() -> None:
    items = [
        Continuation(TEMPLATE, group, own, other, 10.0, text, 0.1)
        for group, own, other, text in (
            ("egypt", "Omar", "John", "had an accent."),
            ("egypt", "Omar", "James", "had an accent"),
            ("egypt", "Ali", "John", "was late"),
            ("usa", "John", "Omar", "was late"),
            ("usa", "John", "Ali", "was late"),
            ("usa", "James", "Omar", "was late"),
        )
    ]
    biased = {(TEMPLATE, "had an accent"): True, (TEMPLATE, "was late"): False}
    rows = fraction_rows(items, biased, "cid_biased_fraction", 0, rated_by={"rated_by": "me"})
    told = [(r.group_a, r.value, r.n) for r in rows]
    assert told == [("egypt", pytest.approx(2 / 3), 3), ("usa", 0.0, 3)]
    assert rows[0].lo is not None
    assert rows[0].facets == {"lambda": 10.0}
    assert rows[0].detail == {"rated_by": "me"}
