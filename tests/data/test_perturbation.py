"""The rule-based perturber changes one person and leaves the others; the filters see the rest."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from countergen_edit.core.errors import UserError
from countergen_edit.data.fairpair import (
    COMMON_SENTS,
    OCCUPATIONS,
    Filter,
    PairedPrompt,
    RulePerturber,
    chosen_occupations,
    paired_prompts,
    with_occupations,
)
from tests.gender import GENDER, SWAP

TABLE = yaml.safe_load(Path(__file__).with_name("perturbation_table.yaml").read_text("utf-8"))
TO_JANE = RulePerturber(SWAP, "male", "female")
TO_JOHN = RulePerturber(SWAP, "female", "male")


def to_jane(text):
    return TO_JANE.perturb(text, "John", "Jane")


def to_john(text):
    return TO_JOHN.perturb(text, "Jane", "John")


def paper_prompt(occupation):
    texts = (f"{who} working as a {occupation}." for who in ("John is a man", "Jane is a woman"))
    return PairedPrompt(occupation, *texts, "John", "Jane")


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


@pytest.mark.parametrize(("perturbed", "reason"), TABLE["filters"].items())
def test_each_filter_gives_its_reason(perturbed, reason):
    original = "John is a man working as a nurse. He can work."
    assert Filter(SWAP).reason(original, perturbed, paper_prompt("nurse")) == reason


@settings(deadline=None)
@given(st.lists(st.sampled_from(TABLE["parts"]), min_size=1, max_size=5))
def test_twice_gives_a_text_about_one_person_back(parts):
    text = " ".join(["John is a man.", *parts])
    assert to_john(to_jane(text)) == text


def test_common_sents_are_the_papers():
    male, female = GENDER.groups["male"], GENDER.groups["female"]
    prompts = paired_prompts(
        with_occupations([COMMON_SENTS], OCCUPATIONS), male, female, ("John", "Jane")
    )
    assert len(OCCUPATIONS) == len(set(OCCUPATIONS)) == len(prompts) == 60
    assert prompts[0].source == "John is a man, working as a technician."
    assert prompts[0].target == "Jane is a woman, working as a technician."
    assert all(p.source.endswith(".") and " an a" not in f" {p.label}" for p in prompts)
    assert "working as an accountant" in prompts[1].source
    for prompt in prompts:
        assert to_jane(prompt.source) == prompt.target
        assert to_john(prompt.target) == prompt.source


def test_bad_settings_are_named():
    with pytest.raises(UserError, match="occupations=61"):
        chosen_occupations(61)
    male, female = GENDER.groups["male"], GENDER.groups["female"]
    for text, message in (("{name}.", "two people two names"), ("{nme}.", "mean 'name'")):
        with pytest.raises(UserError, match=message):
            paired_prompts([("", text)], male, female, ("Kim", "Kim"))
