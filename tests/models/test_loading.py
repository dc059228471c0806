from __future__ import annotations

import copy
import json
import math
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, pre_tokenizers, processors
from tokenizers.models import BPE
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from countergen_edit.core.errors import UserError
from countergen_edit.core.locating import Location, locate
from countergen_edit.models import (
    capture,
    continuation_log_probs,
    encode,
    from_pretrained_objects,
    generate,
    load,
)
from countergen_edit.models.language_model import adds_bos
from countergen_edit.models.loading import set_bos
from tests.tiny_models import BOS, END, tiny_hf_model, tiny_tokenizer


def edited_config(source: Path, target: Path, **changes: object) -> Path:
    shutil.copytree(source, target)
    config = json.loads((target / "config.json").read_text())
    (target / "config.json").write_text(json.dumps(config | changes))
    return target


def test_a_loaded_model_is_frozen_in_eval_mode_and_knows_its_sizes(lm, plain):
    model = lm.bridge.original_model
    assert not any(module.training for module in model.modules())
    assert not any(parameter.requires_grad for parameter in model.parameters())
    config = plain[0].config
    assert lm.n_layers == config.num_hidden_layers
    assert (lm.d_model, lm.context_length, lm.vocab_size) == (32, 64, config.vocab_size)
    assert (lm.device.type, lm.dtype) == ("cpu", torch.float32)


def test_tokens_are_those_of_the_models_own_tokenizer(lm, plain):
    texts = ["Jane is a nurse", "The naïve café", ""]
    table = plain[1](texts, return_offsets_mapping=True)
    encodings = encode(lm, texts)
    assert [e.ids for e in encodings] == table["input_ids"]
    assert [e.offsets for e in encodings] == table["offset_mapping"]


def test_a_directory_needs_no_network(tiny_dirs, monkeypatch):
    def refuse(*arguments):
        raise AssertionError("the network was used")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    load(tiny_dirs["opt"], device="cpu")


def test_the_fingerprint_is_that_of_the_weights_wherever_they_lie(tiny_dirs, gpt2, tmp_path):
    moved = shutil.copytree(tiny_dirs["gpt2"], tmp_path / "moved")
    assert load(moved, device="cpu").fingerprint == gpt2.fingerprint
    other = load(moved, device="cpu")
    other.bridge.original_model.get_input_embeddings().weight[0, 0] += 1
    assert other.fingerprint != gpt2.fingerprint
    assert load(moved, device="cpu", dtype="bfloat16").fingerprint != gpt2.fingerprint


def test_a_model_in_memory_scores_like_the_same_model_saved(tmp_path):
    tokenizer = tiny_tokenizer()
    model = tiny_hf_model("gpt_neox", tokenizer)
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    before = copy.deepcopy(tokenizer.special_tokens_map)
    in_memory = from_pretrained_objects("tiny", model.train(), tokenizer)
    assert in_memory.tokenizer is tokenizer
    assert tokenizer.special_tokens_map == before
    pair = (["Jane is"], [" a nurse"])
    np.testing.assert_array_equal(
        continuation_log_probs(in_memory, *pair),
        continuation_log_probs(load(tmp_path, device="cpu"), *pair),
    )


def test_importing_the_room_imports_no_model_library():
    code = (
        "import sys, countergen_edit.models; "
        "sys.exit(any(m in sys.modules for m in ('transformers', 'transformer_lens', 'rich')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (Path("nope"), {}, "no such model directory: nope"),
        ("a b", {}, "neither a directory nor a valid hub id.*model=/path/to/directory"),
        ("", {}, "no model given"),
        ("gpt2", {"device": "cdua"}, "unknown device 'cdua': did you mean 'cuda'"),
        ("gpt2", {"device": "cuda:99"}, "device=cuda:99 is not available here"),
        ("gpt2", {"dtype": "bf16"}, "unknown dtype 'bf16': did you mean 'bfloat16'"),
        ("gpt2", {"device": "cpu", "device_map": "auto"}, "exclude each other"),
    ],
)
def test_bad_arguments_are_named_before_anything_is_loaded(model, options, message):
    with pytest.raises(UserError, match=message):
        load(model, **options)


def test_code_of_a_tokenizer_is_not_run_and_nobody_is_asked_whether_to(
    tiny_dirs, tmp_path, monkeypatch
):
    target = shutil.copytree(tiny_dirs["llama"], tmp_path / "own")
    (target / "own.py").write_text(f"open({str(tmp_path / 'marker')!r}, 'w').close()\n")
    words = json.loads((target / "tokenizer_config.json").read_text())
    words |= {"tokenizer_class": "Own", "auto_map": {"AutoTokenizer": [None, "own.Own"]}}
    (target / "tokenizer_config.json").write_text(json.dumps(words))
    monkeypatch.setattr("builtins.input", lambda question: "y")
    with pytest.raises(UserError, match="no usable tokenizer"):
        load(target)
    assert not (tmp_path / "marker").exists()


def test_a_slow_tokenizer_is_named():
    with pytest.raises(UserError, match=r"tokenizer of tiny \(object\) is slow"):
        from_pretrained_objects("tiny", None, object())


def test_an_unknown_architecture_is_named(tiny_dirs, tmp_path):
    unknown = edited_config(tiny_dirs["gpt2"], tmp_path / "a", model_type="martian")
    with pytest.raises(UserError, match="unknown architecture 'martian'"):
        load(unknown)
    (unknown / "config.json").write_text("{")
    with pytest.raises(UserError, match="cannot read the config of"):
        load(unknown)
    (unknown / "config.json").write_text("[]")
    with pytest.raises(UserError, match=r"^config\.json of .*=\[\]: write a mapping"):
        load(unknown)
    mistyped = edited_config(tiny_dirs["gpt2"], tmp_path / "b", n_embd="abc")
    with pytest.raises(UserError, match=r"cannot read the config of .*n_embd"):
        load(mistyped)


def test_an_architecture_that_the_bridge_lacks_is_named(tmp_path):
    from transformers import CTRLConfig, CTRLLMHeadModel

    config = CTRLConfig(vocab_size=400, n_embd=32, n_layer=1, n_head=2, dff=32)
    CTRLLMHeadModel(config).save_pretrained(tmp_path)
    with pytest.raises(UserError, match="unknown architecture CTRLLMHeadModel"):
        load(tmp_path)


@pytest.mark.parametrize("name", ["GPT2ForSequenceClassification", "T5EncoderModel"])
def test_what_is_no_causal_model_is_refused(tiny_dirs, tmp_path, name):
    import transformers

    if name.startswith("T5"):
        config = transformers.T5Config(vocab_size=400, d_model=32, num_layers=1, num_heads=2)
    else:
        config = transformers.AutoConfig.from_pretrained(tiny_dirs["gpt2"])
    getattr(transformers, name)(config).save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    with pytest.raises(UserError, match=f"is a {name}, not a causal language model"):
        load(tmp_path)


def test_weights_that_would_be_random_are_named(tiny_dirs, tmp_path):
    headless = tmp_path / "headless"
    tokenizer = tiny_tokenizer()
    tiny_hf_model("gpt_neox", tokenizer).gpt_neox.save_pretrained(headless)
    tokenizer.save_pretrained(headless)
    with pytest.raises(
        UserError, match=r"lacks 1 weights of a GPTNeoXForCausalLM.*: lm_head\.weight$"
    ):
        load(headless)
    wider = edited_config(tiny_dirs["gpt2"], tmp_path / "wider", n_embd=64)
    with pytest.raises(UserError, match=r"lacks \d+ weights .*transformer\.h\.0"):
        load(wider)


@pytest.mark.parametrize(
    ("removed", "name", "content", "message"),
    [
        ("model.safetensors", "model.safetensors", b"not weights", "cannot load the weights"),
        ("model.safetensors", "other", b"", "cannot load the weights"),
        ("model.safetensors", "pytorch_model.bin", b"not a pickle", "the weights of"),
        ("tokenizer*", "other", b"", r"tokenizer .*in .*tokenizer\.save_pretrained"),
        ("config.json", "other", b"", r"holds no config\.json"),
    ],
)
def test_files_that_are_absent_or_broken_are_named(
    tiny_dirs, tmp_path, removed, name, content, message
):
    target = shutil.copytree(tiny_dirs["gpt2"], tmp_path / "broken")
    for file in target.glob(removed):
        file.unlink()
    (target / name).write_bytes(content)
    with pytest.raises(UserError, match=message):
        load(target)
    with pytest.raises(UserError, match="is a file"):
        load(target / name)


@pytest.mark.parametrize("is_cached", [False, True])
def test_an_unreachable_hub_is_tried_once_before_the_cache(monkeypatch, is_cached):
    import huggingface_hub

    timeouts = []

    def no_answer(url, *, timeout):
        timeouts.append(timeout)
        raise ConnectionError

    path = "/cache/config.json" if is_cached else None
    monkeypatch.setattr(huggingface_hub, "get_hf_file_metadata", no_answer)
    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda *a, **k: path)
    if is_cached:
        expected = Location("gpt2", local_files_only=True, revision="main")
        assert locate("gpt2", "main") == expected
    else:
        with pytest.raises(UserError, match=r"cannot be reached .*model=/path/to/directory"):
            load("nobody/has-this-model")
    assert timeouts == [5.0]


def test_weights_of_layers_that_the_config_lacks_are_not_dropped(tiny_dirs, tmp_path):
    shallow = edited_config(tiny_dirs["gpt2"], tmp_path / "shallow", n_layer=2)
    with pytest.raises(UserError, match=r"\d+ weights of layers .*dropped: transformer\.h\.2\."):
        load(shallow)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_weight_that_is_no_finite_number_is_named(tiny_dirs, tmp_path, value):
    target = shutil.copytree(tiny_dirs["gpt2"], tmp_path / "broken")
    weights = load_file(target / "model.safetensors")
    weights["transformer.h.1.mlp.c_fc.bias"][3] = value
    save_file(weights, target / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(UserError, match=r"1 weights .*NaN or infinity: .*h\.1\.mlp\.c_fc\.bias$"):
        load(target)


def test_a_pickle_that_would_run_code_is_refused_and_runs_none(tiny_dirs, tmp_path):
    class Runs:
        def __reduce__(self):
            return Path.touch, (tmp_path / "ran",)

    target = shutil.copytree(tiny_dirs["gpt2"], tmp_path / "unsafe")
    (target / "model.safetensors").unlink()
    torch.save({"transformer.wte.weight": Runs()}, target / "pytorch_model.bin")
    with pytest.raises(UserError, match="which could run code") as refused:
        load(target)
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "ran").exists()


TEXT = "Jane is a naïve café owner."


def byte_tokenizer(before: str, after: str, bos: str | None = BOS) -> Any:
    """A tokenizer of bytes, which puts special tokens before and after a text."""
    words = {c: i for i, c in enumerate([END, BOS, *sorted(pre_tokenizers.ByteLevel.alphabet())])}
    backend = Tokenizer(BPE(words, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.post_processor = processors.TemplateProcessing(
        single=f"{before} $A {after}".strip(), special_tokens=[(BOS, 1), (END, 0)]
    )
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token=END, bos_token=bos)


@pytest.mark.parametrize(("before", "after"), [("", ""), ("", END), (BOS, ""), (BOS, END)])
def test_a_decision_changes_the_first_token_and_nothing_else(
    before: str, after: str, tmp_path: Path
) -> None:
    own = byte_tokenizer(before, after)
    as_it_was = own(TEXT, return_offsets_mapping=True)
    began = adds_bos(own)
    set_bos(own, "auto", "tiny")
    assert own(TEXT).input_ids == as_it_was.input_ids
    set_bos(own, not began, "tiny")
    own.save_pretrained(tmp_path)
    for other in (own, AutoTokenizer.from_pretrained(tmp_path)):
        assert adds_bos(other) is not began
        now = other(TEXT, return_offsets_mapping=True)
        longer, shorter = (as_it_was, now) if began else (now, as_it_was)
        assert longer.input_ids == [1, *shorter.input_ids]
        assert longer["offset_mapping"] == [(0, 0), *shorter["offset_mapping"]]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose tokenizer has a BOS and does not put it first, like SmolLM2's."""
    path = tmp_path_factory.mktemp("without")
    own = tiny_tokenizer(bos=True)
    set_bos(own, False, "tiny")
    tiny_hf_model("llama", own).save_pretrained(path)
    own.save_pretrained(path)
    return path


def test_scoring_capture_and_generation_follow_the_decision(directory: Path) -> None:
    with_bos, without = load(directory, bos=True), load(directory)
    assert (with_bos.adds_bos, without.adds_bos) == (True, False)
    [begun], [plain] = encode(with_bos, [TEXT]), encode(without, [TEXT])
    assert begun.ids == [with_bos.tokenizer.bos_token_id, *plain.ids]
    assert begun.offsets == [(0, 0), *plain.offsets]
    assert begun.after(4) == [k + 1 for k in plain.after(4)]
    ids = torch.tensor([begun.ids])
    log_p = without.logits(ids, torch.ones_like(ids))[0].double().log_softmax(-1)
    expected = log_p[:-1].gather(1, ids[0, 1:, None]).sum()
    assert continuation_log_probs(with_bos, [""], [TEXT])[0] == pytest.approx(float(expected))
    rows = capture(with_bos, [TEXT], starts=[0], positions="onward")
    assert len(rows.row_text) == len(plain.ids)
    assert rows.norms["resid_post"].shape == (2, len(begun.ids))
    assert generate(with_bos, [""], max_new_tokens=3)
    with pytest.raises(UserError, match="no beginning-of-text token to start from"):
        generate(without, [""], max_new_tokens=3)


def test_what_cannot_be_decided_is_refused_in_one_line() -> None:
    with pytest.raises(UserError, match=r"bos=true, but .* tiny has no beginning-of-text token"):
        set_bos(byte_tokenizer("", "", bos=None), True, "tiny")
    with pytest.raises(UserError, match="bos='yes': write auto, true or false"):
        set_bos(byte_tokenizer("", ""), "yes", "tiny")
