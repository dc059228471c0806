"""What is beyond two axes is found where it was planted, and not where they merely add up."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from countergen_edit.core.errors import UserError
from countergen_edit.data.task import Task
from countergen_edit.metrics.intersections import (
    Contrast,
    Intersections,
    cell_parts,
    interactions,
    marginals,
)
from tests.metrics.many_groups import crossing, planted, scores_of

ITEMS = 40
FIRST, SECOND = ("f", "m"), ("e", "u", "x")
AXIS = crossing(FIRST, SECOND)
CELLS = [*AXIS.groups]
PARTS = cell_parts(AXIS, CELLS) or []


def cell_means(rng, beyond=0.0):
    """Additive means, and something of its own in the first cell."""
    first = {a: 0.5 * rng.standard_normal(ITEMS) for a in FIRST}
    second = {b: 0.5 * rng.standard_normal(ITEMS) for b in SECOND}
    means = {f"{a}_{b}": first[a] + second[b] for a, b in product(FIRST, SECOND)}
    means["f_e"] = means["f_e"] + beyond * np.sign(rng.standard_normal(ITEMS))
    return means


def size(means, weights):
    """The root mean square of a contrast of true means."""
    return np.sqrt(((np.array(weights) @ [*means.values()]) ** 2).mean())


def test_weights_are_those_of_analysis_of_variance():
    means = np.random.default_rng(0).normal(size=(2, 3))
    flat = means.reshape(-1)
    beyond = means - means.mean(0) - means.mean(1, keepdims=True) + means.mean()
    assert [np.dot(w, flat) for w in interactions(PARTS)] == pytest.approx([*beyond.reshape(-1)])
    contrasts = {key: np.dot(w, flat) for key, w in marginals(PARTS).items()}
    by_first, by_second = means.mean(axis=1), means.mean(axis=0)
    assert contrasts["x", "f", "m"] == pytest.approx(by_first[0] - by_first[1])
    assert contrasts["y", "u", "x"] == pytest.approx(by_second[1] - by_second[2])
    assert len(contrasts) == 4


def test_groups_that_are_no_whole_table_have_no_marginals():
    assert cell_parts(AXIS, CELLS[:-1]) is None
    assert cell_parts(AXIS, CELLS[:3]) is None  # all of one group of the first axis
    assert cell_parts(AXIS, ["f_e", "f_u", "m_e", "m_u"]) is not None


def test_its_square_is_unbiased_for_what_was_planted():
    squared, truth = [], []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        means = cell_means(rng, beyond=0.6)
        scores = scores_of(planted(rng, means, 5, 0.5))
        for weights in interactions(PARTS):
            truth.append(size(means, weights) ** 2)
            squared.append(Contrast(scores, weights=weights).squared)
    assert np.mean(squared) == pytest.approx(np.mean(truth), abs=0.01)


def test_a_cell_of_its_own_is_found_and_its_interval_holds_the_truth():
    rng = np.random.default_rng(3)
    means = cell_means(rng, beyond=0.6)
    scores = scores_of(planted(rng, means, 12, 0.3))
    effect = Contrast(scores, weights=interactions(PARTS)[0])
    true = size(means, interactions(PARTS)[0])
    assert true == pytest.approx(0.6 / 3)  # (1 - 1/2)(1 - 1/3) of it is beyond both axes
    assert effect.p_value < 0.01
    assert effect.estimate.lo <= true <= effect.estimate.hi


def test_axes_that_merely_add_up_are_seldom_called_more():
    significant = 0
    for seed in range(80):
        rng = np.random.default_rng(200 + seed)
        scores = scores_of(planted(rng, cell_means(rng), 6, 0.5))
        effect = Contrast(scores, seed, weights=interactions(PARTS)[seed % 6])
        significant += effect.p_value <= 0.05
    assert significant <= 9


def mentioned(scores):
    """The same with noun phrases in place of names."""
    samples = tuple(
        replace(s, variations=tuple(replace(v, name=None, mention=v.name) for v in s.variations))
        for s in scores.data.samples
    )
    return replace(scores, data=replace(scores.data, samples=samples))


@pytest.mark.parametrize("called", [lambda scores: scores, mentioned])
def test_people_who_stand_in_several_cells_are_one_person_each(called):
    """A leaning that a person has in all cells cancels in every contrast."""
    rng = np.random.default_rng(5)
    means = cell_means(rng)
    leaning = 3.0 * rng.standard_normal((8, ITEMS))
    groups = {c: m + leaning + 0.1 * rng.standard_normal((8, ITEMS)) for c, m in means.items()}
    names = [f"n{i}" for i in range(8)]
    scores = called(scores_of(groups, names=dict.fromkeys(groups, names)))
    for weights in marginals(PARTS).values():
        effect = Contrast(scores, weights=weights)
        assert effect.estimate.value == pytest.approx(size(means, weights), abs=0.03)
        assert effect.p_value < 0.01


def test_people_drawn_anew_for_each_template_are_refused():
    """Their noise is part of every contrast, and no names tell how large it is."""

    def task(anew):
        hobbies = {"source": "natural", "family": "hobbies", "people": 2, "anew": anew}
        return Task.from_config(["gender", "race"], {"test": [hobbies]}, texts="natural")

    Intersections().bound(task(anew=False))
    with pytest.raises(UserError, match="and set 'hobbies_test' has others in each: give it anew"):
        Intersections().bound(task(anew=True))
