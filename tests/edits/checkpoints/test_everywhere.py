"""A projection everywhere is the map at every point of the stream, in activations and in weights.

In float64 where transformers has it, with the writers of each family named by hand.
"""

import re
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from countergen_edit.core.errors import UserError
from countergen_edit.edits import Edit, Placement
from countergen_edit.edits.checkpoints import fold
from countergen_edit.edits.checkpoints.stock import stock_model, stream_writers
from countergen_edit.erasers import AffineErasure, Gate
from countergen_edit.models import from_pretrained_objects
from tests.edits.checkpoints.conftest import TEXT, logits, oblique_erasure
from tests.tiny_models import tiny_hf_model, tiny_tokenizer

WRITERS = yaml.safe_load(Path(__file__).with_name("writers.yaml").read_text("utf-8"))
NARROW = ("gpt_neox", "mixtral", "gpt_oss")
"""Families that transformers computes in float32, at least in part."""


@cache
def made(family):
    tokenizer = tiny_tokenizer()
    model = tiny_hf_model(family, tokenizer)
    model = model if family in NARROW else model.double()
    return from_pretrained_objects(family, model, tokenizer)


def assert_equal(model, actual, expected):
    atol = 1e-9 if model.dtype == torch.float64 else 1e-5
    torch.testing.assert_close(actual.double(), expected, atol=atol, rtol=atol)


def folded_logits(model, edit):
    return fold(model, edit)(torch.tensor([model.tokenizer(TEXT).input_ids])).logits[0]


def at_every_point(model, erasure):
    """Logits under the map itself before the first block, after attention and after each block."""
    of_blocks = product(range(model.n_layers), ("hook_resid_mid", "hook_out"))
    points = ["blocks.0.hook_in", *(f"blocks.{i}.{name}" for i, name in of_blocks)]
    hooks = [(p, lambda x, hook: erasure(x)) for p in points if p in model.bridge.hook_dict]
    with model.bridge.hooks(fwd_hooks=hooks):
        return logits(model)


@pytest.mark.parametrize("family", WRITERS)
def test_the_live_edit_is_the_map_at_every_point_and_folds_exactly(family):
    model, erasure = made(family), oblique_erasure(32)
    edit = Edit.at("everywhere", {1: erasure})
    live, unedited = logits(model, edit), logits(model)
    assert (live - unedited).abs().max() > 0.1
    assert_equal(model, at_every_point(model, erasure), live)
    assert_equal(model, folded_logits(model, edit), live)
    assert torch.equal(logits(model), unedited)


@pytest.mark.parametrize("family", WRITERS)
def test_the_folded_weights_are_the_formula_and_all_others_are_as_they_were(family):
    model, erasure = made(family), oblique_erasure(32)
    before = stock_model(model).state_dict()
    after = fold(model, Edit.at("everywhere", {1: erasure})).state_dict()
    projection = np.eye(32) - erasure.left @ erasure.right
    offset = erasure.left @ erasure.right @ erasure.mean
    embedding = next(iter(WRITERS[family]))
    assert before.keys() <= after.keys()
    for name, old in before.items():
        patterns = WRITERS[family].items()
        axis = next((a for pattern, a in patterns if re.fullmatch(pattern, name)), None)
        if axis is None:
            assert torch.equal(after[name], old), name
            continue
        expected = np.moveaxis(old.numpy(), axis, -1) @ projection.T
        if re.fullmatch(embedding, name) and "pos" not in name and "wpe" not in name:
            expected = expected + offset / (32**0.5 if family == "gemma" else 1)
        # Gemma multiplies embeddings by a float32.
        atol = 1e-12 if before[name].dtype == torch.float64 and family != "gemma" else 1e-6
        np.testing.assert_allclose(np.moveaxis(after[name].numpy(), axis, -1), expected, atol=atol)


@settings(max_examples=20)
@given(
    seed=st.integers(0, 2**32 - 1),
    rank=st.integers(1, 31),
    size=st.floats(0, 30),
    family=st.sampled_from(["gpt2", "gemma"]),
)
def test_the_fold_is_exact_for_any_projection_and_any_mean(seed, rank, size, family):
    model, rng = made(family), np.random.default_rng(seed)
    erasure = oblique_erasure(32, rank, seed, mean=size * rng.normal(size=32))
    edit = Edit.at("everywhere", {0: erasure})
    live = logits(model, edit)
    torch.testing.assert_close(folded_logits(model, edit), live, atol=1e-7, rtol=1e-7)


def test_several_maps_and_an_edit_of_one_layer_fold_in_their_order():
    model = made("gpt2")
    first, second = (Placement("everywhere", i, oblique_erasure(32, seed=i)) for i in (0, 2))
    within = Placement("mlp_out", 1, oblique_erasure(32, seed=7))
    for places in ((first, second, within), (within, second, first)):
        edit = Edit(places)
        live = logits(model, edit)
        assert_equal(model, folded_logits(model, edit), live)
        # The second acts on the stream of the first, as if that were a model of its own.
        changed = fold(model, Edit(places[:1]))
        alone = from_pretrained_objects("first", changed, model.tokenizer)
        assert_equal(model, logits(alone, Edit(places[1:])), live)


# What is refused


def test_only_a_projection_of_every_token_acts_everywhere():
    erasure = oblique_erasure(32)
    weaker = AffineErasure(0.7 * erasure.left, erasure.right, erasure.mean)
    gated = replace(erasure, gate=Gate(np.zeros(32), 0.5))
    for other, limit, reason in (
        (weaker, None, r"R L of this one differs from I by 0\.3"),
        (gated, None, "has a gate"),
        (erasure, 3.0, "skips attention sinks"),
    ):
        assert Placement("resid_post", 1, other, limit).limit == limit
        with pytest.raises(UserError, match=reason):
            Placement("everywhere", 1, other, limit)


@pytest.mark.parametrize(
    ("family", "reason"),
    [
        ("gemma2", "post_attention_layernorm, a Gemma2RMSNorm, is .* as behind a norm"),
        ("olmo2", "post_attention_layernorm, a Olmo2RMSNorm, is .* as behind a norm"),
        ("bloom", "input of its first block is not written by matrices alone, as behind a norm"),
        ("openai", "its blocks do more than add .* such as norm the sum"),
        ("opt_narrow", "a matrix stands between its token embedding and its blocks"),
    ],
)
def test_where_more_than_matrices_write_the_stream_nothing_is_folded(family, reason):
    model, edit = made(family), Edit.at("everywhere", {1: oblique_erasure(32)})
    for refused in (lambda: stream_writers(model), lambda: fold(model, edit)):
        with pytest.raises(UserError, match=f"does not fold into the weights of .*{reason}"):
            refused()
