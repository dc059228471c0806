"""What has been scored is kept by what it depends on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from countergen_edit.data.counterfactual import CounterfactualSet
from countergen_edit.edits import Edit, applied
from countergen_edit.erasers import AffineErasure
from countergen_edit.metrics.scores import ScoreCache, score
from countergen_edit.models import LanguageModel
from countergen_edit.testbed import load_axis, load_truth


@pytest.fixture(scope="module")
def data() -> CounterfactualSet:
    found = load_truth().counterfactual_set("stereotypes", "test", load_axis("gender"))
    return replace(found, samples=found.samples[:2])


def erasing(axis: int, d: int) -> AffineErasure:
    return AffineErasure.orthogonal(np.eye(d)[axis : axis + 1], np.zeros(d))


def test_sets_of_one_name_are_scored_apart(testbed: LanguageModel, data: CounterfactualSet) -> None:
    other, cache = replace(data, samples=data.samples[1:]), ScoreCache()
    for one in (data, other):
        np.testing.assert_allclose(
            cache.get(testbed, one, None).log_p, score(testbed, one).log_p, atol=1e-5
        )


def test_edits_are_scored_apart_whatever_they_are_called(
    testbed: LanguageModel, data: CounterfactualSet
) -> None:
    d, cache = testbed.d_model, ScoreCache()
    edits = [None, *(Edit.at("resid_post", {1: erasing(axis, d)}) for axis in range(3))]
    kept = [cache.get(testbed, data, edit).log_p for edit in edits]
    for edit, found in zip(edits, kept, strict=True):
        with applied(testbed, edit or Edit(())):
            np.testing.assert_allclose(found, score(testbed, data).log_p, atol=1e-5)
    assert len({found.tobytes() for found in kept}) == len(kept)


def test_a_set_and_an_edit_made_again_of_the_same_parts_are_not_scored_again(
    testbed: LanguageModel, data: CounterfactualSet
) -> None:
    d, cache = testbed.d_model, ScoreCache()
    parts = [Edit.at("resid_post", {layer: erasing(layer, d)}) for layer in (0, 1)]
    first = cache.get(testbed, data, parts[0] + parts[1])
    assert cache.get(testbed, replace(data), parts[0] + parts[1]) is first
    assert cache.get(testbed, data, parts[0]) is not first


def test_an_edit_that_is_gone_does_not_lend_its_scores_to_the_next(
    testbed: LanguageModel, data: CounterfactualSet
) -> None:
    """Python may give a new erasure the address of one that was let go."""
    cache = ScoreCache()
    for axis in range(4):
        cache.get(testbed, data, Edit.at("resid_post", {1: erasing(axis, testbed.d_model)}))
    assert len(cache.kept) == 4
