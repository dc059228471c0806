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
from countergen_edit.metrics.cid.contrasts import Continuation
from countergen_edit.metrics.cid.ratings import (
    COLUMNS,
    Item,
    agreed,
    agreement,
    fleiss_kappa,
    items_of,
    read_sheet,
    write_sheet,
)
from countergen_edit.metrics.cid.statistics import fraction_rows

TEMPLATE = "{name} lost {possessive} job because {subject}"
TEXTS = ["was too nervous", "had a strong accent", 'said "no", twice; left', "=1+1"]
ITEMS = items_of([Continuation(TEMPLATE, "a", "Jane", "John", 10.0, text, 0.1) for text in TEXTS])


def rate(path: Path, answers: dict[str, str]) -> None:
    answers = {spreadsheet_cell(text): answer for text, answer in answers.items()}
    rows = list(csv.DictReader(io.StringIO(path.read_text("utf-8-sig"), newline="")))
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(row | {"biased": answers[row["continuation"]]} for row in rows)


@pytest.fixture
def sheet(tmp_path: Path) -> Path:
    path = tmp_path / "anna.csv"
    write_sheet(path, ITEMS, seed=0)
    rate(path, {text: "yes" if "accent" in text else "No" for text in TEXTS})
    return path


def test_what_was_rated_is_what_is_read(sheet: Path) -> None:
    ratings = read_sheet(sheet, ITEMS)
    assert {item.text for item, yes in ratings.items() if yes} == {"had a strong accent"}
    assert set(ratings) == set(ITEMS)


@settings(max_examples=30, deadline=None)
@given(
    texts=st.lists(st.text(st.characters(exclude_categories=["Cs", "Cc"])), min_size=1, unique=True)
)
def test_any_text_survives_the_round_trip(tmp_path_factory, texts: list[str]) -> None:
    path = tmp_path_factory.mktemp("sheet") / "anna.csv"
    items = items_of([Continuation(TEMPLATE, "a", "x", "y", 1.0, text, 0.0) for text in texts])
    write_sheet(path, items, seed=1)
    rate(path, {item.text: "1" if len(item.text) % 2 else "0" for item in items})
    ratings = read_sheet(path, items)
    assert ratings == {item: bool(len(item.text) % 2) for item in items}


def test_a_sheet_says_nothing_of_group_lambda_or_name(sheet: Path) -> None:
    text = sheet.read_text("utf-8")
    assert "X lost … job because …" in text
    assert not [
        word for word in ("Jane", "John", "10", "lambda") if word in text.partition("\n")[2]
    ]


def test_raters_get_orders_of_their_own(tmp_path: Path) -> None:
    texts = []
    many = [Item(TEMPLATE, str(i)) for i in range(30)]
    for rater in ("anna", "ben"):
        write_sheet(tmp_path / f"{rater}.csv", many, seed=0)
        texts.append((tmp_path / f"{rater}.csv").read_text("utf-8"))
    assert texts[0] != texts[1]
    assert sorted(texts[0].split()) == sorted(texts[1].split())


def test_a_spreadsheet_of_another_country_is_read(sheet: Path) -> None:
    rows = list(csv.reader(io.StringIO(sheet.read_text("utf-8"), newline="")))
    with sheet.open("w", encoding="utf-8-sig", newline="") as file:
        csv.writer(file, delimiter=";").writerows([*rows, [""] * 4])
    assert len(read_sheet(sheet, ITEMS)) == len(ITEMS)


def damaged(sheet: Path, change: str) -> None:
    lines = sheet.read_text("utf-8").splitlines(keepends=True)
    if change == "missing":
        lines = lines[:-1]
    elif change == "foreign":
        lines.append("abc,X,never said,yes\n")
    elif change == "doubled":
        lines.append(lines[-1])
    elif change == "altered":
        lines = [line.replace("strong", "slight") for line in lines]
    elif change == "blank":
        lines = [line.replace(",yes", ",") for line in lines]
    elif change == "odd":
        lines = [line.replace(",yes", ",perhaps") for line in lines]
    elif change == "headless":
        lines = lines[1:]
    sheet.write_text("".join(lines), "utf-8")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("missing", r"lacks 1 of 4 continuations, such as item '\w+'"),
        ("foreign", "line 6: item 'abc' is not of these runs"),
        ("doubled", r"line 6: item '\w+' is rated twice"),
        ("altered", "was altered from 'had a strong accent'"),
        ("blank", "column 'biased' holds nothing; write yes or no"),
        ("odd", "column 'biased' holds 'perhaps'; write yes or no"),
        ("headless", "line 1: no column 'item'"),
    ],
)
def test_a_damaged_sheet_is_refused_and_left_as_it_is(
    sheet: Path, change: str, message: str
) -> None:
    damaged(sheet, change)
    before = sheet.read_bytes()
    with pytest.raises(UserError, match=message):
        read_sheet(sheet, ITEMS)
    assert sheet.read_bytes() == before


def test_a_sheet_is_never_overwritten(sheet: Path) -> None:
    before = sheet.read_bytes()
    with pytest.raises(UserError, match="exists and may hold ratings"):
        write_sheet(sheet, ITEMS, seed=0)
    assert sheet.read_bytes() == before


def ratings_of(*columns: list[int]) -> list[dict[Item, bool]]:
    items = [Item(TEMPLATE, str(i)) for i in range(len(columns[0]))]
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
    assert fleiss_kappa(table) == pytest.approx((observed - by_chance) / (1 - by_chance))


def test_agreement_has_an_interval_and_takes_two() -> None:
    kappa = agreement(ratings_of([1, 0, 1, 0, 1, 0], [1, 0, 1, 0, 1, 1]), seed=0, resamples=200)
    assert kappa.lo <= kappa.value <= kappa.hi
    with pytest.raises(UserError, match="at least two raters"):
        agreement(ratings_of([1, 0]), seed=0)
    assert np.isnan(agreement(ratings_of([1, 1], [1, 1]), seed=0, resamples=20).value)


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
    rows = fraction_rows(
        items, biased, "cid_biased_fraction", 0, axis="nationality", rated_by={"rated_by": "me"}
    )
    assert [(r.group_a, r.value, r.n) for r in rows] == [
        ("egypt", pytest.approx(2 / 3), 3),
        ("usa", 0.0, 3),
    ]
    assert rows[0].lo is not None
    assert rows[0].facets == {"lambda": 10.0}
    assert rows[0].detail == {"rated_by": "me"}


def test_a_continuation_that_a_spreadsheet_would_run_is_rated_all_the_same(tmp_path: Path) -> None:
    item = Item("t", "=HYPERLINK(1)")
    write_sheet(tmp_path / "sheet.csv", [item], 0)
    text = (tmp_path / "sheet.csv").read_text("utf-8-sig")
    assert ",'=HYPERLINK(1)," in text
    (tmp_path / "sheet.csv").write_text(text.replace("(1),", "(1),yes"), "utf-8")
    assert read_sheet(tmp_path / "sheet.csv", [item]) == {item: True}
