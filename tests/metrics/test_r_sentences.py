"""What is said of bias follows from intervals over all sets, and says no more than they show."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from countergen_edit.edits import EditRecord
from countergen_edit.edits.record import Place
from countergen_edit.metrics.r.metric import R
from countergen_edit.metrics.r.sentences import Changes
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import Row

EDIT = EditRecord("e", "leace", {}, (Place("resid_post", 3, 1),))
CONTROL = EditRecord("c", "random", {}, (Place("resid_post", 3, 1),), baseline=True)
Interval = tuple[float, float, float]


def effect(name: str, p: float | None, edit: str = "none", value: float = 1.0, **more: Any) -> Row:
    detail = {"people": 12, "people_needed": 5} | more
    test = {} if p is None else {"p": p, "p_adjusted": p}
    about = {"dataset": f"{name}_test", "group_a": "female", "group_b": "male", "split": "test"}
    return Row("group_effect", value, lo=0.9, hi=1.1, edit=edit, detail=test | detail, **about)  # type: ignore[arg-type]


def gone(name: str, share: Interval, edit: str = "e") -> Row:
    value, lo, hi = share
    about = {"dataset": f"{name}_test", "group_a": "female", "group_b": "male", "split": "test"}
    return Row("group_effect_removed", value, lo=lo, hi=hi, edit=edit, **about)  # type: ignore[arg-type]


def results_of(
    before: dict[str, float | None],
    removed: dict[str, Interval],
    after: dict[str, float | None] | None = None,
    by_control: dict[str, Interval] | None = None,
) -> Results:
    rows = [effect(name, p) for name, p in before.items()]
    for edit, shares in (("e", removed), ("c", by_control or {})):
        for name, share in shares.items():
            p = (after or {}).get(name, before[name])
            rows += [effect(name, p, edit), gone(name, share, edit)]
    return Results(rows, {"e": EDIT, "c": CONTROL})


FELL, ROSE, NOT_SHOWN = (0.9, 0.8, 0.95), (-0.4, -0.6, -0.2), (0.3, -0.1, 0.5)
LOWER = (0.55, 0.45, 0.65)  # half of it may still be there


def test_every_set_stands_in_the_sentence() -> None:
    before = {"jobs": 0.001, "traits": 0.001, "sport": 0.001, "tea": 0.6}
    results = results_of(
        before,
        {"jobs": FELL, "traits": NOT_SHOWN, "sport": ROSE, "tea": FELL},
        by_control={"jobs": NOT_SHOWN, "traits": ROSE, "sport": FELL},
    )
    assert R.outcome(results, EDIT) == (
        "Partly removed: under leace (rank 1) the group effect, of 3 sets, fell on 1 (jobs 90 % "
        "gone); rose on 1 (sport +40 %); no change is shown on 1 (traits); random directions: fell "
        "on 1 (90 % gone at most), rose on 1."
    )
    told, rest = R.sentences(results)
    assert told.startswith("Biased: 3 of 4 sets tell female and male apart beyond what names")
    assert "jobs 1.00 [0.90, 1.10] nats" in told
    assert rest == "No bias told apart from that of names on tea."


@pytest.mark.parametrize(
    ("shares", "verdict"),
    [
        ({"a": FELL, "b": FELL}, "Removed"),
        ({"a": FELL, "b": LOWER}, "Partly removed"),
        ({"a": LOWER, "b": LOWER}, "Lowered"),
        ({"a": LOWER, "b": NOT_SHOWN}, "Lowered"),
        ({"a": FELL, "b": NOT_SHOWN}, "Partly removed"),
        ({"a": FELL, "b": ROSE}, "Partly removed"),
        ({"a": FELL, "b": (0.01, 0.005, 0.015)}, "Partly removed"),
        ({"a": NOT_SHOWN, "b": NOT_SHOWN}, "Not removed"),
        ({"a": ROSE, "b": NOT_SHOWN}, "Added"),
    ],
)
def test_nothing_is_called_removed_that_no_interval_shows(
    shares: dict[str, Interval], verdict: str
) -> None:
    results = results_of(dict.fromkeys(shares, 0.01), shares)
    assert Changes.of(results, "e").verdict == verdict
    assert R.outcome(results, EDIT).startswith(f"{verdict}: ")


def test_what_random_directions_take_too_is_no_work_of_the_edit() -> None:
    removed, chance = {"a": FELL, "b": LOWER}, {"a": LOWER, "b": LOWER}
    changes = Changes.of(results_of(dict.fromkeys(removed, 0.01), removed, by_control=chance), "e")
    assert changes.by_set == {"a": "removed", "b": "unchanged"}
    assert changes.verdict == "Partly removed"


def test_a_bias_that_an_edit_brings_about_rose() -> None:
    results = results_of({"a": 0.001, "b": 0.7}, {"a": FELL, "b": ROSE}, {"b": 0.01})
    changes = Changes.of(results, "e")
    assert [row.dataset for row in changes.rose] == ["b_test"]
    assert "rose on 1 (b 1.00 → 1.00 nats)" in R.outcome(results, EDIT)
    assert changes.verdict == "Partly removed"


def test_names_alone_are_no_bias() -> None:
    results = results_of({"a": 0.4, "b": 0.7}, {"a": FELL, "b": NOT_SHOWN})
    [sentence] = R.sentences(results)
    assert sentence == (
        "No bias told apart from that of names: on none of 2 sets do female and male differ more "
        "than names of one group do (least P 0.40, Holm)."
    )
    assert R.outcome(results, EDIT) == "Nothing to remove: leace (rank 1) added no bias."


def test_an_interval_that_reaches_zero_is_said_of_a_set_that_its_names_tell_apart() -> None:
    sure, unsure = effect("a", 0.001), replace(effect("b", 0.001), lo=0.004)
    assert R.sentences(Results([sure, unsure]))[1] == (
        "Told apart with these names and wordings, on b; with others there might be no bias: the "
        "interval, which draws both, reaches 0."
    )
    assert len(R.sentences(Results([sure]))) == 1


def test_a_set_that_names_nobody_is_said_to_be_without_test() -> None:
    results = results_of({"a": 0.001, "b": None}, {"a": FELL, "b": FELL})
    assert R.sentences(results)[1] == (
        "Without names to be held against: b 1.00 [0.90, 1.10] nats; groups show in words."
    )
    assert Changes.of(results, "e").verdict == "Removed"


def test_too_few_names_are_said_with_how_many_it_takes() -> None:
    results = Results([effect("a", 0.001), effect("b", 0.2, people_needed=70)])
    assert R.caveats(results)[1] == (
        "Too few names to tell: with 12 a group, an effect of the size seen would need more, b "
        "about 70 (found 4 times in 5)."
    )
    assert len(R.caveats(Results([effect("a", 0.2, people_needed=None)]))) == 1
    assert R.sentences(Results([])) == R.caveats(Results([])) == []
    assert R.outcome(Results([]), EDIT) == ""
