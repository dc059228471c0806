"""Stereotype goes, grammar stays: what `data=contexts eraser=preserving` is held to on the testbed.

Names and templates of the test split were neither fitted on nor chosen by.
"""

import numpy as np
import pytest

from countergen_edit.edits import Edit, applied
from countergen_edit.erasers import make_eraser
from countergen_edit.metrics.costs.agreement import agreement_rows
from countergen_edit.metrics.costs.neutral import neutral_cost
from countergen_edit.metrics.r.effect_rows import removed
from countergen_edit.metrics.r.formula import r_values
from countergen_edit.metrics.r.group_effect import GroupEffect
from countergen_edit.metrics.scores import score
from countergen_edit.runs.fit_data import capture_sites
from countergen_edit.testbed import load_axis, load_truth

pytestmark = pytest.mark.slow  # every test is of whole runs

FAMILIES = ("occupations", "traits", "hobbies")
TRUTH, GENDER = load_truth(), load_axis("gender")
NEUTRAL = TRUTH.neutral_texts()


def sets(split):
    return [TRUTH.counterfactual_set(family, split, GENDER) for family in FAMILIES]


def figures(model, edit):
    """Of each family, and the share of agreement."""
    with applied(model, edit):
        effects = [GroupEffect(score(model, data)) for data in sets("test")]
        scores = score(model, TRUTH.agreement_set("test", GENDER))
    return effects, agreement_rows(scores, 0)[0].value


def mean_abs_r(of_sets):
    return float(np.mean([np.abs(r_values(effect.scores)).mean() for effect in of_sets]))


def test_97_percent_of_the_bias_goes_and_grammar_and_perplexity_stay(testbed):
    data = capture_sites(
        testbed, sets("fit"), [TRUTH.agreement_set("fit", GENDER)], NEUTRAL[::5],
        sites=["resid_post"], layers=(4, 5), positions="outputs",
    )["resid_post"]  # fmt: skip
    eraser = make_eraser("preserving", rank="cv")
    edit = Edit.at("resid_post", {layer: data.fit(eraser, layer).erasure_ for layer in (4, 5)})
    (before, agreed), (after, agreed_after) = (figures(testbed, e) for e in (Edit(()), edit))
    share = removed(before, after)
    assert share.value >= 0.97
    assert share.lo >= 0.9
    # What is left of mean |R| is no more than what people of one group show.
    assert mean_abs_r(after) <= 0.07
    assert agreed - agreed_after <= 0.005
    texts = [text for i, text in enumerate(NEUTRAL) if i % 5][::4]
    cost = neutral_cost(testbed, edit, texts)
    change = (cost.nll_edited - cost.nll_unedited).sum() / cost.tokens.sum()
    assert np.exp(change) <= 1.01
