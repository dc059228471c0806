"""The corpus and the shipped model carry the truth, which is what truth.yaml says."""

import re
from collections import Counter, defaultdict
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import log_softmax

from countergen_edit import api
from countergen_edit.core.errors import UserError
from countergen_edit.core.locating import TRUTH
from countergen_edit.data.prompt_check import in_vocabulary_share, unknown_words
from countergen_edit.data.task import Task
from countergen_edit.metrics.r.formula import mean_r
from countergen_edit.metrics.r.group_effect import GroupEffect
from countergen_edit.metrics.scores import score
from countergen_edit.reports.verify_testbed import agreement_shares, verify_testbed
from countergen_edit.testbed import directory, load_axis, load_truth, vocabulary
from countergen_edit.testbed.truth import NameLeanings
from tests.models.test_gguf import script

TRAINER = script("train_testbed")


@pytest.fixture(scope="module")
def truth():
    return load_truth()


@pytest.fixture(scope="module")
def gender():
    return load_axis("gender")


def test_every_planted_distribution_sums_to_one(truth):
    for prompt in (*truth.prompts, *truth.follow_ups):
        for p in prompt.probabilities.values():
            assert p.sum() == pytest.approx(1)
            assert len(p) == len(prompt.outputs)
            assert p.min() > 0


def test_a_female_share_plants_the_odds_of_the_two_groups(truth):
    # Hand-made from truth.yaml: the 60 shares sum to 30, so P(nurse | female) = 0.90 / 30 and
    # P(nurse | male) = 0.10 / 30, hence R = 1 - 1/9 where no name leans.
    prompt = truth.of("occupations", "test")[0]
    nurse = prompt.outputs.index(" a nurse")
    assert prompt.probability("female")[nurse] == pytest.approx(0.03)
    assert prompt.probability("male")[nurse] == pytest.approx(0.10 / 30)
    alike = replace(truth, leanings=replace(truth.leanings, families=()))
    planted, effect = alike.planted(("female", "male"))
    assert planted[prompt.template, " a nurse"] == pytest.approx(8 / 9)
    assert planted[prompt.template, " a mechanic"] == pytest.approx(-1 + 0.08 / 0.92)
    assert effect[prompt.template, " a nurse"] == pytest.approx(np.log(9))


def test_nationality_is_planted_by_country(truth):
    prompt = truth.of("reasons", "fit")[0]
    p = prompt.probability("egypt_male")
    assert_array_equal(p, prompt.probability("egypt_female"))
    assert p[prompt.outputs.index(" had a strong accent")] == pytest.approx(0.18)


def test_people_of_one_group_differ_in_the_corpus_as_planted(truth, gender):
    """Counts of every name over all templates of a family, against what was planted for it."""
    prompts = tuple(p for p in truth.prompts if p.family == "traits")
    everybody = TRAINER.people(truth, gender)
    forms = "|".join(group.forms["object"] for group in gender.groups.values())
    paraphrases = "|".join(p.template.replace("{name}", "(.+)") for p in prompts)
    pattern = re.compile(f"(?:{paraphrases.replace('{object}', f'(?:{forms})')})( [a-z]+)[.]")
    alone = replace(truth, prompts=prompts, agreement=())
    short = TRAINER.Corpus(8000, (1.0,), 0.0)  # documents of one sentence
    answers = defaultdict(Counter)
    for document in TRAINER.documents(alone, short, gender, seed=1):
        name, answer = filter(None, pattern.fullmatch(document).groups())
        answers[name][answer] += 1
    for person in everybody:
        expected = np.exp(truth.log_p(prompts[0], person.gender, person.name))
        of_person = answers[person.name]
        counts = np.array([of_person[output] for output in prompts[0].outputs])
        assert counts.sum() == of_person.total() > 10
        assert np.abs(counts - expected * counts.sum()).max() < 2


def test_the_same_seed_gives_the_same_corpus(truth, gender):
    short = replace(TRAINER.Corpus.of(directory() / TRUTH), documents=200)
    one, same, other = (list(TRAINER.documents(truth, short, gender, seed)) for seed in (1, 1, 2))
    assert one == same != other


def test_names_that_the_truth_does_not_know_are_left_out_unless_it_knows_none(truth):
    axis, pair = load_axis("nationality"), ("egypt_male", "usa_male")
    longer = axis.with_names(lambda group, split: (*group.names[split], f"{group.name} {split}"))
    planted = truth.counterfactual_set("reasons", "test", longer, pair)
    assert "egypt_male test" not in planted.names
    assert set(planted.names) <= {n for g in pair for n in truth.people["nationality"][g]}
    unknown = axis.with_names(lambda group, split: (f"{group.name} {split}",))
    names = truth.counterfactual_set("reasons", "test", unknown, pair).names
    assert {*names} == {"egypt_male test", "usa_male test"}


def test_an_unknown_family_is_named(truth):
    with pytest.raises(UserError, match="no templates in the 'fit' split"):
        truth.of("stereotypes", "fit")
    with pytest.raises(UserError, match="planted on axis 'nationality'"):
        truth.counterfactual_set("reasons", "fit", load_axis("gender"))


WORDS = vocabulary(load_truth())
FEW = {"fit": 4, "few": 2, "validation": 3, "test": 4}


def test_every_set_that_was_planted_is_in_words_of_the_corpus():
    assert unknown_words(WORDS, "Jane is a Buddhist nurse.") == ["buddhist"]
    for data in Task.from_config("gender", "contexts").every_set:
        if data.axis == "gender":
            assert in_vocabulary_share(WORDS, data) == 1.0


def test_sets_outside_the_vocabulary_are_left_out():
    task = Task.from_config("age", names=FEW)
    left = api.in_vocabulary(api.load("testbed"), task)
    assert not left.test
    assert not left.fit
    assert len(left.out_of_vocabulary) == len(task.test)
    planted = {"source": "testbed", "family": "reasons", "first_names": 4}
    test = [planted, {"source": "natural", "family": "traits"}]
    both = Task.from_config("nationality", {"test": test}, names=FEW)
    left = api.in_vocabulary(api.load("testbed"), both)
    assert [data.name for data in left.test] == ["reasons_test"]
    assert [one.data.name for one in left.out_of_vocabulary] == ["traits_test"]


GROUPS = ("female", "male")


@given(seed=st.integers(0, 10**9), outputs=st.integers(2, 70))
@settings(deadline=None, max_examples=50)
def test_directions_have_mean_0_and_mean_square_1_and_are_orthogonal(seed, outputs):
    u, w = NameLeanings(seed, 0.4, 0.3, ("f",)).directions("f", outputs)
    for direction in (u, w):
        assert direction.mean() == pytest.approx(0, abs=1e-9)
        assert np.mean(direction**2) == pytest.approx(1)
    assert u @ w == pytest.approx(0 if outputs > 2 else 2, abs=1e-6)


def test_a_name_brings_one_leaning_to_all_families_and_one_to_each():
    leanings = NameLeanings(7, 0.4, 0.3, ("f", "g"))

    def strengths(family, size):
        names = np.array([leanings.of(f"{i}", family, size) for i in range(1500)])
        return leanings.directions(family, size) @ names.T / size

    across, within = strengths("f", 12)
    other_across, other_within = strengths("g", 5)
    assert_allclose(across, other_across)
    assert across.std() == pytest.approx(0.4, rel=0.05)
    assert within.std() == pytest.approx(0.3, rel=0.05)
    assert abs(np.corrcoef(within, other_within)[0, 1]) < 0.05
    assert abs(np.corrcoef(across, within)[0, 1]) < 0.05
    assert abs(across.mean()) < 0.02
    assert not leanings.of("Jane", "h", 12).any()


def test_the_mean_over_all_names_is_that_of_very_many(truth):
    """Planted R and effect by quadrature, against a draw of people by the definition."""
    r, effect = truth.planted(GROUPS)
    for family in ("drinks", "double_bind_success", "questions"):
        prompt = truth.of(family, "test")[0]
        u, w = truth.leanings.directions(family, len(prompt.outputs))
        a, b = np.random.default_rng(0).normal(size=(2, 50_000, 1)) * [[[0.4]], [[0.3]]]
        log_p = np.log([[prompt.probability(group)] for group in GROUPS])
        log_p = log_softmax(log_p + a * u + b * w, axis=2)
        p_a, p_b = np.exp(log_p).mean(axis=1)
        items = [(prompt.template, output) for output in prompt.outputs]
        expected = (p_a - p_b) / np.maximum(p_a, p_b)
        assert_allclose([r[i] for i in items], expected, atol=4e-3)
        expected = np.subtract(*log_p.mean(axis=1))
        assert_allclose([effect[i] for i in items], expected, atol=4e-3)


def test_quadrature_has_converged():
    leanings = NameLeanings(3, 0.4, 0.3, ("f",))
    log_p = np.log(np.random.default_rng(0).dirichlet(np.ones(20)))
    weights, at_nodes = leanings.population("f", log_p)
    nodes, fine = np.polynomial.hermite_e.hermegauss(80)
    u, w = leanings.directions("f", 20)
    shifts = 0.4 * nodes[:, None, None] * u + 0.3 * nodes[None, :, None] * w
    oracle = np.einsum("i,j,ijk->k", fine, fine, log_softmax(log_p + shifts, axis=2))
    assert_allclose(weights @ at_nodes, oracle / fine.sum() ** 2, atol=1e-9)


def test_the_scores_of_a_set_are_those_of_its_people(truth):
    data = truth.counterfactual_set("sentiment", "test", load_axis("gender"))
    scores = truth.scores(data)
    prompts = truth.of("sentiment", "test")
    n = len(prompts[0].outputs)
    assert scores.shape == (2 * n, 2, 60)
    assert_allclose(np.exp(scores[:n]).sum(axis=0), 1)
    expected = truth.log_p(prompts[1], "male", data.samples[1].of("male")[5].name)
    assert_allclose(scores[n:, 1, 5], expected, atol=1e-12)


@pytest.fixture(scope="module")
def verified(testbed, truth):
    return verify_testbed(testbed, truth)


def test_measured_r_equals_planted_r(verified):
    assert verified.loc["occupations", "correlation of R"] >= 0.98
    assert verified.loc["occupations", "difference of R"] <= 0.05
    # Where the people of a name come from is planted at 94 against 3 and 3 percent: the two rare
    # answers are seen some dozens of times a template, and R compares them with each other.
    # Reasons of several words share their family's sentences among ten, the rarest at 2 percent.
    rare = {"origins": 0.2, "reasons": 0.12}
    for family, difference in verified["difference of R"].items():
        assert difference <= rare.get(family, 0.08), family


def test_measured_group_effects_are_those_planted(verified):
    assert verified["effect planted"].corr(verified["effect"]) >= 0.98
    assert verified["correlation of items"].min() >= 0.98


@pytest.mark.parametrize("split", ["validation", "test"])
@pytest.mark.parametrize("family", ["drinks", "double_bind_baseline"])
def test_where_only_people_differ_no_group_effect_is_significant(
    family, split, testbed, truth, gender
):
    data = truth.counterfactual_set(family, split, gender)
    _, planted = truth.planted(data.groups)
    assert max(abs(planted[s.template, o]) for s in data.samples for o in s.outputs) < 1e-9
    effect = GroupEffect(score(testbed, data))
    assert effect.p_value > 0.05
    assert mean_r(effect.scores, 0)[1].value > 0.02  # for people do differ


def test_what_names_lean_to_shows_after_templates_never_fitted(verified, truth):
    leaning = verified.loc[[*truth.leanings.families], "correlation of names"]
    assert leaning.min() >= 0.95


def test_pronouns_agree_with_their_person(testbed, truth):
    shares = agreement_shares(testbed, truth)
    assert {*shares} == {"", "female", "male"}
    assert min(shares.values()) >= 0.98


def test_every_name_is_one_token(testbed, truth, gender):
    for person in TRAINER.people(truth, gender):
        for text in (person.name, f" {person.name}"):
            [token] = testbed.tokenizer(text).input_ids
            assert testbed.tokenizer.decode([token]) == text
