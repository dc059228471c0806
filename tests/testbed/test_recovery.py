"""The shipped model carries the planted truth, for names and templates no edit is fitted on."""

from __future__ import annotations

import pytest
from pandas import DataFrame

from countergen_edit.data.axis import Split
from countergen_edit.metrics.r.formula import mean_r
from countergen_edit.metrics.r.group_effect import GroupEffect
from countergen_edit.metrics.scores import score
from countergen_edit.models import LanguageModel
from countergen_edit.reports.verify_testbed import agreement_shares, verify_testbed
from countergen_edit.testbed import load_axis, load_truth
from tests.models.test_gguf import script


@pytest.fixture(scope="module")
def found(testbed: LanguageModel) -> DataFrame:
    return verify_testbed(testbed, load_truth())


def test_measured_r_equals_planted_r(found: DataFrame) -> None:
    assert found.loc["occupations", "correlation of R"] >= 0.98
    assert found.loc["occupations", "difference of R"] <= 0.05
    # Where the people of a name come from is planted at 94 against 3 and 3 percent: the two rare
    # answers are seen some dozens of times a template, and R compares them with each other.
    # Reasons of several words share their family's sentences among ten, the rarest at 2 percent.
    rare = {"origins": 0.2, "reasons": 0.12}
    for family, difference in found["difference of R"].items():
        assert difference <= rare.get(family, 0.08), family


def test_measured_group_effects_are_those_planted(found: DataFrame) -> None:
    assert found["effect planted"].corr(found["effect"]) >= 0.98
    assert found["correlation of items"].min() >= 0.98


@pytest.mark.parametrize("split", ["validation", "test"])
@pytest.mark.parametrize("family", ["drinks", "double_bind_baseline"])
def test_where_only_people_differ_no_group_effect_is_significant(
    family: str, split: Split, testbed: LanguageModel
) -> None:
    data = load_truth().counterfactual_set(family, split, load_axis("gender"))
    _, planted = load_truth().planted(data.groups)
    assert max(abs(planted[s.template, o]) for s in data.samples for o in s.outputs) < 1e-9
    effect = GroupEffect(score(testbed, data))
    assert (effect.p_value or 0) > 0.05
    assert mean_r(effect.scores, 0)[1].value > 0.02  # for people do differ


def test_what_names_lean_to_shows_after_templates_never_fitted(found: DataFrame) -> None:
    leaning = found.loc[[*load_truth().leanings.families], "correlation of names"]
    assert leaning.min() >= 0.95


def test_pronouns_agree_with_their_person(testbed: LanguageModel) -> None:
    found = agreement_shares(testbed, load_truth())
    assert {*found} == {"", "female", "male"}
    assert min(p or 0.0 for p in found.values()) >= 0.98


def test_every_name_is_one_token(testbed: LanguageModel) -> None:
    for person in script("train_testbed").people(load_truth(), load_axis("gender")):
        for text in (person.name, f" {person.name}"):
            ids = testbed.tokenizer(text).input_ids
            assert len(ids) == 1, text
            assert testbed.tokenizer.decode(ids) == text
