"""A saved folder is its source with some tensors changed; what was changed is rounded once."""

import json
import shutil
from collections import ChainMap
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import deserialize, safe_open
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer, GPT2LMHeadModel

from countergen_edit.core.reading import json_mapping
from countergen_edit.edits import Edit
from countergen_edit.edits.checkpoints import fold, save_checkpoint
from countergen_edit.edits.checkpoints.forms import folded_patch
from countergen_edit.edits.checkpoints.saving import write_model
from countergen_edit.edits.checkpoints.source import find_source
from countergen_edit.models import from_pretrained_objects, load_model
from tests.edits.checkpoints.conftest import TEXT, edit_at, logits, oblique_erasure, plain_logits
from tests.edits.test_update import update_of
from tests.tiny_models import tiny_hf_model, tiny_tokenizer

FAMILIES = ("llama", "qwen3_tied", "gemma3_text", "phi", "gpt2", "gpt_neox", "opt", "mixtral")
BEHIND_NORMS = ("gemma3_text",)
"""Families in which no edit everywhere folds."""
DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}
ROUNDING = {"bfloat16": 2**-8, "float16": 2**-11, "float32": 2**-22}
"""Of a weight; in float32 the rounding of activations is more."""
FOREIGN = {
    "vision_tower.patch.weight": torch.arange(12.0).reshape(3, 4),
    "extra_head.weight": torch.arange(6).to(torch.bfloat16),
    "extra.mask": torch.tensor([True, False, True]),
    "scale": torch.tensor(3.0, dtype=torch.float64),
}
"""Tensors that no class knows."""
COPIED = {
    "LICENSE": "a licence",
    "NOTICE": "a notice",
    "chat_template.jinja": "{{ messages[0]['content'] }}",
    "additional_chat_templates/tools.jinja": "{{ tools }}",
    "preprocessor_config.json": '{"size":   224}',
    "vocab.own": "a b c",
    "generation_config.json": '{"max_new_tokens": 7,   "do_sample": false}',
}
LEFT = {"README.md": "# another card", "own.py": "1 / 0", "training_args.bin": "x", "pad.onnx": "x"}
"""Files about the unedited model, its other weights and code."""
OURS = {"README.md", "SHA256SUMS", "recipe.json", "parity.json", "edit"}
ROTARY_OF_4 = (
    *("rope_theta", "partial_rotary_factor", "rope_scaling", "rotary_emb_base", "rotary_pct"),
    "rope_local_base_freq",
)
"""Names of transformers 4 for what `rope_parameters` holds."""
FORBIDDEN = (
    *("TokenizersBackend", "is_local", "local_files_only", "_keep_in_fp32_modules_strict"),
    *("name_or_path", "auto_map", "special_tokens_map_file"),
)

Tensors = dict[str, dict[str, Any]]


@cache
def tiny(family):
    return tiny_hf_model(family, tiny_tokenizer())


def source(folder, family, dtype="float32", shards=1, prefix=""):
    """A folder as of the hub: tensors of other classes, and files of many kinds."""
    tiny(family).to(torch.float32).save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    weights = load_file(folder / "model.safetensors")
    tensors = {key.removeprefix(prefix): w.to(DTYPES[dtype]) for key, w in weights.items()}
    tensors |= FOREIGN
    (folder / "model.safetensors").unlink()
    names = [f"model-0000{i + 1}-of-0000{shards}.safetensors" for i in range(shards)]
    names = names if shards > 1 else ["model.safetensors"]
    where = {key: names[i % shards] for i, key in enumerate(sorted(tensors))}
    for name in names:
        shard = {key: tensor for key, tensor in tensors.items() if where[key] == name}
        save_file(shard, folder / name, metadata={"format": "pt", "made": "elsewhere"})
    if shards > 1:
        size = sum(tensor.nbytes for tensor in tensors.values())
        index = {"metadata": {"total_size": size}, "weight_map": where}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    config = json_mapping(folder / "config.json") | {"dtype": dtype, "_name_or_path": "/home/me/x"}
    (folder / "config.json").write_text(json.dumps(config))
    for name, text in (COPIED | LEFT).items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return folder


def tensors_of(folder):
    paths = sorted(folder.glob("*.safetensors"))
    return {path.name: dict(deserialize(path.read_bytes())) for path in paths}


def metadata(path):
    with safe_open(path, "pt") as file:
        return file.metadata()


def flat(shards):
    return dict(ChainMap(*shards.values()))


def values(folder):
    return dict(ChainMap(*map(load_file, folder.glob("*.safetensors"))))


def edit_of(model, family):
    """An update of all matrices and, where it folds, a projection everywhere, which unties."""
    places = () if family in BEHIND_NORMS else Edit.at("everywhere", {1: erasure()}).placements
    return Edit(places, update=update_of(model))


def erasure():
    return oblique_erasure(32, mean=np.random.default_rng(1).normal(size=32))


TABLE = [pytest.param("llama", "bfloat16", 3)] + [
    pytest.param(family, [*DTYPES][k % 3], 1 + k % 2 * 2, marks=pytest.mark.slow)
    for k, family in enumerate(FAMILIES)
]


@pytest.mark.parametrize(("family", "dtype", "shards"), TABLE)
def test_a_saved_folder_is_the_source_with_edited_tensors_changed(family, dtype, shards, tmp_path):
    folder = source(tmp_path / "source", family, dtype, shards)
    model = load_model(folder)
    edit = edit_of(model, family)
    saved = save_checkpoint(model, edit, tmp_path / "saved")
    # Files
    before, after = ({p.name for p in place.iterdir()} for place in (folder, saved.folder))
    assert after - OURS == before - {*LEFT}
    assert "README.md" not in after  # no card was asked for
    for name in (*COPIED, "tokenizer.json"):
        assert (saved.folder / name).read_bytes() == (folder / name).read_bytes(), name
    for name in ("config.json", "tokenizer_config.json"):
        old, new = json_mapping(folder / name), json_mapping(saved.folder / name)
        wanted = {key: value for key, value in old.items() if key != "_name_or_path"}
        unties = {"tie_word_embeddings": False} if name == "config.json" and edit.placements else {}
        fast = {"tokenizer_class": "PreTrainedTokenizerFast"} if "tokenizer_class" in old else {}
        of_4 = {key: value for key, value in new.items() if key in ROTARY_OF_4}
        assert new == of_4 | wanted | unties | fast
        assert bool(of_4) == bool(old.get("rope_parameters"))
    # Tensors
    old_shards, new_shards = tensors_of(folder), tensors_of(saved.folder)
    assert list(old_shards) == list(new_shards)
    for name, shard in old_shards.items():
        assert metadata(saved.folder / name) == metadata(folder / name)
        assert {*shard} <= {*new_shards[name]}
    old, new = flat(old_shards), flat(new_shards)
    for key, tensor in old.items():
        assert all(new[key][of] == tensor[of] for of in ("dtype", "shape")), key
    patch, expected = folded_patch(model, edit), tmp_path / "expected"
    patch.plain.double()  # without rounding
    patch.applied().save_pretrained(expected)  # by transformers
    folded, stored = values(expected), values(saved.folder)
    edited = {key for key in old if new[key]["data"] != old[key]["data"]}
    assert {*FOREIGN}.isdisjoint(edited)
    assert edited
    tied = bool(getattr(model.bridge.original_model.config, "tie_word_embeddings", False))
    added = {*new} - {*old}
    assert added == ({key for key in folded if key not in old} if edit.placements else set())
    assert bool(added) == (tied and bool(edit.placements))
    for key in {*old, *added} - {*FOREIGN}:
        assert torch.equal(stored[key], folded[key].to(DTYPES[dtype])), key
    if family != "mixtral":  # whose experts lie one by one
        assert edited <= {*patch.weights}
    else:
        assert all("experts" in key for key in edited - {*patch.weights})
    assert len(edited) < len(old) - len(FOREIGN)
    # Logits: the parity is of a fresh process without this package
    assert [*saved.parity.stored] == [dtype] * (dtype != "float32")
    assert saved.parity.max_difference <= 8 * ROUNDING[dtype] * saved.parity.max_logit
    assert saved.parity.effect > 4 * saved.parity.max_difference
    assert AutoModelForCausalLM.from_pretrained(saved.folder).dtype == DTYPES[dtype]
    assert AutoTokenizer.from_pretrained(saved.folder)(TEXT) == model.tokenizer(TEXT)
    for path in saved.folder.rglob("*config.json"):
        text = path.read_text()
        assert not [word for word in (*FORBIDDEN[:-3], str(tmp_path)) if word in text], path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "dtype", "shards"), [("gpt2", "float16", 1), ("llama", "bfloat16", 3)]
)
def test_a_carried_folder_is_the_source_with_tensors_beside_it(family, dtype, shards, tmp_path):
    folder = source(tmp_path / "source", family, dtype, shards)
    model = load_model(folder)
    edit = edit_at(model, "resid_post")
    saved = save_checkpoint(model, edit, tmp_path / "saved", form="carried")
    assert saved.form == "carried"
    old, new = flat(tensors_of(folder)), flat(tensors_of(saved.folder))
    assert {key for key in new if key not in old} == {
        key for key in new if ".erasure." in key and new[key]["dtype"] == "F32"
    }
    assert {key: new[key] for key in old} == old
    with pytest.raises(OSError, match="no file named model"):
        GPT2LMHeadModel.from_pretrained(saved.folder)
    text = (saved.folder / "modeling_edited.py").read_text()
    assert not [word for word in FORBIDDEN if word in text]
    half = AutoModelForCausalLM.from_pretrained(saved.folder, trust_remote_code=True)
    erasures = {t.dtype for name, t in half.named_buffers() if ".erasure." in name}
    assert (half.dtype, erasures) == (DTYPES[dtype], {torch.float32})
    assert AutoTokenizer.from_pretrained(saved.folder)(TEXT) == model.tokenizer(TEXT)


def test_files_without_the_prefix_of_the_class_keep_their_names(tmp_path):
    folder = source(tmp_path / "source", "gpt2", "bfloat16", prefix="transformer.")
    model = load_model(folder)
    write_model(model, edit_of(model, "gpt2"), tmp_path / "saved", "folded")
    old, new = flat(tensors_of(folder)), flat(tensors_of(tmp_path / "saved"))
    assert "h.0.attn.c_proj.weight" in old
    assert {*new} - {*old} == {"lm_head.weight"}
    write_model(model, edit_at(model, "resid_post"), tmp_path / "carried", "carried")
    assert "transformer.h.0.attn.c_proj.weight" in flat(tensors_of(tmp_path / "carried"))
    for name in ("saved", "carried"):
        _, report = AutoModelForCausalLM.from_pretrained(
            tmp_path / name, trust_remote_code=name == "carried", output_loading_info=True
        )
        assert {*report["unexpected_keys"]} == {*FOREIGN}
        assert not report["missing_keys"]


def test_a_switched_on_bias_stands_beside_its_weight(tmp_path):
    folder = source(tmp_path / "source", "llama", "bfloat16", 3)
    model = load_model(folder)
    write_model(model, edit_at(model, "attn_out"), tmp_path / "saved", "folded")
    old, new = flat(tensors_of(folder)), flat(tensors_of(tmp_path / "saved"))
    assert len({*new} - {*old}) == 2 * 4
    assert all(key.endswith("_proj.bias") for key in {*new} - {*old})
    edited = [key for key in old if old[key] != new[key]]
    assert edited == ["model.layers.1.self_attn.o_proj.weight"]
    index = json_mapping(tmp_path / "saved" / "model.safetensors.index.json")
    assert index["weight_map"].keys() == new.keys()
    assert index["metadata"]["total_size"] == sum(len(x["data"]) for x in new.values())


def test_of_a_source_that_was_read_in_a_narrower_type_the_wider_weights_are_edited(tmp_path):
    folder, places = source(tmp_path / "source", "gpt2"), {1: erasure()}
    model, edit = load_model(folder, dtype="bfloat16"), Edit.at("mlp_out", places)
    write_model(model, edit, tmp_path / "saved", "folded")
    expected = fold(load_model(folder, dtype="float64"), edit).state_dict()
    for key, tensor in values(tmp_path / "saved").items():
        if key not in FOREIGN:
            assert torch.equal(tensor, expected[key].float()), key


def test_weights_that_differ_in_memory_are_saved_as_they_are_there(tmp_path):
    """As those of a merged adapter."""
    folder = source(tmp_path / "source", "gpt2", "float16")
    model, name = load_model(folder), "transformer.h.0.mlp.c_fc.weight"
    weight = model.bridge.original_model.state_dict()
    key = next(key for key in weight if key.replace("._original_component", "") == name)
    weight[key].mul_(0.5)
    write_model(model, edit_at(model, "mlp_out"), tmp_path / "saved", "folded")
    old, new = values(folder), values(tmp_path / "saved")
    assert torch.equal(new[name], old[name] / 2)
    assert [key for key in old if not torch.equal(old[key], new[key])] == sorted(
        [name, *(f"transformer.h.1.mlp.c_proj.{leaf}" for leaf in ("bias", "weight"))]
    )


def test_a_tokenizer_that_was_changed_is_written_anew(tmp_path):
    folder = source(tmp_path / "source", "gpt2")
    model = load_model(folder, bos=True)
    write_model(model, edit_at(model, "mlp_out"), tmp_path / "saved", "folded")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "saved")
    assert tokenizer(TEXT).input_ids == model.tokenizer(TEXT).input_ids
    assert tokenizer(TEXT).input_ids[0] == tokenizer.bos_token_id
    text = (tmp_path / "saved" / "tokenizer_config.json").read_text()
    assert not [word for word in FORBIDDEN if word in text]


def test_only_a_folder_of_safetensors_with_these_weights_is_a_source(tmp_path, monkeypatch):
    folder = source(tmp_path / "hub/models--me--tiny/snapshots/0a1b", "gpt2")
    model = load_model(folder)
    patch = folded_patch(model, edit_at(model, "mlp_out"))

    def source_of(directory):
        model.bridge.original_model.config.name_or_path = str(directory)
        source_files = find_source(model, patch)
        return source_files and source_files.folder

    assert source_of(folder) == folder
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    (tmp_path / "hub/models--me--tiny/refs").mkdir()
    (tmp_path / "hub/models--me--tiny/refs/main").write_text("0a1b")
    assert source_of("me/tiny") == folder
    assert source_of("me/other") is None
    assert source_of(folder / "model.safetensors") is None  # as a GGUF file
    assert source_of("") is None
    other = shutil.copytree(folder, tmp_path / "other")
    weights = load_file(other / "model.safetensors")
    name = "transformer.h.1.mlp.c_proj.weight"
    for key, tensor in ((name, weights[name][:, :3].clone()), ("another.name", weights[name])):
        changed = {k: w for k, w in weights.items() if k != name} | {key: tensor}
        save_file(changed, other / "model.safetensors", metadata={"format": "pt"})
        assert source_of(other) is None
    (other / "model.safetensors").rename(other / "pytorch_model.bin")
    assert source_of(other) is None


def test_a_model_in_memory_is_saved_by_transformers(tmp_path):
    tokenizer = tiny_tokenizer()
    model = from_pretrained_objects("memory", tiny("gpt2").to(torch.float32), tokenizer)
    edit = edit_at(model, "mlp_out")
    assert write_model(model, edit, tmp_path / "saved", "folded") is None
    saved = plain_logits(tmp_path / "saved", model)
    torch.testing.assert_close(saved, logits(model, edit), atol=1e-5, rtol=0)
    for path in (tmp_path / "saved").glob("*config.json"):
        assert not [word for word in FORBIDDEN if word in path.read_text()], path
