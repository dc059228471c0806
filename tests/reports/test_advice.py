"""Which edit is recommended follows from every set and every cost, and is said with its reasons."""

from __future__ import annotations

from typing import Any, get_args

from hypothesis import given
from hypothesis import strategies as st

from countergen_edit.decisions.judgement import HARMFUL, NOTHING, RECOMMENDED, TOO_DEAR, word_for
from countergen_edit.decisions.selection import WRECK
from countergen_edit.edits import EditRecord
from countergen_edit.edits.record import Place
from countergen_edit.metrics.base import Change
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import Row
from countergen_edit.reports.findings import advice

CHANGES = get_args(Change)


@given(st.lists(st.sampled_from(CHANGES), min_size=1), st.floats(0, 2 * WRECK))
def test_an_edit_is_recommended_where_bias_fell_rose_nowhere_and_no_budget_is_broken(
    changes: list[Any], share: float
) -> None:
    word = word_for(changes, share)
    fell, rose = {"removed", "partly removed"} & {*changes}, "increased" in changes
    assert (word == RECOMMENDED) == (bool(fell) and not rose and share <= 1)
    assert (word == HARMFUL) == (rose or share >= WRECK)
    assert (word == NOTHING) == (not fell and not rose and share <= 1)


def judged(edit: str, word: str, **detail: Any) -> Row:
    whole = {
        "sets": {"jobs": "removed", "traits": "partly removed"},
        "degradations": {"agreement": 0.004, "kl": 0.01},
        "budgets": {"agreement": 0.01, "kl": 0.05},
        **{"groups": {}, "over": [], "maybe": [], "named": False, "word": word},
    }
    return Row("judgement", 0.4, edit=edit, split="test", detail=whole | detail)


def said(*rows: Row) -> list[str]:
    records = {name: EditRecord(name, name, {}, (Place("resid_post", 3, 1),)) for name in "abc"}
    return advice(Results(rows, records))


def test_the_named_edit_is_told_with_every_set_and_others_with_their_reasons() -> None:
    sets = {"jobs": "removed", "traits": "partly removed", "sport": "no significant change"}
    dear = {
        "degradations": {"agreement": 0.26, "kl": 0.06},
        "groups": {"agreement": "female"},
        "over": ["agreement", "kl"],
        "maybe": ["kl"],
    }
    assert said(
        judged("a", TOO_DEAR, **dear),
        judged("b", RECOMMENDED, sets=sets, named=True),
        judged("c", HARMFUL, sets={"jobs": "increased"}),
    ) == [
        "Recommended: b (rank 1). Every cost is within its budget.",
        "Not recommended: a (rank 1) costs too much (agreement of female worse by 0.26, budget "
        "0.01; kl worse by 0.06, budget 0.05, which its interval includes); c (rank 1) does harm "
        "(bias increased on jobs).",
    ]


def test_where_none_is_recommended_or_one_of_several_is_named_that_is_said() -> None:
    sets = {"jobs": "no significant change", "traits": "not removed"}
    assert said(judged("a", NOTHING, sets=sets)) == [
        "No edit is recommended: a (rank 1) shows nothing (bias not shown to fall on jobs, traits)."
    ]
    assert said() == []
    both = [judged("a", RECOMMENDED, named=True, degradations={}), judged("b", RECOMMENDED)]
    assert said(*both) == [
        "Recommended: a (rank 1). No cost was measured. Also within the budgets: b (rank 1)."
    ]
    assert said(judged("a", RECOMMENDED), both[1]) == [
        "Recommended: a (rank 1), b (rank 1). Validation data do not rank them."
    ]
