"""Blocks run without the bridge's wrappers where nothing is hooked; outputs are the same bytes."""

from unittest.mock import patch

import pytest
import torch

from countergen_edit.edits.checkpoints.stock import stock_model
from countergen_edit.models import load_model
from tests.tiny_models import ENCODER_DECODERS, FAMILIES, tiny_model, tiny_model_dir

IDS = torch.arange(3, 51).reshape(4, 12)
MASK = torch.ones_like(IDS).index_put((torch.tensor(2), torch.tensor([9, 10, 11])), torch.tensor(0))
ON_DEMAND = ("hook_mlp_in", "hook_attn_in", "hook_q_input", "hook_k_input", "hook_v_input")
ON_DEMAND += ("hook_result",)  # the bridge computes these only where a setting asks for them


def logits(model):
    return model.logits(IDS, MASK)[MASK.bool()]


@pytest.mark.parametrize("family", FAMILIES)
def test_outputs_are_those_of_wrapped_and_of_stock_blocks(family):
    with patch("countergen_edit.models.language_model.run_stock_blocks"):
        wrapped = tiny_model(family)
    model = tiny_model(family)
    assert torch.equal(logits(model), logits(wrapped))
    plain = stock_model(model)(input_ids=IDS, attention_mask=MASK).logits
    assert torch.equal(logits(model), plain[MASK.bool()])


def test_hooks_and_weights_of_stock_modules_count():
    model = tiny_model("llama")
    before = logits(model)
    projection = model.bridge.blocks[1].original_component.mlp.original_component.down_proj
    linear = getattr(projection, "original_component", projection)
    handle = linear.register_forward_hook(lambda module, inputs, output: 2 * output)
    doubled = logits(model)
    handle.remove()
    assert torch.equal(logits(model), before)
    linear.weight = torch.nn.Parameter(2 * linear.weight)
    torch.testing.assert_close(logits(model), doubled)
    assert not torch.equal(doubled, before)


@pytest.mark.filterwarnings("ignore:A (forward )?hook:UserWarning")
@pytest.mark.parametrize("family", [*FAMILIES, *ENCODER_DECODERS])
def test_each_hook_point_does_what_it_does_in_a_wrapped_model(family, tmp_path):
    folder = tiny_model_dir(family, tmp_path)
    with patch("countergen_edit.models.language_model.run_stock_blocks"):
        wrapped = load_model(folder)
    model = load_model(folder)

    def double(x, hook):
        return 2 * x if isinstance(x, torch.Tensor) and x.is_floating_point() else x

    def run(lm, point):
        with lm.bridge.hooks(fwd_hooks=[(point, double)]), torch.no_grad():
            more = {"decoder_input_ids": IDS[:, :5]} if family in ENCODER_DECODERS else {}
            return lm.bridge.original_model(IDS, attention_mask=MASK, **more).logits

    points = [point for point in model.bridge.hook_dict if "blocks." in point]
    points = [point for point in points if point.rpartition(".")[2] not in ON_DEMAND]
    different = [p for p in points if not torch.equal(run(model, p), run(wrapped, p))]
    assert len(points) > 20
    assert different == []
