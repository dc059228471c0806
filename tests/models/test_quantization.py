"""Quantised weights: how they are read, and that edits fitted on them are saved with full ones."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

import countergen_edit as ce
from countergen_edit.core.errors import UserError
from countergen_edit.models.loading import quantized
from tests.cli.support import fails, names, said, sets
from tests.tiny_models import tiny_model_dir

pytest.importorskip("bitsandbytes")

IDS = torch.arange(5, 25)[None]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_model_dir("wide_llama", tmp_path_factory.mktemp("models") / "tiny")


def logits(model):
    return model.logits(IDS, torch.ones_like(IDS)).double().numpy().ravel()


@pytest.mark.parametrize("bits", ["4bit", "8bit"])
def test_linear_layers_have_few_bits_and_logits_are_near(folder, bits):
    full, few = ce.load(folder), ce.load(folder, quantization=bits)
    assert (full.is_quantized, few.is_quantized) == (False, True)
    stock = few.bridge.original_model
    small = [p for p in stock.parameters() if p.dtype in (torch.uint8, torch.int8)]
    assert len(small) == 2 * 7  # four of attention and three of the MLP in each block
    assert full.fingerprint != few.fingerprint
    assert np.corrcoef(logits(full), logits(few))[0, 1] > (0.9 if bits == "4bit" else 0.99)
    assert not np.array_equal(logits(full), logits(few))


def test_four_bits_are_multiplied_in_the_precision_of_the_model(folder):
    from bitsandbytes.functional import dequantize_4bit

    few = ce.load(folder, quantization="4bit")
    stock = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    with torch.no_grad():
        for name, weight in few.bridge.original_model.named_parameters():
            if weight.dtype == torch.uint8:
                key = name.replace("._original_component", "")
                stock.get_parameter(key).copy_(dequantize_4bit(weight.data, weight.quant_state))
        expected = stock(IDS).logits.double().numpy().ravel()
    np.testing.assert_allclose(logits(few), expected, atol=1e-4)


def test_other_names_are_refused_and_so_is_what_needs_full_weights(folder):
    with pytest.raises(UserError, match="unknown quantization '4bits': did you mean '4bit'"):
        ce.load(folder, quantization="4bits")
    few = ce.load(folder, quantization="4bit")
    task = ce.task("gender", "testbed", names={"fit": 4, "validation": 4, "test": 4})
    for how in ({"erasers": "distilled"}, {"erasers": "leace", "layers": "everywhere"}):
        with pytest.raises(UserError, match=r"full weights: leave model\.quantization out, or"):
            ce.audit(few, task, **how)


def test_a_classifier_and_a_missing_package_end_in_one_line(folder, here, monkeypatch):
    line = fails("classifiers", "model.quantization=4bit", "run_dir=run")
    assert "leave model.quantization out" in line
    assert not [*here.iterdir()]
    monkeypatch.setattr("countergen_edit.models.loading.find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install 'countergen-edit\[quantization\]'"):
        ce.load(folder, quantization="4bit")


def test_quantised_files_are_read_and_their_edits_are_not_saved(folder, here):
    few = AutoModelForCausalLM.from_pretrained(
        folder, quantization_config=quantized("4bit", torch.float32), dtype=torch.float32
    )
    stored = here / "stored"
    few.save_pretrained(stored)
    AutoTokenizer.from_pretrained(folder).save_pretrained(stored)
    read, rounded = ce.load(stored), ce.load(folder, quantization="4bit")
    np.testing.assert_array_equal(logits(read), logits(rounded))
    line = fails("edit", f"model={stored}", "save=saved", "run_dir=run")
    assert "has quantised weights alone" in line
    assert [*here.iterdir()] == [stored]


@pytest.mark.slow
def test_an_edit_of_quantised_weights_is_saved_with_full_ones(folder, here):
    small = [names(4, 3, 3, 2, few=4), *sets("traits"), "metric=r", "cost=null"]
    fit = ["eraser=mean_difference", "edit.layers=[1]", "model.quantization=4bit", *small]
    save = ["form=carried", "save=made", "run_dir=run"]
    printed = said("edit", f"model={folder}", *fit, *save)
    assert "All figures are of quantised weights" in printed
    # A run on quantised weights is saved without them, too.
    said("edit", "run=run", "form=carried", "save=again")
    full = load_file(folder / "model.safetensors")
    for place in (here / "made", here / "again"):
        assert "quantised weights" in (place / "README.md").read_text("utf-8")
        [weights] = place.glob("*model*.safetensors")
        saved = load_file(weights)
        assert all(torch.equal(saved[key], full[key]) for key in full)
        edited = ce.load(place)
        assert not edited.is_quantized
        assert not np.array_equal(logits(edited), logits(ce.load(folder)))
    manifest = json.loads((here / "run/manifest.json").read_text("utf-8"))
    assert manifest["is_quantized"]
    assert manifest["model_hash"] != ce.load(folder).fingerprint
