"""What is said of bias follows from intervals over all sets."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from countergen_edit.decisions.significance import classified
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import Row, set_label
from countergen_edit.reports.views.r import RView
from tests.metrics.small import CONTROL, LEACE

VIEW = RView()


def row(metric, name, edit, value, lo, hi, **detail):
    about = {"dataset": f"{name}_test", "group_a": "female", "group_b": "male", "split": "test"}
    return Row(metric, value, lo=lo, hi=hi, edit=edit, detail=detail, **about)


def effect(name, p, edit="none", **more):
    test = {} if p is None else {"p": p, "p_adjusted": p}
    detail = {"people": 12, "people_needed": 5} | test | more
    return row("group_effect", name, edit, 1.0, 0.9, 1.1, **detail)


def gone(name, share, edit="e"):
    return row("group_effect_removed", name, edit, *share)


def results_of(before, removed, after=None, by_control=None):
    rows = [effect(name, p) for name, p in before.items()]
    for edit, shares in (("e", removed), ("c", by_control or {})):
        for name, share in shares.items():
            p = (after or {}).get(name, before[name])
            rows += [effect(name, p, edit), gone(name, share, edit)]
    return Results(rows, {"e": LEACE, "c": CONTROL})


def by_set(results, edit):
    return {set_label(row): change for row, change in classified(results, edit)}


FELL, ROSE, NOT_SHOWN = (0.9, 0.8, 0.95), (-0.4, -0.6, -0.2), (0.3, -0.1, 0.5)
LOWER = (0.55, 0.45, 0.65)  # half of it may still be there
LITTLE = (0.06, 0.02, 0.10)


@pytest.mark.parametrize(
    ("share", "by_control", "change"),
    [
        (FELL, None, "removed"),
        (FELL, LOWER, "removed"),
        (FELL, FELL, "not removed"),  # random directions take as much
        (LOWER, None, "partly removed"),
        (LITTLE, None, "partly removed"),
        (LITTLE, (0.07, 0.01, 0.2), "not removed"),
        ((0.01, 0.005, 0.015), None, "not removed"),
        (NOT_SHOWN, None, "no significant change"),
        (ROSE, None, "increased"),
        ((-0.4, -0.9, 0.01), None, "no significant change"),
    ],
)
def test_the_interval_of_the_change_decides_its_class(share, by_control, change):
    controls = {} if by_control is None else {"a": by_control}
    results = results_of({"a": 0.01}, {"a": share}, by_control=controls)
    assert by_set(results, "e") == {"a": change}


def test_one_count_of_sets_holds_in_every_sentence():
    """Sets without bias, without a test, or that cannot be tested are listed, too."""
    before = {"jobs": 0.001, "tea": 0.6, "words": None}
    rows = results_of(before, {"jobs": FELL, "tea": FELL, "words": FELL}).rows
    rows += [effect("few", 0.9, edit, **LITTLE_DATA) for edit in ("none", "e")]
    results = Results(rows, {"e": LEACE})
    of_all, not_significant, few, untested = VIEW.sentences(results)
    outcome = VIEW.outcome(results, LEACE)
    assert [s.partition(" sets")[0][-4:] for s in (of_all, outcome)] == ["of 4", "), 4"]
    assert "Not significant: tea" in not_significant
    assert few.startswith("Cannot be tested on few:")
    assert few.endswith("possible P of tests on 3 sets is 0.86.")
    assert untested.startswith("Not tested: ")
    assert "words 1.00" in untested
    assert "not significant before the edit on 1 (tea), cannot be tested before" in outcome
    assert sum(map(int, re.findall(r" on (\d+)", outcome))) == 4


p_values = st.sampled_from([0.001, 0.6, None])
ends = st.tuples(*[st.floats(-1, 1)] * 3).map(sorted)
shares = ends.map(lambda ends: (ends[1], ends[0], ends[2]))


@given(st.dictionaries(st.sampled_from("abc"), st.tuples(p_values, shares, shares), min_size=1))
def test_a_set_has_one_class_and_the_same_in_every_place(sets):
    """Judgement, sentence and table; and no class but by its own interval."""
    before, removed, by_control = (
        {name: of_set[i] for name, of_set in sets.items()} for i in range(3)
    )
    results = results_of(before, removed, by_control=by_control)
    sentence = VIEW.outcome(results, LEACE).partition("; random")[0]
    [table] = [t for s in VIEW.sections(results) for t in s.tables()]
    at = table.columns.index(LEACE.label)
    lines = [line for line in table.rows if str(line[0]).startswith("bias removed")]
    changes = {" ".join(map(str, line[:2])).split()[2]: str(line[at]) for line in lines}
    for name, change in by_set(results, LEACE.id).items():
        _, lo, hi = removed[name]
        assert changes[name].startswith(f"{change}, ")
        listed = re.findall(rf"([a-z ]+) on \d+ \(([^()]*\b{name}\b[^()]*)\)", sentence)
        assert [word.strip() for word, _ in listed] == [change]
        assert change != "increased" or hi < 0
        assert change not in ("removed", "partly removed") or lo > 0
        assert (change == "no significant change") == (lo <= 0 <= hi)


@pytest.mark.parametrize(
    ("p_after", "change", "is_increased"),
    [
        (0.01, (0.3, 0.1, 0.5), True),
        (0.01, (0.3, -0.1, 0.5), False),  # significant now, by a hair: the change is not
        (0.2, (0.3, 0.1, 0.5), False),
    ],
)
def test_a_bias_is_increased_only_where_the_interval_lies_above_zero(p_after, change, is_increased):
    results = results_of({"a": 0.001, "b": 0.7}, {"a": FELL, "b": ROSE}, {"b": p_after})
    grown = row("group_effect_change", "b", "e", *change)
    results = Results([*results.rows, grown], results.records)
    assert ("b" in by_set(results, "e")) is is_increased
    increase = "increased on 1 (b +0.30 nats [+0.10, +0.50])"
    assert (increase in VIEW.outcome(results, LEACE)) is is_increased


def test_what_cannot_be_tested_has_no_class_and_what_has_one_name_is_not_tested():
    weak = {"least_p_adjusted": 0.3, "names_to_test": 5}
    rows = [effect("a", 0.3, **weak), effect("a", 0.3, "e", **weak), gone("a", FELL)]
    results = Results(rows, {"e": LEACE})
    assert by_set(results, "e") == {}
    assert VIEW.outcome(results, LEACE) == ""
    results = results_of({"a": 0.001, "b": None}, {"a": FELL, "b": FELL})
    assert by_set(results, "e") == {"a": "removed", "b": "removed"}
    results = results_of({"a": 0.4, "b": 0.7}, {"a": FELL, "b": NOT_SHOWN})
    assert VIEW.outcome(results, LEACE).startswith("No significant bias to remove; leace (rank 1)")


LITTLE_DATA = {"least_p_adjusted": 0.857, "names_to_test": 7, "people": 4}
UNTESTED = [effect(name, 0.9, **LITTLE_DATA) for name in "ab"]
SURE = effect("a", 0.001)


@pytest.mark.parametrize(
    ("rows", "starts"),
    [
        ([], []),
        ([SURE], ["Biased: on 1 of 1 set"]),
        (
            [effect("a", 0.4), effect("b", 0.7)],
            ["No significant bias: on 0 of 2 sets female and male differ more than names within"],
        ),
        (
            [SURE, replace(effect("b", 0.001), lo=0.004)],
            ["Biased: on 2", "Significant for these names and templates alone: b."],
        ),
        ([SURE, effect("b", None, prompts=12, prompts_with_names=6)], ["Biased", "Not tested: "]),
        (UNTESTED, ["Cannot be tested: needs 7 names per group, has 4."]),
        (
            [effect("c", 0.001), *UNTESTED],
            ["Biased: on 1 of 3 sets", "Cannot be tested on a, b: needs 7 names per group, has 4."],
        ),
    ],
)
def test_no_bias_is_told_apart_from_what_is_uncertain_or_cannot_be_tested(rows, starts):
    for sentence, start in zip(VIEW.sentences(Results(rows)), starts, strict=True):
        assert sentence.startswith(start)
