"""GGUF files: what was written is what is loaded, audited, edited, saved and loaded again."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import countergen_edit as ce
from countergen_edit.core.errors import UserError
from countergen_edit.models import encode, load_model
from countergen_edit.models.loading import load_plain
from tests.tiny_gguf import ARCHITECTURES, write_gguf
from tests.tiny_models import BOS, tiny_hf_model, tiny_tokenizer

gguf = pytest.importorskip("gguf", reason="pip install 'countergen-edit[gguf]'")

KINDS = ("F16", "Q8_0", "Q4_1")
SCRIPTS = Path(ce.__file__).parent.parent / "scripts"


def script(name):
    """A module of `scripts`, which is no package: it runs as `python scripts/NAME.py`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(SCRIPTS)
        return importlib.import_module(name)


def tiny(family):
    tokenizer = tiny_tokenizer(bos=True)
    return tiny_hf_model(family, tokenizer), tokenizer


def written(path, family="llama", kind="Q4_1", **fields):
    write_gguf(path, *tiny(family), kind, **fields)
    return path


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("family", ARCHITECTURES)
def test_the_weights_are_those_that_were_written(tmp_path, family, kind):
    model, tokenizer = tiny(family)
    weights = write_gguf(tmp_path / "tiny.gguf", model, tokenizer, kind)
    loaded, _ = load_plain(tmp_path / "tiny.gguf", "float32")
    state = loaded.state_dict()
    for name, values in weights.items():
        np.testing.assert_array_equal(state[name].numpy(), values, err_msg=name)
    assert state.keys() - weights.keys() <= {"lm_head.weight"}
    model.load_state_dict({n: torch.from_numpy(v) for n, v in weights.items()}, strict=False)
    ids = torch.tensor([tokenizer("Jane is a nurse")["input_ids"]])
    torch.testing.assert_close(loaded.eval()(ids).logits, model(ids).logits, rtol=0, atol=1e-5)


def test_logits_are_those_of_a_llama_that_numpy_computes_from_the_file(tmp_path):
    path = written(tmp_path / "tiny.gguf")
    model = ce.load(path, device="cpu")
    ids = encode(model, ["John is an engineer, working as a manager"])[0].ids
    reference = script("gguf_in_numpy").NumpyModel(path)
    row = torch.tensor([ids])
    logits = model.logits(row, torch.ones_like(row))[0].numpy()
    np.testing.assert_allclose(logits, reference.logits(ids), rtol=0, atol=2e-5)
    state = dict(load_plain(path, "float32")[0].state_dict())
    for name, values in reference.as_transformers():
        np.testing.assert_array_equal(state[name].numpy(), values, err_msg=name)


@pytest.mark.parametrize(
    ("fields", "begins"),
    [
        ({}, False),
        ({"add_add_bos_token": False}, False),
        ({"add_add_bos_token": True}, True),
        ({"add_tokenizer_pre": "llama-bpe"}, True),
        ({"add_tokenizer_pre": "llama-bpe", "add_add_bos_token": False}, False),
    ],
)
def test_texts_begin_as_the_file_says_here_and_once_saved(tmp_path, fields, begins):
    _, plain = tiny("llama")
    model = load_model(written(tmp_path / "tiny.gguf", **fields), device="cpu")
    model.tokenizer.save_pretrained(tmp_path / "saved")
    from transformers import AutoTokenizer

    for tokenizer in (model.tokenizer, AutoTokenizer.from_pretrained(tmp_path / "saved")):
        for text in ("Jane is a nurse", "The naïve café", "Jane<|endoftext|>"):
            tokens = plain(text, add_special_tokens=False)["input_ids"]
            bos = [plain.convert_tokens_to_ids(BOS)] if begins else []
            assert tokenizer(text)["input_ids"] == bos + tokens
    assert model.tokenizer.bos_token == BOS


def test_what_is_made_of_a_file_remembers_it_and_is_the_same_model_wherever_it_lies(tmp_path):
    path = written(tmp_path / "tiny.gguf")
    model = ce.load(str(path), device="cpu")
    assert (model.name, model.origin["file"]) == (str(path), "tiny.gguf")
    assert len(model.origin["sha256"]) == 64
    assert model.origin["weights"] == "a 4-bit rounding (Q4_1), dequantised"
    for part in load_plain(path, "float32"):
        part.save_pretrained(tmp_path / "plain")
    assert str(tmp_path) not in (tmp_path / "plain" / "config.json").read_text("utf-8")
    plain = ce.load(tmp_path / "plain", device="cpu")
    assert plain.origin == model.origin
    moved = ce.load(path.rename(tmp_path / "other.gguf"), device="cpu")
    assert plain.fingerprint == moved.fingerprint == model.fingerprint
    halves = load_model(written(tmp_path / "half.gguf", kind="F16"), device="cpu")
    assert halves.origin["weights"] == "weights as stored (F16)"
    assert halves.fingerprint != model.fingerprint


def test_what_lies_beside_a_file_is_another_models(tmp_path):
    expected = load_model(written(tmp_path / "tiny.gguf"), device="cpu")
    tiny_hf_model("gpt2", tiny_tokenizer()).save_pretrained(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    (tmp_path / "tokenizer_config.json").write_text("{")
    model = load_model(tmp_path / "tiny.gguf", device="cpu")
    assert model.fingerprint == expected.fingerprint
    assert encode(model, ["Jane"])[0].ids == encode(expected, ["Jane"])[0].ids


def test_a_weight_that_transformers_leaves_out_is_told(tmp_path):
    more = {"rope_freqs.weight": np.ones(4, dtype=np.float32)}
    path = written(tmp_path / "tiny.gguf", tensors=more)
    with pytest.warns(UserWarning, match=r"leaves out 4 of the [\d,]+ numbers in .*tiny\.gguf"):
        load_model(path, device="cpu")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"with_tokenizer": False}, r"^no usable tokenizer in .*tiny\.gguf"),
        ({"add_tokenizer_model": "rwkv"}, r"^no usable tokenizer in .*tiny\.gguf .*rwkv"),
        ({"architecture": "clip"}, r"^cannot read the config of .*tiny\.gguf: .*clip"),
    ],
)
def test_a_file_of_which_no_model_can_be_made_is_refused_in_one_line(tmp_path, fields, message):
    with pytest.raises(UserError, match=message) as error:
        load_model(written(tmp_path / "tiny.gguf", **fields))
    assert "\n" not in str(error.value)


def test_files_that_are_no_whole_gguf_are_named(tmp_path, monkeypatch):
    path = written(tmp_path / "tiny.gguf")
    with pytest.raises(UserError, match=r"holds no config\.json: give its file .*/tiny\.gguf"):
        load_model(tmp_path)
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(path.read_bytes()[:-4000])
    with pytest.raises(UserError, match=r"cut\.gguf is not a whole GGUF file"):
        load_model(cut)
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(UserError, match=r"pip install 'countergen-edit\[gguf\]'"):
        load_model(path)
