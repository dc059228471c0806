"""Resuming at a layer gives the logits of a full run, and really leaves the lower blocks out."""

from collections import Counter
from contextlib import ExitStack, contextmanager

import numpy as np
import pytest

from countergen_edit.core.errors import UserError
from countergen_edit.edits import Edit, applied
from countergen_edit.models import continuation_log_probs, load_model
from countergen_edit.models.resumption import Scratch, last_intact_block, resuming
from tests.edits.checkpoints.conftest import oblique_erasure
from tests.tiny_models import tiny_model_dir

PROMPTS = ["Jane is a", "John is an", "Jane is a nurse and she", "My friend Ahmed is a"]
OUTPUTS = [" nurse", " engineer, working", " works at the", " manager for his company"]
PAIRS = [(p, o) for p in PROMPTS for o in OUTPUTS]


def scores(model, edit=None):
    prompts, outputs = zip(*PAIRS, strict=True)
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        patch.setattr("countergen_edit.models.batching.CPU_TOKENS", 64)
        if edit is not None:
            stack.enter_context(applied(model, edit))
        return continuation_log_probs(model, prompts, outputs)


@contextmanager
def blocks_run(model):
    """Which blocks compute: counted where their attention or MLP is called."""
    ran = Counter()
    with ExitStack() as stack:
        for i, block in enumerate(model.bridge.blocks):
            child = block.mlp.register_forward_pre_hook(lambda *_, i=i: ran.update([i]))
            stack.callback(child.remove)
        yield ran


@pytest.mark.parametrize("site", ["resid_post", "mlp_out", "attn_out", "embed"])
def test_a_resumed_run_equals_a_full_one(site, lm):
    resumed, unedited = resuming(lm, range(lm.n_layers)), scores(lm)
    assert np.abs(scores(resumed) - unedited).max() < 1e-5
    for layer in [None] if site == "embed" else range(lm.n_layers):
        edit = Edit.at(site, {layer: oblique_erasure(lm.d_model, seed=1)})
        full = scores(lm, edit)
        assert np.abs(full - unedited).max() > 1e-2  # the edit does something
        for _ in range(2):  # remembered, then used
            assert np.abs(scores(resumed, edit) - full).max() < 1e-5


@pytest.mark.parametrize(
    ("site", "layer", "expected"),
    [
        ("resid_post", 0, {1, 2}),
        ("resid_post", 2, set()),
        ("mlp_out", 1, {1, 2}),
        ("embed", None, {0, 1, 2}),
    ],
)
def test_the_blocks_below_are_not_run(site, layer, expected, gpt2):
    resumed = resuming(gpt2, range(3))
    scores(resumed)
    edit = Edit.at(site, {layer: oblique_erasure(gpt2.d_model, seed=1)})
    above = Edit.at("resid_post", {2: oblique_erasure(gpt2.d_model, seed=2)})
    for applied_edit in (edit, edit if layer == 2 else edit.then(above)):
        with blocks_run(gpt2) as ran:
            scores(resumed, applied_edit)
        assert set(ran) == expected


def test_what_is_remembered_under_an_edit_is_what_the_edit_left_alone(llama):
    resumed = resuming(llama, range(2))
    low, high = (Edit.at("resid_post", {k: oblique_erasure(llama.d_model, seed=k)}) for k in (0, 1))
    for edit in (low, high, low):  # no unedited pass at all
        assert np.abs(scores(resumed, edit) - scores(llama, edit)).max() < 1e-5


def test_the_model_is_itself_again_afterwards(gpt2):
    def passes():
        return [b.original_component.__dict__.get("forward") for b in gpt2.bridge.blocks]

    def stop(x, hook):
        raise RuntimeError("stop")

    before, stock = scores(gpt2), passes()
    resumed = resuming(gpt2, range(3))
    scores(resumed)
    with (
        pytest.raises(RuntimeError, match="stop"),
        applied(resumed, Edit.at("resid_post", {1: oblique_erasure(gpt2.d_model, seed=1)})),
        gpt2.bridge.hooks(fwd_hooks=[("blocks.2.hook_out", stop)]),
    ):
        continuation_log_probs(resumed, ["Jane is a"], [" nurse"])
    assert np.array_equal(scores(gpt2), before)
    assert last_intact_block(gpt2) == 2
    assert passes() == stock


def test_half_precision_is_remembered_as_it_is(tmp_path):
    model = load_model(tiny_model_dir("llama", tmp_path / "llama"), dtype="bfloat16")
    edit = Edit.at("resid_post", {0: oblique_erasure(model.d_model, seed=1)})
    resumed = resuming(model, range(2))
    assert np.array_equal(scores(resumed), scores(model))
    assert np.array_equal(scores(resumed, edit), scores(model, edit))


def test_states_that_outgrow_memory_go_to_disk_and_come_back(gpt2, tmp_path):
    scratch = Scratch(budget=0, directory=tmp_path)
    resumed = resuming(gpt2, range(3), scratch)
    edit = Edit.at("resid_post", {1: oblique_erasure(gpt2.d_model, seed=1)})
    scores(resumed)
    assert isinstance(scratch.empty((3,), np.uint8), np.memmap)
    assert np.abs(scores(resumed, edit) - scores(gpt2, edit)).max() < 1e-5
    assert not list(tmp_path.iterdir())
    with pytest.raises(UserError, match=r"no room for .* GiB of activations"):
        scratch.empty((1 << 60,), np.uint8)
