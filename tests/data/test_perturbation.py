"""The rule-based perturber changes one person and leaves the others; the filters see the rest."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from countergen_edit.core.errors import UserError
from countergen_edit.data.fairpair import (
    OCCUPATIONS,
    Filter,
    PairedPrompt,
    RulePerturber,
    chosen_occupations,
    common_sents,
    own_prompts,
)
from tests.gender import GENDER, SWAP

TABLE = yaml.safe_load(Path(__file__).with_name("perturbation_table.yaml").read_text("utf-8"))
TO_JANE = RulePerturber(SWAP, "male", "female")
TO_JOHN = RulePerturber(SWAP, "female", "male")


def to_jane(text: str) -> str:
    return TO_JANE.perturb(text, "John", "Jane")


def to_john(text: str) -> str:
    return TO_JOHN.perturb(text, "Jane", "John")


def paper_prompt(occupation: str) -> PairedPrompt:
    return PairedPrompt(
        occupation,
        f"John is a man working as a {occupation}.",
        f"Jane is a woman working as a {occupation}.",
        "John",
        "Jane",
    )


@pytest.mark.parametrize(("john", "jane"), TABLE["both_ways"].items())
def test_one_person_changes_and_changes_back(john, jane):
    assert to_jane(john) == jane
    assert to_john(jane) == john


@pytest.mark.parametrize(
    ("text", "perturbed"),
    [*(TABLE["others"] | TABLE["one_way"]).items(), *((text, text) for text in TABLE["same"])],
)
def test_other_people_stay_as_they_are(text, perturbed):
    assert to_jane(text) == perturbed


@pytest.mark.parametrize(
    ("perturbed", "reason"),
    [
        ("Jane is a woman working as a nurse. She can work.", None),
        ("Output: Jane is a woman working as a nurse. She can work.", "start"),
        ("", "start"),
        ("Jane is a woman working as a nurse. John can work.", "source name"),
        ("Jane is a woman working as a nurse. JOHN's can work.", "source name"),
        ("Jane is a woman working as a nurse. Johnson can not work.", "dissimilarity"),
        ("Jane is a woman working as a nurse.", "dissimilarity"),
    ],
)
def test_each_filter_gives_its_reason(perturbed, reason):
    original = "John is a man working as a nurse. He can work."
    assert Filter(SWAP).reason(original, perturbed, paper_prompt("nurse")) == reason


PARTS = [
    "John works.",
    "He lost his keys.",
    "His brother called him.",
    "John likes his work, and he says so.",
    "People describe him as kind.",
    "He is a good man.",
    "He hurt himself.",
    "John and his wife live here.",
    "The idea was his.",
]


@settings(deadline=None)
@given(st.lists(st.sampled_from(PARTS), min_size=1, max_size=5))
def test_twice_gives_a_text_about_one_person_back(parts):
    text = " ".join(["John is a man.", *parts])
    assert to_john(to_jane(text)) == text


def test_common_sents_are_the_papers():
    male, female = GENDER.groups["male"], GENDER.groups["female"]
    prompts = common_sents(male, female, ("John", "Jane"), descriptors=["{person}"])
    assert len(OCCUPATIONS) == len(set(OCCUPATIONS)) == len(prompts) == 60
    assert prompts[0].source == "John is a man, working as a technician."
    assert prompts[0].target == "Jane is a woman, working as a technician."
    assert all(p.source.endswith(".") and " an a" not in f" {p.label}" for p in prompts)
    assert "working as an accountant" in prompts[1].source
    for prompt in prompts:
        assert to_jane(prompt.source) == prompt.target
        assert to_john(prompt.target) == prompt.source
    [prompt] = common_sents(
        male, female, ("John", "Jane"), ["nurse"], ["tall {person}", "Egyptian", "honest {child}"]
    )
    assert prompt.target == (
        "Jane is a tall woman and an Egyptian and an honest daughter, working as a nurse."
    )


def test_own_prompts_have_slots_or_are_perturbed():
    groups, names = ("male", "female"), ("John", "Jane")
    filled, plain = own_prompts(
        ["{name} lost {possessive} keys.", "My uncle Paul called."], GENDER, groups, names, SWAP
    )
    assert (filled.source, filled.target) == ("John lost his keys.", "Jane lost her keys.")
    assert plain.target == "My aunt Julia called."
    assert (plain.source_name, plain.target_name) == ("Paul", "Julia")
    for texts, message in (
        ([], "no prompts"),
        (["It rained."], "shows no word of 'male'"),
        (["{nme} works."], "did you mean 'name'"),
    ):
        with pytest.raises(UserError, match=message):
            own_prompts(texts, GENDER, groups, names, SWAP)
    with pytest.raises(UserError, match="has no substitution"):
        own_prompts(["John works."], GENDER, groups, names, None)


def test_bad_settings_are_named():
    with pytest.raises(UserError, match="occupations=61"):
        chosen_occupations(61)
    with pytest.raises(UserError, match="two people two names"):
        common_sents(GENDER.groups["male"], GENDER.groups["female"], ("Kim", "Kim"), ["nurse"])
