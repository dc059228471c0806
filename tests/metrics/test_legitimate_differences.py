"""Changes of legitimate differences, against copies of the definition and planted truth."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from countergen_edit.core.errors import UserError
from countergen_edit.data.task import Task
from countergen_edit.edits import Edit, NamedEdit, applied
from countergen_edit.erasers import AffineErasure, make_eraser
from countergen_edit.metrics.costs.legitimate_differences import (
    LEFT,
    OF_SET,
    LegitimateDifferences,
    change_row,
    left_row,
)
from countergen_edit.metrics.scores import score
from countergen_edit.runs.fit_data import capture_sites
from countergen_edit.testbed import load_axis, load_truth
from tests.metrics.many_groups import two_groups
from tests.metrics.small import edit_of, log_p, set_of

FAMILIES = ("voices", "competitions")
PEOPLE = {"female": ("Jane", "Emily", "Mary"), "male": ("John", "Ahmed", "Peter")}
VOICES = set_of(
    "voices_test",
    ["The choir heard {} sing as", "On Sunday {} was"],
    [(" alto", " tenor", " bass"), (" low", " high")],
    PEOPLE,
)
RACES = set_of("races_test", ["{} won the"], [(" women", " men")])
EDIT = edit_of(layer=1, shift=40)


def cost_of(*sets):
    of = {"test": sets} if sets else {}
    task = Task(load_axis("gender"), ("female", "male"), legitimate_differences=of)
    return LegitimateDifferences().bound(task)


def plain_shares(model, text, outputs):
    """P(output) over its sum, each text run alone on the plain model."""
    p = np.exp([log_p(model, text, output) for output in outputs])
    return p / p.sum()


def brute_force(model, *sets):
    """Mean |change|, template by template, and the largest."""
    by_paraphrase, largest = [], 0.0
    for sample in (s for data in sets for s in data.samples):
        moved = []
        for v in sample.variations:
            before = plain_shares(model, v.text, sample.outputs)
            with applied(model, EDIT.edit):
                after = plain_shares(model, v.text, sample.outputs)
            moved.append(np.abs(after - before))
        by_paraphrase.append(np.mean(moved))
        largest = max(largest, np.max(moved))
    return np.mean(by_paraphrase), largest


def test_the_figure_is_its_definition_text_by_text(model, context):
    rows = cost_of(VOICES, RACES).measure(context, EDIT)
    together, voices, races, left = rows
    expected, largest = brute_force(model, VOICES, RACES)
    assert expected > 1e-3
    assert together.value == pytest.approx(expected, abs=1e-5)
    assert together.detail["largest"] == pytest.approx(largest, abs=1e-5)
    assert together.detail["largest"] in {r.detail["largest"] for r in (voices, races)}
    for row, data in ((voices, VOICES), (races, RACES)):
        assert (row.metric, row.dataset) == (OF_SET, data.name)
        assert row.value == pytest.approx(brute_force(model, data)[0], abs=1e-5)
        texts = {v.text + o for s in data.samples for v in s.variations for o in s.outputs}
        assert row.detail["largest_in"] in texts
    assert together.dataset == "voices_test+races_test"
    assert (together.n, voices.n, races.n) == (16, 12, 4)
    assert left.metric == LEFT
    assert LegitimateDifferences().counted(rows[::-1]) == [together]


def test_what_changes_nothing_costs_nothing(context):
    none = AffineErasure(np.zeros((32, 1)), np.ones((1, 32)), np.zeros(32))
    identity = NamedEdit.of(Edit.at("resid_post", {1: none}), "identity")
    cost = cost_of(VOICES, RACES)
    for row in cost.measure(context, None)[:3]:
        assert (row.value, row.lo, row.hi) == (0, 0, 0)
        assert row.detail == {"largest": 0.0}
    for row in cost.measure(context, identity)[:3]:
        assert row.value == pytest.approx(0, abs=1e-6)
    assert cost_of().measure(context, None) == []


def test_a_prompt_with_a_single_output_is_refused_before_anything_is_measured():
    alone = set_of("alone", ["{} ran the"], [(" race",)])
    with pytest.raises(UserError, match="the' of 'alone' has 1 output; give two or more"):
        cost_of(RACES, alone)


def of_groups(log_p):
    """Of `[item, side, person]`, two outputs a template."""
    return two_groups(*log_p.transpose(1, 2, 0), len(log_p) // 2)


def scored(shares, mass=1.0):
    """Of two outputs whose probabilities sum to `mass`; shares [sample, side, variation]."""
    p = np.stack([shares * mass, (1 - shares) * mass], axis=1)
    return of_groups(np.log(p).reshape(-1, *shares.shape[1:]))


@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1), st.permutations([0, 1]))
def test_only_shares_count_and_both_ways_alike(draw, order):
    rng = np.random.default_rng(draw)
    shares = rng.uniform(0.05, 0.95, (2, 3, 2, 4))
    mass = rng.uniform(1e-6, 1, (2, 3, 2, 4))
    before, after = (scored(shares[i], mass[i]) for i in order)
    row = change_row([(before, after)], "m", 0)
    assert row.value == pytest.approx(np.abs(shares[0] - shares[1]).mean())
    assert 0 <= row.lo <= row.value <= row.hi <= 1
    # Plain probabilities that move together are no change of what is said of whom.
    same = scored(shares[0], mass[1])
    assert change_row([(before, same)], "m", 0).value == pytest.approx(
        np.abs(shares[order[0]] - shares[0]).mean(), abs=1e-9
    )


def test_people_asked_about_several_sets_are_drawn_once():
    """Where people differ and templates do not, the interval is that of the mean over people."""
    people, paraphrases = 20, 8
    moved = np.random.default_rng(0).uniform(0, 0.3, (2, people))
    shares = np.broadcast_to(0.5 + moved, (paraphrases, 2, people))
    half = np.full(shares.shape, 0.5)
    sides = scored(half, half), scored(shares, half)
    pairs = [
        tuple(replace(side, data=replace(side.data, name=name)) for side in sides)
        for name in ("one", "two")
    ]
    row = change_row(pairs, "m", 0)
    assert row.value == pytest.approx(moved.mean())
    error = np.sqrt((stats.sem(moved, axis=1) ** 2).sum()) / 2
    width = stats.t.ppf(0.975, 2 * (people - 1)) * error
    assert (row.hi - row.lo) / 2 == pytest.approx(width, rel=0.2)


def test_what_is_left_is_the_share_of_the_group_effect():
    spread = np.random.default_rng(1).normal(0, 0.1, (8, 2, 6))
    group = np.array([[[1.0], [-1.0]]])

    def with_effect(size):
        return of_groups(-3 + size * group + spread)

    row = left_row([(with_effect(1.0), with_effect(0.5))], 0)
    assert row.value == pytest.approx(0.5, abs=0.02)
    assert row.lo <= row.value <= row.hi
    assert left_row([(with_effect(1.0), with_effect(1.0))], 0).value == 1
    # Where the groups do not differ there is nothing of which a share could be left.
    nobody = left_row([(with_effect(0.0), with_effect(0.5))], 0)
    assert nobody.value is None or nobody.value > 1


@pytest.mark.slow
def test_erasing_the_group_moves_them_as_planted_and_keeping_them_does_not(testbed):
    truth, gender = load_truth(), load_axis("gender")
    tests = [truth.counterfactual_set(family, "test", gender) for family in FAMILIES]
    before = [score(testbed, data) for data in tests]

    def sets(*families):
        return [truth.counterfactual_set(family, "fit", gender) for family in families]

    def under(fit, keep, rank):
        """Each family, both together, and what is left, under a preserving eraser of layer 4."""
        where = {"sites": ["resid_post"], "layers": (4,), "positions": "outputs"}
        neutral = truth.neutral_texts()[::5]
        data = capture_sites(testbed, fit, keep, neutral, **where)["resid_post"]
        erasure = data.fit(make_eraser("preserving", rank=rank), 4).erasure_
        with applied(testbed, Edit.at("resid_post", {4: erasure})):
            pairs = list(zip(before, [score(testbed, data) for data in tests], strict=True))
        of_families = [change_row([pair], "m", 0) for pair in pairs]
        return [*of_families, change_row(pairs, "m", 0), left_row(pairs, 0)]

    *families, _, left = under(sets(*FAMILIES), [], None)
    for family, row in zip(FAMILIES, families, strict=True):
        # What it moves by where both groups get the mean of their log-probabilities.
        p = truth.of(family, "test")[0]
        women, men = (p.probability(group) for group in ("female", "male"))
        alike = np.sqrt(women * men) / np.sqrt(women * men).sum()
        planted = np.abs([women - alike, men - alike]).mean()
        assert row.value == pytest.approx(planted, abs=0.02), family
    assert left.value < 0.1
    kept = [truth.agreement_set("fit", gender), *sets(*FAMILIES)]
    *changes, left = under(sets("occupations", "traits", "hobbies"), kept, 8)
    assert max(row.value or 0.0 for row in changes) <= 0.02
    assert left.value == pytest.approx(1, abs=0.1)
