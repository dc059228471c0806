"""An edit acts in scoring and in generation, on every family, and leaves no trace when removed.

It holds erasures, steering vectors, and words before a text.
"""

import numpy as np
import pytest
import torch

from countergen_edit.core.errors import UserError
from countergen_edit.edits import Edit, Placement, Shift, applied
from countergen_edit.edits.checkpoints import save_checkpoint
from countergen_edit.erasers import AffineErasure
from countergen_edit.models import (
    capture,
    continuation_log_probs,
    generate,
    load_model,
    preface_ids,
    resuming,
)
from tests.edits.checkpoints.conftest import logits
from tests.tiny_models import tiny_model_dir

PROMPTS = ["Jane is a nurse and", "John works at the hospital", "Ahmed was asked why"]
SITES = ["resid_post", "attn_out", "mlp_out"]
WORDS = "they told Emily a story.\n"


def random_erasure(d=32, seed=0):
    rng = np.random.default_rng(seed)
    basis, _ = np.linalg.qr(rng.normal(size=(d, 2)))
    return AffineErasure(basis, basis.T, rng.normal(size=d))


@pytest.fixture(scope="module")
def gpt2(models):
    return models["gpt2"]


def scores(model):
    return continuation_log_probs(model, PROMPTS, [" for her friends"] * len(PROMPTS))


@pytest.mark.parametrize("site", [*SITES, "embed"])
def test_the_edited_activation_is_the_paper_formula_and_removing_it_leaves_no_bit(model, site):
    erasure, layer = random_erasure(), None if site == "embed" else 1
    unedited, unedited_scores = logits(model), scores(model)
    before = capture(model, PROMPTS, sites=(site,), layers=[1]).values[site][0].astype(np.float64)
    with applied(model, Edit.at(site, {layer: erasure})):
        after = capture(model, PROMPTS, sites=(site,), layers=[1]).values[site][0]
        assert np.abs(scores(model) - unedited_scores).max() > 1e-4
    # CounterGen 3.4: x - Σ_k <x - m, d_k> d_k, written out
    expected = before.copy()
    for direction in erasure.right:
        expected -= ((before - erasure.mean) @ direction)[:, None] * direction
    np.testing.assert_allclose(after, expected, atol=1e-5)
    assert torch.equal(logits(model), unedited)


def test_edits_compose_and_are_removed_one_by_one(gpt2):
    a = Edit.at("attn_out", {0: random_erasure(seed=1)})
    b = Edit.at("resid_post", {1: random_erasure(seed=2)})
    before = logits(gpt2)
    together = logits(gpt2, a + b)
    with applied(gpt2, a):
        with_first = logits(gpt2)
        with applied(gpt2, b):
            assert torch.equal(logits(gpt2), together)
        assert torch.equal(logits(gpt2), with_first)
    with pytest.raises(RuntimeError), applied(gpt2, a):  # an exception removes it too
        raise RuntimeError
    assert torch.equal(logits(gpt2), before)
    assert not torch.equal(with_first, before)


def test_half_precision_activations_are_erased_in_float32(tmp_path):
    model = load_model(tiny_model_dir("llama", tmp_path), dtype="bfloat16")
    erasure = random_erasure()
    with applied(model, Edit.at("resid_post", {0: erasure})):
        after = capture(model, PROMPTS, layers=[0]).values["resid_post"][0]
    left = (after - erasure.mean) @ erasure.right.T
    assert np.abs(left).max() < 0.1  # bfloat16 keeps eight bits of the output


@pytest.mark.parametrize(
    ("site", "layer", "d", "message"),
    [
        ("resid_post", 0, 16, r"width 16, but model .* has width 32"),
        ("resid_pst", 0, 32, "did you mean 'resid_post'"),
        ("resid_post", 3, 32, "layer 3"),
        ("head.9", 1, 8, r"unknown head.9 of .*: heads are 0\.\.3"),
        ("head.x", 1, 8, "unknown site 'head.x': did you mean 'head"),
    ],
)
def test_an_edit_that_does_not_fit_is_refused(gpt2, site, layer, d, message):
    edit = Edit.at(site, {layer: random_erasure(d)})
    with pytest.raises(UserError, match=message), applied(gpt2, edit):
        pass


def test_two_erasures_at_one_place_and_a_shift_by_nan_are_refused():
    edit = Edit.at("resid_post", {0: random_erasure(8)})
    with pytest.raises(UserError, match="two erasures at site 'resid_post', layer 0"):
        edit + edit
    with pytest.raises(UserError, match="vector of a shift must"):
        Shift(np.array([1.0, np.nan]))


# Steering vectors and words


VECTOR = np.random.default_rng(0).normal(size=32)


def shifting(limit=None):
    return Edit((Placement("resid_post", 0, Shift(VECTOR), limit),))


ERASING = Edit.at("resid_post", {1: random_erasure(seed=1)})


def test_a_shift_is_the_vector_that_a_plain_hook_adds(model):
    added, before = torch.tensor(VECTOR, dtype=torch.float32), scores(model)
    with model.bridge.hooks(fwd_hooks=[("blocks.0.hook_out", lambda x, hook: x + added)]):
        expected = scores(model)
    with applied(model, shifting()) as shifted:
        np.testing.assert_allclose(scores(shifted), expected, atol=1e-5)
    assert np.abs(expected - before).max() > 1e-3
    with applied(model, shifting(limit=1e-6)) as shifted:  # below every token's norm
        np.testing.assert_allclose(scores(shifted), before, atol=1e-6)
    np.testing.assert_array_equal(scores(model), before)


def test_words_act_in_the_model_that_is_yielded_with_the_erasure_beside_them(model):
    both, before = Edit(ERASING.placements, WORDS), scores(model)
    asked = model.with_preface(preface_ids(model, WORDS))
    with applied(asked, ERASING):
        expected = scores(asked)
        text = generate(asked, PROMPTS, max_new_tokens=4)
    for lm in (model, resuming(model, [0, 1])):
        with applied(lm, both) as edited:
            np.testing.assert_allclose(scores(edited), expected, atol=1e-5)
            assert generate(edited, PROMPTS, max_new_tokens=4) == text
    np.testing.assert_array_equal(scores(model), before)


def test_words_are_refused_where_they_cannot_act(gpt2, tmp_path):
    prompting = Edit((), WORDS)
    with pytest.raises(UserError, match="choose one"):
        prompting + prompting
    assert (prompting + ERASING).preface == WORDS
    for edit in (prompting, shifting(), Edit(ERASING.placements, WORDS)):
        with pytest.raises(UserError, match="a checkpoint holds erasures"):
            save_checkpoint(gpt2, edit, tmp_path / "saved")
    assert not (tmp_path / "saved").exists()
