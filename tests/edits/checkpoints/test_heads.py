"""An edit at attention heads: its hook, and the weights it is folded into."""

from functools import reduce

import numpy as np
import pytest
import torch

from countergen_edit.edits import Edit, applied
from countergen_edit.edits.checkpoints import fold
from countergen_edit.edits.checkpoints.parity import edited_logits
from countergen_edit.models import capture, from_pretrained_objects
from tests.edits.checkpoints.conftest import TEXT, oblique_erasure
from tests.tiny_models import tiny_model

FOLDS = ("gpt2", "llama", "opt", "gpt_neox", "gemma")
"""With a transposed matrix and a bias; with a switch for a bias; with a bias."""


def edit_of(model, *heads, layer=1):
    d = int(model.bridge.cfg.d_head)
    erasures = {f"head.{head}": oblique_erasure(d, 1 + k % 2, k) for k, head in enumerate(heads)}
    return reduce(Edit.then, (Edit.at(site, {layer: e}) for site, e in erasures.items()))


@pytest.mark.parametrize("family", FOLDS)
def test_the_fold_is_the_hooked_model(family):
    model = tiny_model(family)
    after = Edit.at("attn_out", {1: oblique_erasure(model.d_model, 2, 9)})
    edit, ids = edit_of(model, 1, 0).then(after), model.tokenizer(TEXT).input_ids
    hooked, before = (edited_logits(model, e, ids) for e in (edit, Edit(())))
    assert (hooked - before).abs().max() > 0.1
    folded = from_pretrained_objects("folded", fold(model, edit), model.tokenizer)
    torch.testing.assert_close(edited_logits(folded, Edit(()), ids), hooked, atol=1e-5, rtol=0)
    torch.testing.assert_close(edited_logits(model, Edit(()), ids), before, atol=0, rtol=0)


def test_a_head_has_its_own_features_and_no_other_changes():
    """The rows of heads side by side are the input of the output matrix."""
    model = tiny_model("gpt2")
    sites = [f"head.{k}" for k in range(4)]
    edit = edit_of(model, 2)
    before = capture(model, [TEXT], sites=sites, layers=[1]).values
    with applied(model, edit):
        after = capture(model, [TEXT], sites=sites, layers=[1]).values
    for site in sites:
        expected = before[site][0]
        if site == "head.2":
            expected = edit.placements[0].erasure(expected)
        np.testing.assert_allclose(after[site][0], expected, atol=1e-5)
    d = int(model.bridge.cfg.d_head)
    assert {rows.shape[-1] for rows in before.values()} == {d}
