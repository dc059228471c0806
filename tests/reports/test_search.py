"""A search's tables, figures and advice follow from its rows, set by set and cost by cost."""

from dataclasses import replace
from itertools import product
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from countergen_edit.decisions import HARMFUL, JUDGEMENT, NOTHING, OVER_BUDGET, RECOMMENDED
from countergen_edit.decisions.judgement import word_for
from countergen_edit.decisions.selection import MAX_COST_SHARE
from countergen_edit.edits import EditRecord
from countergen_edit.edits.record import Place
from countergen_edit.metrics.base import Change
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import Row
from countergen_edit.reports.blocks import plain
from countergen_edit.reports.findings import advice, after_search, choice, nothing_fits, why_nothing
from countergen_edit.reports.render import export
from countergen_edit.reports.sections import sections
from tests.reports.runs import choice_detail, columns, in_memory, judgement, printed


def row(metric, value, edit=None, **about):
    about = {"dataset": "hobbies_test", "split": "test", "lo": 0.1, "hi": 0.9} | about
    return Row(metric, value, **(columns(*edit) if edit else {}) | about)


def rows_of(eraser, layer, removed, cost, **state):
    worse = {"grammar": 0.0012, "loss": -0.002}
    detail = choice_detail(removed=removed, removed_test=removed - 0.1, cost_test=cost + 1)
    detail |= {"degradations": worse, "degradations_test": worse, "affordable": cost <= 1, **state}
    edit = eraser, layer
    return [
        row("group_effect", 0.6 * (1 - removed), edit),
        row("r", 0.1, edit),
        row("bias_removed", removed, edit, split="validation"),
        row("bias_removed", removed - 0.1, edit),
        row("cost", cost, edit, split="validation", detail=detail),
    ]


def judged(word):
    """The judgement of the chosen edit."""
    detail = {"named": word == RECOMMENDED, "sets": {"hobbies": "no significant change"}}
    return judgement(word, columns("leace", 1), degradations={}, budgets={}, **detail)


FAILED = {"eraser": "rlace", "site": "resid_post", "layers": (2,), "rank": 1}
ROWS = [
    row("group_effect", 0.6),
    row("r", 0.1),
    *rows_of("rlace", 1, 0.9, 40.0, front=True, chosen=False),
    *rows_of("leace", 1, 0.8, 0.5, front=True, chosen=True),
    *rows_of("leace", 2, 0.3, 0.7, front=False, chosen=False),
    row("error", None, edit=None, detail={"error": "ValueError: no"}, **FAILED),
    judged(RECOMMENDED),
]
MANIFEST = {"budgets": {"grammar": 0.01, "loss": 0.5}}


def a_run(rows):
    return in_memory(rows, MANIFEST)


def table(rows, name):
    return next(t for s in sections(a_run(rows)) for t in s.tables() if t.name == name)


def figure(rows, name):
    return next(f for s in sections(a_run(rows)) for f in s.figures() if f.name == name)


def test_every_candidate_stands_in_the_table_and_the_front_is_printed():
    every = [[plain(cell) for cell in row[:6]] for row in table(ROWS, "tried").rows]
    assert every == [
        ["rlace-1@resid_post.1", "front", "90 %", "80 %", "40.00", "41.00"],
        ["leace-1@resid_post.1", "chosen", "80 %", "70 %", "0.50", "1.50"],
        ["leace-1@resid_post.2", "", "30 %", "20 %", "0.70", "1.70"],
    ]
    text = printed(a_run(ROWS), 400)
    assert "41.00" in text
    assert "1.70" not in text


def of_task(task):
    """The rows as a search of several tasks names them; each has edits and sets of its own."""
    rows = []
    for r in ROWS:
        edit = columns(r.eraser, *r.layers, task=task) if r.edit != "none" else {}
        rows.append(replace(r, task=task, axis=task, dataset=f"{task}_test", **edit))
    return rows


def test_tasks_have_tables_figures_and_a_choice_of_their_own(tmp_path):
    both = [*of_task("gender"), *of_task("race")]
    text = " ".join(printed(a_run(both), 400).split())
    for task in ("gender", "race"):
        assert f"Best, {task}: leace-1@resid_post.1 removes" in text
        assert {p.title for p in figure(both, f"layers_resid_post_{task}").panels} == {task}
        [front] = [s for s in figure(both, f"front_{task}").panels[0].series if s.name == "front"]
        assert front.x == (0.5, 40.0)
    assert " ".join(a_run(both).findings).count("The choice uses validation") == 1
    drawn = [s for s in sections(a_run(both)) if s.name in ("search", "layers")]
    written = export(drawn, tmp_path, ["svg", "png"])
    stems = ("front", "layers_resid_post", "layers_r_resid_post")
    names = product(stems, ("gender", "race"), ("svg", "png"))
    assert {path.name for path in written} == {f"{s}_{task}.{kind}" for s, task, kind in names}


def changed(word="", **detail):
    """The rows with other costs, and another judgement by test data, or none."""
    rows = [replace(r, detail=r.detail | detail) if r.metric == "cost" else r for r in ROWS]
    return [*(r for r in rows if r.metric != JUDGEMENT), *([judged(word)] if word else [])]


DEAR = {"affordable": False, "over": ["grammar"], "groups": {"grammar": "female"}}
DEAR |= {"groups_test": {"grammar": "male"}}
DEAR |= {f"degradations{end}": {"grammar": 0.19, "loss": -0.002} for end in ("", "_test")}
AUDITED = [
    *(r for r in ROWS if r.metric not in ("cost", "error")),
    row("choice", 3.0, ("rlace", 1), split="validation", detail=DEAR | {"removed": 0.7}),
    row("choice", 0.5, ("leace", 1), split="validation", detail={"affordable": True}),
]


@pytest.mark.parametrize(
    ("rows", "begins", "figures"),
    [
        (ROWS, "Best: leace-1@", ("70.0 % [10.0, 90.0]", "test data", "grammar 0.0012")),
        (changed(NOTHING), "Selected on validation data: leace-1@", ("80.0 %", "validation data")),
        (changed(NOTHING, shown=False), "No candidate removes bias", ("Cheapest", "80.0 %")),
        (
            changed(OVER_BUDGET, **DEAR),
            "No candidate removes bias",
            ("female worse by 0.19", "male"),
        ),
        (AUDITED, "On validation data these do not remove bias", ("rlace-1@", "budget 0.01")),
    ],
)
def test_a_choice_is_told_with_its_figures(rows, begins, figures):
    first, *_ = choice(a_run(rows))
    assert first.startswith(begins)
    assert all(figure in first for figure in figures)


@pytest.mark.parametrize("word", [RECOMMENDED, NOTHING, OVER_BUDGET, HARMFUL, ""])
@pytest.mark.parametrize("shown", [True, False])
def test_advice_choice_and_what_is_saved_are_one_decision(word, shown):
    run = a_run(changed(word, shown=shown))
    verdict = " ".join(run.verdict.lines)
    is_kept = word == RECOMMENDED or (not word and shown)
    assert (run.best_record is not None) == bool(after_search(run)) == is_kept
    assert ("Best: " in verdict) == ("Recommended: " in verdict) == (word == RECOMMENDED)
    assert ("No edit is recommended: leace" in verdict) == bool(word and word != RECOMMENDED)
    if word and not is_kept:
        assert why_nothing(run).startswith("the edit selected on validation data is not")
        assert ("Give the groups more names" in nothing_fits(run)[0]) == (word == NOTHING)


UNTESTABLE = "bias on validation data cannot be tested: needs 7 names per group"
UNTESTED = Row("bias_significant", 0.0, split="validation", detail={"names_to_test": 7})


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        (changed(shown=False), "no candidate removes bias within the budgets"),
        ([*changed(), Row("bias_significant", 1.0, split="validation")], "no candidate"),
        ([*changed(), UNTESTED], UNTESTABLE),
        (ROWS[:1], "no edit could be fitted"),
    ],
)
def test_the_reason_why_nothing_is_saved(rows, reason):
    run = a_run(rows)
    assert why_nothing(run).startswith(reason)
    assert why_nothing(run).endswith("; nothing was saved")
    assert ("udget" in " ".join(nothing_fits(run))) is (reason != UNTESTABLE)
    assert (run.best_record is None) is (reason != "no candidate")


CHANGES = get_args(Change)


@given(st.lists(st.sampled_from(CHANGES), min_size=1), st.floats(0, 2 * MAX_COST_SHARE))
def test_an_edit_is_recommended_where_bias_fell_rose_nowhere_and_no_budget_is_broken(
    changes, share
):
    word = word_for(changes, share)
    fell, rose = {"removed", "partly removed"} & {*changes}, "increased" in changes
    assert (word == RECOMMENDED) == (bool(fell) and not rose and share <= 1)
    assert (word == HARMFUL) == (rose or share >= MAX_COST_SHARE)
    assert (word == NOTHING) == (not fell and not rose and share <= 1)


def test_the_named_edit_is_told_with_every_set_and_others_with_their_reasons():
    sets = {"jobs": "removed", "traits": "partly removed", "sport": "no significant change"}
    dear = {"degradations": {"agreement": 0.26, "kl": 0.06}, "groups": {"agreement": "female"}}
    dear |= {"over": ["agreement", "kl"], "maybe": ["kl"]}
    rows = (
        judgement(OVER_BUDGET, {"edit": "a"}, **dear),
        judgement(RECOMMENDED, {"edit": "b"}, sets=sets, named=True),
        judgement(HARMFUL, {"edit": "c"}, sets={"jobs": "increased"}),
    )
    records = {name: EditRecord(name, name, {}, (Place("resid_post", 3, 1),)) for name in "abc"}
    assert advice(Results(rows, records)) == [
        "Recommended: b (rank 1). Every cost is within its budget.",
        "Not recommended: a (rank 1) costs too much (agreement of female worse by 0.26, budget "
        "0.01; kl worse by 0.06, budget 0.05, which its interval includes); c (rank 1) does harm "
        "(bias increased on jobs).",
    ]
