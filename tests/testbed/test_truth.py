"""The corpus carries the truth, and the truth is what truth.yaml says."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from countergen_edit.conf_path import read_config
from countergen_edit.data.axis import Axis
from countergen_edit.errors import UserError
from countergen_edit.testbed import Truth, load_axis, load_truth
from countergen_edit.testbed.corpus import Deck, documents, people
from countergen_edit.testbed.truth import indefinite


@pytest.fixture(scope="module")
def truth() -> Truth:
    return load_truth()


@pytest.fixture(scope="module")
def axes() -> tuple[Axis, Axis]:
    return load_axis("gender"), load_axis("nationality")


@pytest.fixture(scope="module")
def corpus(truth: Truth, axes: tuple[Axis, Axis]) -> list[str]:
    return list(documents(replace(truth, documents=60000), *axes, seed=1))


def test_every_planted_distribution_sums_to_one(truth: Truth) -> None:
    for prompt in (*truth.prompts, *truth.follow_ups):
        for p in prompt.probabilities.values():
            assert p.sum() == pytest.approx(1)
            assert len(p) == len(prompt.outputs)
            assert p.min() > 0


def test_a_female_share_plants_the_odds_of_the_two_groups(truth: Truth) -> None:
    # Hand-made from truth.yaml: the 60 shares sum to 30, so P(nurse | female) = 0.90 / 30 and
    # P(nurse | male) = 0.10 / 30, hence R = 1 - 1/9.
    prompt = truth.of("occupations", "test")[0]
    nurse = prompt.outputs.index(" a nurse")
    assert prompt.probability("female")[nurse] == pytest.approx(0.03)
    assert prompt.probability("male")[nurse] == pytest.approx(0.10 / 30)
    planted = truth.planted_r(("female", "male"))
    assert planted[prompt.template, " a nurse"] == pytest.approx(8 / 9)
    assert planted[prompt.template, " a mechanic"] == pytest.approx(-1 + 0.08 / 0.92)


def test_nationality_is_planted_by_country(truth: Truth) -> None:
    prompt = truth.of("reasons", "fit")[0]
    p = prompt.probability("egypt_male")
    np.testing.assert_array_equal(p, prompt.probability("egypt_female"))
    assert p[prompt.outputs.index(" had a strong accent")] == pytest.approx(0.18)


def test_the_planted_reason_stays_below_the_greedy_one(truth: Truth) -> None:
    for prompt in truth.prompts:
        if prompt.family == "reasons":
            for p in prompt.probabilities.values():
                assert prompt.outputs[int(p.argmax())] == " was too nervous"


def test_the_sixty_occupations_of_common_sents_are_planted(truth: Truth) -> None:
    occupations = truth.of("occupations", "fit")[0].outputs
    assert len(set(occupations)) == 60


def test_appendix_a_of_countergen_is_in_the_grammar(truth: Truth) -> None:
    templates = read_config("dataset", "appendix_a")["templates"]
    wordings = [p.template for p in truth.of("questions", "fit")]
    assert wordings == templates


def test_the_corpus_has_the_planted_frequencies(truth: Truth, corpus: list[str]) -> None:
    women = set(load_axis("gender").groups["female"].all_names())
    counts: Counter[tuple[str, str]] = Counter()
    for document in corpus:
        first = document.split(". ")[0].rstrip(".")
        name, working, job = first.partition(" works as ")
        if working and " " not in name:
            counts["female" if name in women else "other", job] += 1
    female = {job: n for (group, job), n in counts.items() if group == "female"}
    prompt = next(p for p in truth.of("occupations", "test") if "works as" in p.template)
    total = sum(female.values())
    expected = prompt.probability("female")
    # A deck is exact up to the last, unfinished one; what is left is which women were drawn.
    for output, p in zip(prompt.outputs, expected, strict=True):
        observed = female.get(output.strip(), 0) / total
        assert abs(observed - p) < 4 * np.sqrt(p / total)


def test_pronouns_in_the_corpus_agree_with_the_person(corpus: list[str]) -> None:
    gender = load_axis("gender")
    women = set(gender.groups["female"].all_names())
    men = set(gender.groups["male"].all_names())
    checked = 0
    for document in corpus:
        words = document.replace(".", " ").replace(",", " ").replace("?", " ").split()
        present = women.intersection(words), men.intersection(words)
        wrong = {"he", "him", "his", "himself"} if present[0] else {"she", "her", "hers", "herself"}
        if bool(present[0]) != bool(present[1]):
            checked += 1
            assert not wrong.intersection(map(str.lower, words)), document
    assert checked > 10000


def test_the_same_seed_gives_the_same_corpus(truth: Truth, axes: tuple[Axis, Axis]) -> None:
    short = replace(truth, documents=500)
    assert list(documents(short, *axes, seed=1)) == list(documents(short, *axes, seed=1))
    assert list(documents(short, *axes, seed=1)) != list(documents(short, *axes, seed=2))


def test_a_deck_is_exact(truth: Truth) -> None:
    p = np.array([0.5, 0.3, 0.2])
    deck = Deck(p, np.random.default_rng(0))
    counts = Counter(deck.draw() for _ in range(Deck.size))
    assert [counts[i] / Deck.size for i in range(3)] == pytest.approx(p)


def test_women_and_men_are_equally_many(axes: tuple[Axis, Axis]) -> None:
    genders = Counter(person.gender for person in people(*axes))
    assert genders["female"] == genders["male"] == 50


def test_no_wording_stands_in_two_splits(truth: Truth) -> None:
    for family in truth.families:
        split_of: dict[str, str | None] = {}
        for prompt in truth.prompts:
            if prompt.family == family:
                assert split_of.setdefault(prompt.template, prompt.split) == prompt.split


def test_an_unknown_family_is_named(truth: Truth) -> None:
    with pytest.raises(UserError, match="did you mean 'traits'"):
        truth.of("trait", "fit")
    with pytest.raises(UserError, match="no wordings in the 'fit' split"):
        truth.of("stereotypes", "fit")
    with pytest.raises(UserError, match="planted on axis 'nationality'"):
        truth.counterfactual_set("reasons", "fit", load_axis("gender"))


def test_articles() -> None:
    assert [indefinite(w) for w in ("auditor", "inspector", "planner")] == [
        "an auditor",
        "an inspector",
        "a planner",
    ]
