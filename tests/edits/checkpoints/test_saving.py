"""A folder appears under its name when it is whole and proven; the old one stays until then."""

from __future__ import annotations

import io
import json
import resource
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from countergen_edit.core.errors import UserError
from countergen_edit.edits import Edit, load_edit
from countergen_edit.edits.checkpoints import (
    check_target,
    choose_form,
    fold,
    is_checkpoint,
    load_checkpoint,
    load_unedited,
    open_checkpoint,
    save_checkpoint,
)
from countergen_edit.edits.checkpoints.forms import CODE
from countergen_edit.edits.checkpoints.parity import compare, edited_logits
from countergen_edit.models import LanguageModel, capture
from tests.edits.checkpoints.conftest import TEXT, edit_at, oblique_erasure

Contents = dict[str, bytes]


def contents(folder: Path) -> Contents:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.fixture(scope="module")
def checkpoints(
    models: dict[str, LanguageModel], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    """One finished checkpoint of each form; the second replaces one and finds a killed save."""
    root = tmp_path_factory.mktemp("checkpoints")
    model = models["gpt2"]
    (root / "carried.tmp").mkdir()
    (root / "carried.tmp" / "model.safetensors").write_bytes(b"half a file")
    save_checkpoint(model, edit_at(model, "resid_post"), root / "carried")
    shutil.copytree(root / "carried", root / "folded")
    save_checkpoint(
        model,
        edit_at(model, "attn_out"),
        root / "folded",
        form="auto",
        record={"seed": 3},
        card=lambda form, parity: f"# {form}, {parity.texts} texts\n",
        overwrite=True,
    )
    return {"carried": root / "carried", "folded": root / "folded"}


def test_a_finished_checkpoint_lies_alone_readable_and_proven(
    checkpoints: dict[str, Path],
) -> None:
    assert {p.name for p in checkpoints["carried"].parent.iterdir()} == {"carried", "folded"}
    for folder in checkpoints.values():
        assert is_checkpoint(folder)
        modes = {stat.S_IMODE(p.stat().st_mode) for p in folder.rglob("*") if p.is_file()}
        assert len(modes) == 1
        parity = json.loads((folder / "parity.json").read_text())
        assert parity["max_difference"] <= 1e-5
        assert parity["effect"] > 1000 * parity["tolerance"]
    assert not (checkpoints["folded"] / "modeling_edited.py").exists()
    assert (checkpoints["folded"] / "README.md").read_text() == "# folded, 3 texts\n"
    assert open_checkpoint(checkpoints["folded"]).record["seed"] == 3


@pytest.mark.parametrize(("form", "site"), [("carried", "resid_post"), ("folded", "attn_out")])
def test_a_checkpoint_loads_here_as_the_edited_model(
    form: str, site: str, checkpoints: dict[str, Path], models: dict[str, LanguageModel]
) -> None:
    source, loaded = models["gpt2"], load_checkpoint(checkpoints[form])
    ids = source.tokenizer(TEXT).input_ids
    expected = edited_logits(source, edit_at(source, site), ids)
    torch.testing.assert_close(edited_logits(loaded, None, ids), expected, atol=1e-5, rtol=0)
    assert loaded.fingerprint != source.fingerprint


def test_a_carried_checkpoint_can_be_edited_further_and_measured(
    checkpoints: dict[str, Path], models: dict[str, LanguageModel]
) -> None:
    source, loaded = models["gpt2"], load_checkpoint(checkpoints["carried"])
    more = Edit.at("attn_out", {0: oblique_erasure(32, seed=7)})
    ids = source.tokenizer(TEXT).input_ids
    expected = edited_logits(source, edit_at(source, "resid_post") + more, ids)
    torch.testing.assert_close(edited_logits(loaded, more, ids), expected, atol=1e-5, rtol=0)
    again = edited_logits(source, edit_at(source, "resid_post"), ids)
    torch.testing.assert_close(edited_logits(loaded, None, ids), again, atol=1e-5, rtol=0)
    activations = capture(loaded, [TEXT], layers=[1]).values["resid_post"][0]
    erasure = edit_at(source, "resid_post").placements[0].erasure
    np.testing.assert_allclose((activations - erasure.mean) @ erasure.right.T, 0, atol=1e-4)
    with pytest.raises(UserError, match="carries an edit already"):
        choose_form(loaded, more)


def test_a_carried_checkpoint_still_holds_the_unedited_model(
    checkpoints: dict[str, Path], models: dict[str, LanguageModel]
) -> None:
    unedited = load_unedited(open_checkpoint(checkpoints["carried"]))
    ids = models["gpt2"].tokenizer(TEXT).input_ids
    assert torch.equal(edited_logits(unedited, None, ids), edited_logits(models["gpt2"], None, ids))
    assert unedited.fingerprint == models["gpt2"].fingerprint
    with pytest.raises(UserError, match="is folded"):
        load_unedited(open_checkpoint(checkpoints["folded"]))


def test_chat_needs_nothing_but_a_carried_checkpoint(
    checkpoints: dict[str, Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from countergen_edit.cli.chat import run
    from countergen_edit.cli.settings import own_settings

    monkeypatch.setattr("sys.stdin", io.StringIO(f"{TEXT}\n"))
    settings = own_settings("chat")
    run(settings | {"checkpoint": str(checkpoints["carried"]), "temperature": 0.7})
    out = capsys.readouterr().out
    assert out.startswith(f"> {TEXT}")
    assert "original" in out


def test_chat_refuses_an_original_that_is_another_model(
    checkpoints: dict[str, Path], models: dict[str, LanguageModel]
) -> None:
    from countergen_edit.cli.chat import run
    from countergen_edit.cli.settings import own_settings

    settings = own_settings("chat")
    wrong = {"checkpoint": str(checkpoints["folded"]), "original": models["llama"].name}
    with pytest.raises(UserError, match=r"is not the model that .* was made of"):
        run(settings | wrong)


def test_the_models_room_names_the_way_to_load_a_carried_checkpoint(
    checkpoints: dict[str, Path],
) -> None:
    from countergen_edit.models import load

    with pytest.raises(UserError, match="load_checkpoint"):
        load(checkpoints["carried"])


def test_a_saved_model_that_is_not_the_edited_one_is_refused(
    models: dict[str, LanguageModel],
) -> None:
    model, edit = models["gpt2"], edit_at(models["gpt2"], "resid_post")
    ids = model.tokenizer(TEXT).input_ids
    right, lost, other = (
        edited_logits(model, e, ids) for e in (edit, None, edit_at(model, "mlp_out"))
    )
    assert compare(model, edit, [ids], [right]).max_difference == 0
    for wrong in (lost, other, right * torch.nan):
        with pytest.raises(UserError, match=r"not the edited one: a logit differs .*form=carried"):
            compare(model, edit, [ids], [wrong])


@pytest.fixture
def copied(checkpoints: dict[str, Path], tmp_path: Path) -> Path:
    return shutil.copytree(checkpoints["carried"], tmp_path / "copy")


@pytest.mark.parametrize(
    "name", ["model.edited.safetensors", "edit/edit.safetensors", "config.json"]
)
def test_a_changed_file_is_named(copied: Path, name: str) -> None:
    content = bytearray((copied / name).read_bytes())
    content[-10] ^= 1
    (copied / name).write_bytes(content)
    with pytest.raises(UserError, match=f"damaged: {name} was changed"):
        load_checkpoint(copied)


def test_a_missing_and_an_added_file_are_named(copied: Path) -> None:
    (copied / "sitecustomize.py").write_text("")
    with pytest.raises(UserError, match=r"holds sitecustomize\.py, which was not saved with it"):
        open_checkpoint(copied)
    (copied / "sitecustomize.py").unlink()
    (copied / "tokenizer.json").unlink()
    with pytest.raises(UserError, match=r"tokenizer\.json is missing"):
        open_checkpoint(copied)


def test_a_checkpoint_without_its_erasure_does_not_load_as_the_unedited_model(
    copied: Path,
) -> None:
    from safetensors.torch import load_file, save_file
    from transformers import AutoModelForCausalLM

    weights = load_file(copied / "model.edited.safetensors")
    left = {key: value for key, value in weights.items() if ".erasure." not in key}
    save_file(left, copied / "model.edited.safetensors", metadata={"format": "pt"})
    with pytest.raises(ValueError, match="was not loaded: this would be the unedited model"):
        AutoModelForCausalLM.from_pretrained(copied, trust_remote_code=True)


def test_the_stock_class_by_its_own_name_finds_no_weights(copied: Path, tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM, GPT2LMHeadModel

    with pytest.raises(OSError, match=r"no file named model\.safetensors"):
        GPT2LMHeadModel.from_pretrained(copied)
    edited: Any = AutoModelForCausalLM.from_pretrained(copied, trust_remote_code=True)
    edited.save_pretrained(tmp_path / "again", max_shard_size="100KB")
    assert len(list((tmp_path / "again").glob("*.safetensors"))) > 1
    with pytest.raises(OSError, match=r"no file named model\.safetensors"):
        GPT2LMHeadModel.from_pretrained(tmp_path / "again")
    (tmp_path / "again" / CODE).write_bytes((copied / CODE).read_bytes())
    again: Any = AutoModelForCausalLM.from_pretrained(tmp_path / "again", trust_remote_code=True)
    ids = torch.arange(8)[None]
    assert torch.equal(again(ids).logits, edited(ids).logits)


def test_an_edit_of_another_model_or_width_is_refused(
    copied: Path, models: dict[str, LanguageModel], tmp_path: Path
) -> None:
    with pytest.raises(UserError, match="was made for another model"):
        load_edit(copied / "edit", models["llama"])
    assert load_edit(copied / "edit", models["gpt2"]).rank == 2
    for form in ("carried", "folded"):
        with pytest.raises(UserError, match=r"width 16, but model .* has width 32"):
            save_checkpoint(
                models["gpt2"],
                Edit.at("attn_out", {0: oblique_erasure(16)}),
                tmp_path / "a",
                form=form,
            )
    assert [p.name for p in tmp_path.iterdir()] == ["copy"]


def test_a_target_that_holds_something_is_not_touched(copied: Path, tmp_path: Path) -> None:
    before = contents(copied)
    with pytest.raises(UserError, match="holds a checkpoint already"):
        check_target(copied)
    check_target(copied, overwrite=True)
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "thesis.tex").write_text("years")
    with pytest.raises(UserError, match="holds something else"):
        check_target(tmp_path / "thesis", overwrite=True)
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="is a file"):
        check_target(tmp_path / "file")
    with pytest.raises(UserError, match="cannot write save="):
        check_target(Path("/proc/checkpoint"))
    assert contents(copied) == before


@contextmanager
def full_disk() -> Iterator[None]:
    """Limit files to two kilobytes, as a full disk would.

    Not a fixture: pytest writes its own progress, perhaps to a longer file, while fixtures hold.
    """
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2048, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.parametrize("form", ["carried", "folded"])
def test_a_save_that_runs_out_of_space_leaves_the_good_checkpoint_and_no_half_one(
    form: str, copied: Path, models: dict[str, LanguageModel]
) -> None:
    before = contents(copied)
    edit = edit_at(models["gpt2"], "attn_out")
    with full_disk(), pytest.raises(UserError, match="cannot write "):
        save_checkpoint(models["gpt2"], edit, copied, form=form, overwrite=True)
    assert contents(copied) == before
    assert [p.name for p in copied.parent.iterdir()] == ["copy"]


@pytest.fixture
def recorded(models: dict[str, LanguageModel], tmp_path: Path) -> Path:
    """A checkpoint that says how it was made."""
    edit = edit_at(models["gpt2"], "resid_post")
    return save_checkpoint(models["gpt2"], edit, tmp_path / "a", record={"seed": 3}).folder


def test_the_same_checkpoint_is_saved_once_and_another_refused(
    recorded: Path, models: dict[str, LanguageModel]
) -> None:
    """A command that was stopped after saving continues with the proven checkpoint."""
    edit, before = edit_at(models["gpt2"], "resid_post"), recorded.stat()
    again = save_checkpoint(models["gpt2"], edit, recorded, record={"seed": 3})
    assert again.parity.to_dict() == json.loads((recorded / "parity.json").read_text())
    assert recorded.stat() == before
    with pytest.raises(UserError, match="holds a checkpoint already"):
        save_checkpoint(models["gpt2"], edit, recorded, record={"seed": 4})
    (recorded / "config.json").write_text("{}")
    with pytest.raises(UserError, match=r"damaged: config\.json was changed"):
        save_checkpoint(models["gpt2"], edit, recorded, record={"seed": 3})
    assert [path.name for path in recorded.parent.iterdir()] == ["a"]


def test_a_checkpoint_comes_back_from_a_kill_while_another_took_its_place(
    recorded: Path, models: dict[str, LanguageModel]
) -> None:
    before = contents(recorded)
    recorded.rename(recorded.with_name("a.old.tmp"))
    edit = edit_at(models["gpt2"], "attn_out")
    with full_disk(), pytest.raises(UserError, match="cannot write "):
        save_checkpoint(models["gpt2"], edit, recorded, overwrite=True)
    assert contents(recorded) == before
    assert [path.name for path in recorded.parent.iterdir()] == ["a"]


def test_a_model_larger_than_the_disk_is_refused_before_writing(
    models: dict[str, LanguageModel], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10, 9, 1))
    with pytest.raises(UserError, match="MB are needed, 0 MB are free"):
        save_checkpoint(models["gpt2"], edit_at(models["gpt2"], "resid_post"), tmp_path / "a")


# Folding


def test_the_residual_stream_does_not_fold(models: dict[str, LanguageModel]) -> None:
    with pytest.raises(UserError, match=r"skip path.*form=carried"):
        fold(models["gpt2"], edit_at(models["gpt2"], "resid_post"))
    assert choose_form(models["gpt2"], edit_at(models["gpt2"], "resid_post")) == "carried"
    assert choose_form(models["gpt2"], edit_at(models["gpt2"], "attn_out")) == "folded"


def test_a_family_without_a_bias_is_refused(models: dict[str, LanguageModel]) -> None:
    with pytest.raises(UserError, match=r"down_proj of .* has no bias .*form=carried"):
        fold(models["qwen2"], edit_at(models["qwen2"], "mlp_out"))


def test_an_edit_that_moves_no_mean_needs_no_bias(models: dict[str, LanguageModel]) -> None:
    erasure = oblique_erasure(32, mean=np.zeros(32))
    plain = fold(models["qwen2"], Edit.at("mlp_out", {1: erasure}))
    assert plain.model.layers[1].mlp.down_proj.bias is None


def test_a_bias_is_switched_on_where_the_config_has_a_switch(
    models: dict[str, LanguageModel],
) -> None:
    plain = fold(models["llama"], edit_at(models["llama"], "attn_out"))
    assert plain.config.attention_bias
    untouched = plain.model.layers[0].self_attn
    for bias in (untouched.q_proj.bias, untouched.o_proj.bias):
        assert not bias.any()
    assert plain.model.layers[1].self_attn.o_proj.bias.any()


@pytest.mark.parametrize("family", ["gpt2", "opt", "gpt_neox"])
def test_folded_weights_are_the_formula(family: str, models: dict[str, LanguageModel]) -> None:
    model = models[family]
    edit = edit_at(model, "attn_out")
    erasure, plain = edit.placements[0].erasure, fold(model, edit)
    path = {
        "gpt2": "transformer.h.1.attn.c_proj",
        "opt": "model.decoder.layers.1.self_attn.out_proj",
        "gpt_neox": "gpt_neox.layers.1.attention.dense",
    }[family]
    before, after = fold(model, Edit(())).get_submodule(path), plain.get_submodule(path)
    projection = np.eye(32) - erasure.left @ erasure.right
    turn = np.transpose if family == "gpt2" else np.asarray  # Conv1D keeps its output last
    expected = projection @ turn(before.weight.double().numpy())
    np.testing.assert_allclose(turn(after.weight.numpy()), expected, atol=1e-6)
    bias = projection @ before.bias.double().numpy() + erasure.left @ erasure.right @ erasure.mean
    np.testing.assert_allclose(after.bias.numpy(), bias, atol=1e-6)


def test_folding_leaves_the_model_in_memory_as_it_was(models: dict[str, LanguageModel]) -> None:
    model = models["gemma"]
    ids = model.tokenizer(TEXT).input_ids
    before = edited_logits(model, None, ids)
    fold(model, edit_at(model, "embed") + edit_at(model, "attn_out"))
    assert torch.equal(edited_logits(model, None, ids), before)


def test_a_mixture_of_experts_does_not_fold(tmp_path: Path) -> None:
    from transformers import MixtralConfig, MixtralForCausalLM

    from countergen_edit.models import from_pretrained_objects
    from tests.tiny_models import tiny_tokenizer

    tokenizer = tiny_tokenizer()
    config = MixtralConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        num_local_experts=2,
    )
    model = from_pretrained_objects("mixture", MixtralForCausalLM(config).eval(), tokenizer)
    with pytest.raises(UserError, match=r"not the plain output of one matrix.*form=carried"):
        fold(model, edit_at(model, "mlp_out"))
    assert choose_form(model, edit_at(model, "mlp_out")) == "carried"


def test_a_module_is_named_as_the_stock_architecture_names_it() -> None:
    from transformers import BloomConfig, BloomForCausalLM

    from countergen_edit.edits.checkpoints.stock import module_name, stock_modules
    from countergen_edit.models import SITES, from_pretrained_objects
    from tests.tiny_models import tiny_tokenizer

    tokenizer = tiny_tokenizer()
    config = BloomConfig(vocab_size=len(tokenizer), hidden_size=32, n_layer=2, n_head=4)
    model = from_pretrained_objects("bloom", BloomForCausalLM(config).eval(), tokenizer)
    # the bridge knows its attention's output matrix under a name of its own as well
    assert {module_name(model, site, 1) for site in SITES} <= stock_modules(model)


def test_an_unknown_form_is_refused(models: dict[str, LanguageModel]) -> None:
    with pytest.raises(UserError, match="did you mean 'folded'"):
        choose_form(models["gpt2"], Edit(()), "fold")
