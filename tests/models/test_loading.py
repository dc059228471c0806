import copy
import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, pre_tokenizers, processors
from tokenizers.models import BPE
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from countergen_edit.core.errors import UserError
from countergen_edit.core.locating import Location, location_of
from countergen_edit.models import (
    capture,
    continuation_log_probs,
    encode,
    from_pretrained_objects,
    generate,
    load_model,
)
from countergen_edit.models.language_model import adds_bos
from countergen_edit.models.loading import set_bos
from tests.tiny_models import BOS, END, tiny_hf_model, tiny_model_dir, tiny_tokenizer

Damage = Callable[[Path], None]


def test_a_loaded_model_is_frozen_in_eval_mode_and_knows_its_sizes(lm, plain):
    model = lm.bridge.original_model
    assert not any(module.training for module in model.modules())
    assert not any(parameter.requires_grad for parameter in model.parameters())
    config = plain[0].config
    assert lm.n_layers == config.num_hidden_layers
    assert (lm.d_model, lm.context_length, lm.vocab_size) == (32, 64, config.vocab_size)
    assert (lm.device.type, lm.dtype) == ("cpu", torch.float32)


def test_the_fingerprint_is_that_of_the_weights_wherever_they_lie(tiny_dirs, gpt2, tmp_path):
    moved = shutil.copytree(tiny_dirs["gpt2"], tmp_path / "moved")
    assert load_model(moved, device="cpu").fingerprint == gpt2.fingerprint
    other = load_model(moved, device="cpu")
    other.bridge.original_model.get_input_embeddings().weight[0, 0] += 1
    assert other.fingerprint != gpt2.fingerprint
    assert load_model(moved, device="cpu", dtype="bfloat16").fingerprint != gpt2.fingerprint


def test_a_model_in_memory_scores_like_the_same_model_saved(tmp_path):
    tokenizer = tiny_tokenizer()
    model = tiny_hf_model("gpt_neox", tokenizer)
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    before = copy.deepcopy(tokenizer.special_tokens_map)
    in_memory = from_pretrained_objects("tiny", model.train(), tokenizer)
    assert in_memory.tokenizer is tokenizer
    assert tokenizer.special_tokens_map == before
    saved = load_model(tmp_path, device="cpu")
    scores = [continuation_log_probs(lm, ["Jane is"], [" a nurse"]) for lm in (in_memory, saved)]
    np.testing.assert_array_equal(*scores)


@pytest.mark.parametrize("share", [0.8, 0.0])
def test_weights_beyond_max_memory_are_read_from_disk_as_they_are_used(tiny_dirs, share):
    folder = tiny_dirs["llama"]
    size = (folder / "model.safetensors").stat().st_size
    offloaded = load_model(folder, device_map="auto", max_memory={"cpu": max(1, int(share * size))})
    away = [weight.is_meta for weight in offloaded.bridge.original_model.parameters()]
    assert any(away)
    assert all(away) == (share == 0)
    models = offloaded, load_model(folder)
    scores = [continuation_log_probs(lm, ["Jane is"], [" a nurse"]) for lm in models]
    np.testing.assert_array_equal(*scores)
    text, same_text = (generate(lm, ["Jane is"], max_new_tokens=4) for lm in models)
    assert text == same_text


def test_code_of_a_tokenizer_is_not_run(tiny_dirs, tmp_path, monkeypatch):
    folder = shutil.copytree(tiny_dirs["llama"], tmp_path / "own")
    (folder / "own.py").write_text(f"open({str(folder / 'ran')!r}, 'w').close()\n")
    code = {"tokenizer_class": "Own", "auto_map": {"AutoTokenizer": [None, "own.Own"]}}
    config(folder, "tokenizer_config.json", **code)
    monkeypatch.setattr("builtins.input", lambda question: "y")  # whether to run the code
    with pytest.raises(UserError, match="no usable tokenizer"):
        load_model(folder)
    assert not (folder / "ran").exists()


def test_a_slow_tokenizer_is_named():
    with pytest.raises(UserError, match=r"tokenizer of tiny \(object\) is slow"):
        from_pretrained_objects("tiny", None, object())


WEIGHTS = "model.safetensors"


def config(folder, name="config.json", **changes):
    content = json.loads((folder / name).read_text())
    (folder / name).write_text(json.dumps(content | changes))


def file(folder, name, content, without="nothing"):
    for path in folder.glob(without):
        path.unlink()
    if content is not None:
        (folder / name).write_bytes(content)


def weights(folder, change):
    tensors = load_file(folder / WEIGHTS)
    change(tensors)
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})


def bias(folder, value):
    weights(folder, lambda w: w["transformer.h.1.mlp.c_fc.bias"][3].fill_(value))


def untied(folder):
    weights(folder, lambda w: w.update({"lm_head.weight": 2 * w["transformer.wte.weight"]}))


def pickled(folder):
    class Runs:
        def __reduce__(self):
            return Path.touch, (folder / "ran",)

    (folder / WEIGHTS).unlink()
    torch.save({"transformer.wte.weight": Runs()}, folder / "pytorch_model.bin")


def model(folder, name, of, **sizes):
    settings = getattr(transformers, of)(vocab_size=400, **sizes)
    getattr(transformers, name)(settings).save_pretrained(folder)


CTRL = {"n_embd": 32, "n_layer": 1, "n_head": 2, "dff": 32}
T5 = {"d_model": 32, "num_layers": 1, "num_heads": 2}
NEOX = {"hidden_size": 32, "num_attention_heads": 4, "num_hidden_layers": 1}
BROKEN = [  # further ones: tests/cli/bad_inputs.yaml
    (lambda f: config(f, n_embd=64), r"lacks \d+ weights .*transformer\.h\.0"),
    (lambda f: config(f, n_layer=2), r"\d+ weights of layers .*dropped: transformer\.h\.2\."),
    (lambda f: file(f, WEIGHTS, b"not weights"), "cannot load the weights"),
    (lambda f: file(f, WEIGHTS, None, without=WEIGHTS), "cannot load the weights"),
    (lambda f: file(f, "pytorch_model.bin", b"no pickle", without=WEIGHTS), "the weights of"),
    (lambda f: file(f, "", None, "tokenizer*"), r"tokenizer .*in .*tokenizer\.save_pretrained"),
    (lambda f: bias(f, math.nan), r"1 weights .*NaN or infinity: .*h\.1\.mlp\.c_fc\.bias$"),
    (lambda f: bias(f, math.inf), r"1 weights .*NaN or infinity"),
    (pickled, "which could run code"),
    (untied, r'has an output matrix .*embedding: write "tie_word_embeddings": false there$'),
    (lambda f: model(f, "CTRLLMHeadModel", "CTRLConfig", **CTRL), "unknown architecture CTRLLM"),
    (lambda f: model(f, "T5EncoderModel", "T5Config", **T5), "T5EncoderModel, not a causal lang"),
    (
        lambda f: model(f, "GPTNeoXModel", "GPTNeoXConfig", **NEOX),
        r"lacks 1 weights of a GPTNeoXForCausalLM.*: lm_head\.weight$",
    ),
]


def test_an_output_matrix_of_its_own_is_read_where_the_config_says_so(tiny_dirs, tmp_path):
    folder = shutil.copytree(tiny_dirs["gpt2"], tmp_path / "untied")
    untied(folder)
    config(folder, tie_word_embeddings=False)
    ids = torch.tensor([[5, 6, 7]])
    doubled, tied = (
        load_model(each).logits(ids, torch.ones_like(ids)) for each in (folder, tiny_dirs["gpt2"])
    )
    torch.testing.assert_close(doubled, 2 * tied)


def test_an_adapter_is_merged_as_peft_applies_it(tiny_dirs, tmp_path):
    plain = transformers.AutoModelForCausalLM.from_pretrained(tiny_dirs["gpt2"])
    lora = LoraConfig(r=2, target_modules=["c_attn"], fan_in_fan_out=True, init_lora_weights=False)
    wrapped = get_peft_model(plain, lora).eval()
    wrapped.save_pretrained(tmp_path / "my adapter")
    ids = torch.tensor([[5, 6, 7]])
    merged = load_model(tiny_dirs["gpt2"], adapter=tmp_path / "my adapter")
    with torch.no_grad():
        expected = wrapped(ids).logits
    torch.testing.assert_close(merged.logits(ids, torch.ones_like(ids)), expected)
    assert merged.fingerprint != load_model(tiny_dirs["gpt2"]).fingerprint
    alone = load_model(tmp_path / "my adapter")  # names its base
    assert alone.fingerprint == merged.fingerprint
    assert alone.directory == str(tiny_dirs["gpt2"])
    with pytest.raises(UserError, match="cannot load the adapter"):
        load_model(tiny_dirs["llama"], adapter=tmp_path / "my adapter")


@pytest.mark.parametrize(("damage", "message"), BROKEN, ids=[message for _, message in BROKEN])
def test_what_cannot_be_loaded_is_refused_in_one_line_and_runs_no_code(
    damage, message, tiny_dirs, tmp_path, monkeypatch
):
    folder = shutil.copytree(tiny_dirs["gpt2"], tmp_path / "broken")
    damage(folder)
    monkeypatch.setattr("builtins.input", lambda question: "y")  # whether to run the code
    with pytest.raises(UserError, match=message) as refused:
        load_model(folder)
    assert "\n" not in str(refused.value)
    assert not (folder / "ran").exists()


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
        assert location_of("gpt2", "main") == expected
    else:
        with pytest.raises(UserError, match=r"cannot be reached .*model=/path/to/directory"):
            load_model("nobody/has-this-model")
    assert timeouts == [5.0]


TEXT = "Jane is a naïve café owner."


def byte_tokenizer(before, after, bos=BOS):
    words = {c: i for i, c in enumerate([END, BOS, *sorted(pre_tokenizers.ByteLevel.alphabet())])}
    backend = Tokenizer(BPE(words, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.post_processor = processors.TemplateProcessing(
        single=f"{before} $A {after}".strip(), special_tokens=[(BOS, 1), (END, 0)]
    )
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token=END, bos_token=bos)


@pytest.mark.parametrize(("before", "after"), [("", ""), ("", END), (BOS, ""), (BOS, END)])
def test_a_decision_changes_the_first_token_and_nothing_else(before, after, tmp_path):
    tokenizer = byte_tokenizer(before, after)
    as_it_was = tokenizer(TEXT, return_offsets_mapping=True)
    began = adds_bos(tokenizer)
    set_bos(tokenizer, "auto", "tiny")
    assert tokenizer(TEXT).input_ids == as_it_was.input_ids
    set_bos(tokenizer, not began, "tiny")
    tokenizer.save_pretrained(tmp_path)
    for other in (tokenizer, AutoTokenizer.from_pretrained(tmp_path)):
        assert adds_bos(other) is not began
        now = other(TEXT, return_offsets_mapping=True)
        longer, shorter = (as_it_was, now) if began else (now, as_it_was)
        assert longer.input_ids == [1, *shorter.input_ids]
        assert longer["offset_mapping"] == [(0, 0), *shorter["offset_mapping"]]


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """A model whose tokenizer has a BOS and does not put it first, like SmolLM2's."""
    tokenizer = tiny_tokenizer(bos=True)
    set_bos(tokenizer, False, "tiny")
    return tiny_model_dir("llama", tmp_path_factory.mktemp("without"), tokenizer)


def test_scoring_capture_and_generation_follow_the_decision(directory):
    with_bos, without = load_model(directory, bos=True), load_model(directory)
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


def test_what_cannot_be_decided_is_refused_in_one_line():
    with pytest.raises(UserError, match=r"bos=true, but tiny has no beginning-of-text token"):
        set_bos(byte_tokenizer("", "", bos=None), True, "tiny")
    with pytest.raises(UserError, match="bos='yes': write auto, true or false"):
        set_bos(byte_tokenizer("", ""), "yes", "tiny")
