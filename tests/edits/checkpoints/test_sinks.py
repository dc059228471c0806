"""Checkpoints of edits that skip tokens: carried to the bit."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from countergen_edit.edits import Edit, Placement
from countergen_edit.edits.checkpoints.parity import compared_ids, edited_logits, reload
from countergen_edit.edits.checkpoints.saving import write_model
from countergen_edit.erasers import Gate
from tests.edits.checkpoints.conftest import oblique_erasure
from tests.edits.test_sinks import TEXTS, fitted, sunk
from tests.planted_sink import SUNK

pytestmark = pytest.mark.slow  # every test is of whole runs


@pytest.fixture(scope="module")
def sunken():
    return {family: sunk(family) for family in SUNK}


def gated(model):
    """A gate of a weight so large that it is open at some tokens, half open or closed at others."""
    erasure = oblique_erasure(model.d_model)
    gate = Gate(np.random.default_rng(3).normal(size=model.d_model), 0.4)
    return Edit((Placement("resid_post", 1, replace(erasure, gate=gate)),))


def without(edit):
    bare = ((place, replace(place.erasure, gate=None)) for place in edit.placements)
    return Edit(tuple(replace(place, limit=None, erasure=erasure) for place, erasure in bare))


def test_a_carried_checkpoint_skips_the_same_tokens_and_opens_the_same_gate_to_the_bit(
    sunken, tmp_path
):
    """Also where another place has neither; a lost limit or gate would show."""
    jobs, expected = {}, {}
    for family, model in sunken.items():
        plain = Edit((Placement("attn_out", 1, oblique_erasure(model.d_model)),))
        ids = compared_ids(model, TEXTS)
        for kind, edit in (("limit", fitted(model) + plain), ("gate", gated(model) + plain)):
            name = f"{family}-{kind}"
            write_model(model, edit, tmp_path / name, "carried")
            jobs[name] = (tmp_path / name, ids, "float32", True)
            expected[name] = [edited_logits(model, edit, row) for row in ids]
            others = [edited_logits(model, without(edit), row) for row in ids]
            gaps = [(a - b).abs().max() for a, b in zip(expected[name], others, strict=True)]
            assert min(gaps) > 1e-2
    logits, keys = reload(jobs)
    assert not any(keys.values())
    for name, rows in expected.items():
        for i, row in enumerate(rows):
            assert torch.equal(logits[f"{name}.{i}"], row)
