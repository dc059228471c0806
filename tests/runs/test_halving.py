"""Halving drops what is surely worse, keeps what may be best, and finds what the full search does.

Truth is brute force: the rule applied to every layer at once, and a full search of the testbed.
"""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from countergen_edit.data.subsets import few_of
from countergen_edit.decisions.selection import Point, choose
from countergen_edit.erasers import make_eraser
from countergen_edit.metrics.base import METRICS, Degradation
from countergen_edit.metrics.rows import SCREENING
from countergen_edit.runs.files import RESULTS
from countergen_edit.runs.folder import RunFolder
from countergen_edit.runs.halving import Halving, between, survivors
from countergen_edit.runs.plan import Plan
from countergen_edit.testbed import load_truth
from tests.crossed import crossed
from tests.runs import test_audit
from tests.runs.runs import IDENTITY, resumed, run


@given(st.integers(1, 120), st.integers(2, 12))
def test_a_grid_has_both_ends_and_no_more_than_asked(count, coarse):
    grid = Halving(coarse).grid(count)
    assert grid == sorted(set(grid))
    assert (grid[0], grid[-1]) == (0, count - 1)
    assert len(grid) == min(count, coarse)


@given(st.integers(9, 120), st.floats(0.1, 0.9))
def test_shares_grow_and_the_last_step_reaches_neighbours(count, share):
    halving = Halving(share=share)
    shares = halving.shares(count)
    assert shares == sorted(shares)
    assert shares[0] == pytest.approx(share)
    assert shares[-1] < 1
    best = count // 3  # wherever the best layer lies, following it gets next to it
    measured = set(halving.grid(count))
    for _ in shares:
        nearest = sorted(measured, key=lambda i: abs(i - best))[:2]
        measured |= set(between(measured, nearest))
    assert min(abs(i - best) for i in measured) <= 1


def point(edit, removed, cost, draws=()):
    return Point(str(edit), removed, {"kl": Degradation(cost, 1.0)}, draws=tuple(draws))


@given(
    st.lists(st.tuples(st.floats(0, 1), st.floats(0, 3)), min_size=1, max_size=12),
    st.integers(1, 12),
)
def test_the_best_stays_and_no_more_than_asked(pairs, most):
    noise = np.random.default_rng(0).normal(0, 0.05, 50)  # shared: differences are known exactly
    candidates = [point(i, gone, cost, gone + noise) for i, (gone, cost) in enumerate(pairs)]
    left = survivors(candidates, most)
    assert 1 <= len(left) <= most
    assert left[0] == choose(candidates)


def test_the_best_stays_where_few_data_do_not_show_that_it_removes_anything():
    unsure = replace(point(0, 0.31, 0.1), is_shown=False)  # [-0.39, 0.48]
    assert survivors([point(1, 0.15, 0.1), unsure, point(2, 0.06, 0.1)], 2)[0].edit == "0"


def test_chance_drops_nothing_and_what_is_surely_worse_falls():
    generator = np.random.default_rng(1)
    shared, independent = generator.normal(0, 0.3, 200), generator.normal(0, 0.2, 200)
    best = point(0, 0.6, 0.1, 0.6 + shared)
    paired = point(1, 0.5, 0.1, 0.5 + shared + generator.normal(0, 0.01, 200))
    unsure = point(2, 0.5, 0.1, 0.5 + independent)
    assert [p.edit for p in survivors([best, paired, unsure], 3)] == ["0", "2"]
    # What no interval brings within the budget falls, unless all do.
    dear = Point("0", 0.9, {"kl": Degradation(5.0, 1.0)}, {"kl": Degradation(3.0, 1.0)})
    fair = Point("2", 0.3, {"kl": Degradation(0.5, 1.0)}, {"kl": Degradation(0.2, 1.0)})
    assert [p.edit for p in survivors([dear, fair], 3)] == ["2"]
    assert [p.edit for p in survivors([dear], 1)] == ["0"]


@cache
def make_task():
    task = test_audit.make_task(("stereotypes",))
    neutral = task.neutral | {"test": task.neutral["test"][:4]}
    sets = {
        split: (load_truth().counterfactual_set("hobbies", split, task.axis),)
        for split in ("fit", "validation")
    }
    return replace(task, neutral=neutral, **sets)


@pytest.mark.slow
@settings(max_examples=25)
@given(st.floats(0.05, 1), st.floats(0.05, 1), st.integers(0, 3))
def test_few_names_and_texts_are_among_more_of_them(a, b, seed):
    task = make_task()
    few, more = (task.thinned(share, seed) for share in sorted((a, b)))
    for small, large in (
        (few.validation[0], more.validation[0]),
        (few.agreement["validation"], more.agreement["validation"]),
    ):
        wide = {sample.template: sample for sample in large.samples}
        for sample in small.samples:
            assert len(sample.of("female")) == len(sample.of("male"))
            assert {*sample.variations} <= {*wide[sample.template].variations}
            assert sample.outputs == wide[sample.template].outputs
    assert set(few.neutral["validation"]) <= set(more.neutral["validation"])
    assert (few.fit, few.test, few.neutral["test"]) == (task.fit, task.test, task.neutral["test"])
    assert task.thinned(1, seed).validation == task.validation


@given(st.floats(0.02, 1), st.integers(1, 9), st.integers(1, 20))
def test_a_share_of_a_set_is_of_its_variations_then_of_its_samples(share, people, count):
    few = few_of(crossed(count, people), share, 0)
    assert min(2, people) <= few.widest <= people
    assert len(few.samples) == count or few.widest <= 2
    size, asked = few.widest * len(few.samples), share * people * count
    assert asked - count / 2 - 1e-9 <= size <= max(asked + count / 2, asked + few.widest)


def make_plan(halving):
    budgets = {"agreement": 0.02, "perplexity": 0.02, "kl": 0.05}
    costs = [METRICS.make(name, {"budget": budget}) for name, budget in budgets.items()]
    return Plan(
        tasks=[make_task()],
        erasers={name: make_eraser(name) for name in ("preserving", "leace")},
        metrics=[METRICS.make("r"), *costs],
        select="task",
        halving=halving,
    )


@pytest.fixture(scope="module")
def halved(testbed, tmp_path_factory):
    path = tmp_path_factory.mktemp("halving") / "run"
    run(testbed, make_plan(Halving(3)), path)
    return path


def chosen(rows):
    [edit] = [row.edit for row in rows if row.metric == "cost" and row.detail["chosen"]]
    [row] = [r for r in rows if (r.metric, r.edit, r.split) == ("bias_removed", edit, "validation")]
    return row


@pytest.mark.slow
def test_halving_finds_an_edit_as_good_as_the_full_search(testbed, halved, tmp_path):
    def measured(rows, split):
        return {r.edit for r in rows if r.metric == "bias_removed" and r.split == split}

    full = run(testbed, make_plan(None), tmp_path / "run")
    rows = RunFolder(halved, {}, IDENTITY).rows()
    ours, best = chosen(rows), chosen(full)
    assert ours.value >= best.lo
    assert len(measured(full, "validation")) == 12
    assert len(measured(rows, SCREENING)) >= 6
    assert len(measured(rows, "validation")) <= 6
    assert not measured(full, SCREENING)


@pytest.mark.slow
def test_a_killed_search_goes_on_to_the_bytes_of_one_that_never_was(testbed, halved, tmp_path):
    again = resumed(testbed, make_plan(Halving(3)), tmp_path / "run", 4, 7)
    assert again == (halved / RESULTS).read_bytes()
