"""Stereotype goes, grammar stays: what `data=contexts eraser=preserving` is held to on the testbed.

Names and templates of the test split were neither fitted on nor chosen by.
"""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest

from countergen_edit.data.axis import Split
from countergen_edit.edits import Edit, applied
from countergen_edit.erasers import make_eraser
from countergen_edit.metrics.costs.agreement import agreement_rows
from countergen_edit.metrics.costs.neutral import neutral_cost
from countergen_edit.metrics.r import r_values
from countergen_edit.metrics.r.group_effect import GroupEffect
from countergen_edit.metrics.r.paired import removed
from countergen_edit.metrics.scores import score
from countergen_edit.models import LanguageModel
from countergen_edit.runs.fit_data import FitData, capture_sites
from countergen_edit.testbed import load_axis, load_truth

pytestmark = pytest.mark.slow  # every test is of whole runs

FAMILIES = ("occupations", "traits", "hobbies")
NEUTRAL = load_truth().neutral_texts()


@pytest.fixture(scope="module")
def data(testbed: LanguageModel) -> FitData:
    truth, gender = load_truth(), load_axis("gender")
    return capture_sites(
        testbed,
        [truth.counterfactual_set(family, "fit", gender) for family in FAMILIES],
        [truth.agreement_set("fit", gender)],
        NEUTRAL[::5],
        sites=["resid_post"],
        layers=(4, 5),
        positions="outputs",
    )["resid_post"]


def fitted(data: FitData, layers: tuple[int, ...], **params: object) -> Edit:
    eraser = make_eraser("preserving", **params)
    return Edit.at("resid_post", {layer: data.fit(eraser, layer).erasure_ for layer in layers})


def effects(model: LanguageModel, edit: Edit | None, split: Split) -> list[GroupEffect]:
    truth, gender = load_truth(), load_axis("gender")
    with applied(model, edit) if edit is not None else nullcontext():
        sets = [truth.counterfactual_set(family, split, gender) for family in FAMILIES]
        return [GroupEffect(score(model, data)) for data in sets]


def mean_abs_r(of_sets: list[GroupEffect]) -> float:
    return float(np.mean([np.abs(r_values(effect.scores)).mean() for effect in of_sets]))


def agreement(model: LanguageModel, edit: Edit | None) -> float:
    with applied(model, edit) if edit is not None else nullcontext():
        scores = score(model, load_truth().agreement_set("test", load_axis("gender")))
    value = agreement_rows(scores, 0)[0].value
    assert value is not None
    return value


def test_97_percent_of_the_bias_goes_and_grammar_and_perplexity_stay(
    testbed: LanguageModel, data: FitData
) -> None:
    edit = fitted(data, (4, 5), rank="cv")
    before, after = (effects(testbed, e, "test") for e in (None, edit))
    share = removed(before, after)
    assert share.value >= 0.97
    assert share.lo >= 0.9
    # What is left of mean |R| is no more than what people of one group show.
    assert mean_abs_r(after) <= 0.07
    assert agreement(testbed, None) - agreement(testbed, edit) <= 0.005
    texts = [text for i, text in enumerate(NEUTRAL) if i % 5][::4]
    cost = neutral_cost(testbed, edit, texts)
    change = (cost.nll_edited - cost.nll_unedited).sum() / cost.tokens.sum()
    assert np.exp(change) <= 1.01
