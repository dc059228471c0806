"""The shipped model carries the planted truth, for names and templates no edit is fitted on."""

from __future__ import annotations

import pytest
from safetensors import safe_open

from countergen_edit.data.axis import Split
from countergen_edit.metrics.r import mean_r
from countergen_edit.metrics.r.group_effect import GroupEffect
from countergen_edit.metrics.scores import score
from countergen_edit.models import LanguageModel
from countergen_edit.reports.verify_testbed import EVERY_FAMILY, verify_testbed
from countergen_edit.testbed import directory, load_axis, load_truth
from countergen_edit.testbed.corpus import people


@pytest.fixture(scope="module")
def values(testbed: LanguageModel) -> dict[tuple[str, str], float]:
    results = verify_testbed(testbed, load_truth())
    return {
        (r.metric, r.dataset if r.metric != "agreement" else r.group_a + r.group_b): r.value or 0.0
        for r in results
    }


def test_measured_r_and_group_effects_are_those_planted(
    values: dict[tuple[str, str], float],
) -> None:
    assert values["planted_r_correlation", "occupations"] >= 0.98
    for metric in ("group_effect_correlation", "planted_difference_correlation"):
        assert values[metric, EVERY_FAMILY] >= 0.98
    for groups in ("femalemale", "female", "male"):
        assert values["agreement", groups] >= 0.98
    for family in load_truth().leanings.families:
        assert values["leaning_across_correlation", family] >= 0.95


@pytest.mark.parametrize("family", list(load_truth().families))
def test_measured_r_is_near_planted_r_in_every_family(
    family: str, values: dict[tuple[str, str], float]
) -> None:
    # Where the people of a name come from is planted at 94 against 3 and 3 percent: the two rare
    # answers are seen some dozens of times a template, and R compares them with each other.
    # Reasons of several words share their family's sentences among ten, the rarest at 2 percent.
    most = {"origins": 0.2, "reasons": 0.12, "occupations": 0.05}.get(family, 0.08)
    assert 0 < values["planted_r_mean_abs_difference", family] <= most


@pytest.mark.parametrize("split", ["validation", "test"])
@pytest.mark.parametrize("family", ["drinks", "double_bind_baseline"])
def test_where_only_people_differ_no_group_effect_is_significant(
    family: str, split: Split, testbed: LanguageModel
) -> None:
    data = load_truth().counterfactual_set(family, split, load_axis("gender"))
    planted = load_truth().planted_effect(data.groups)
    assert max(abs(planted[s.template, o]) for s in data.samples for o in s.outputs) < 1e-9
    effect = GroupEffect(score(testbed, data))
    assert (effect.p_value or 0) > 0.05
    assert mean_r(effect.scores, 0)[1].value > 0.02  # for people do differ


def test_every_name_is_one_token(testbed: LanguageModel) -> None:
    for person in people(load_truth(), load_axis("gender")):
        for text in (person.name, f" {person.name}"):
            ids = testbed.tokenizer(text).input_ids
            assert len(ids) == 1, text
            assert testbed.tokenizer.decode(ids) == text


def test_the_weights_are_half_precision() -> None:
    with safe_open(directory() / "model.safetensors", "pt") as file:
        assert {str(file.get_tensor(k).dtype) for k in file.keys()} == {"torch.float16"}  # noqa: SIM118
