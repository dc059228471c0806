"""A folder appears under its name when it is whole and proven; the old one stays until then."""

import json
import resource
import shutil
import stat
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from countergen_edit.core.errors import UserError
from countergen_edit.edits import Edit, Placement, load_edit
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
from countergen_edit.edits.checkpoints.parity import compare_logits
from countergen_edit.erasers import Gate
from countergen_edit.models import capture, load_model
from countergen_edit.testbed import directory
from tests.edits.checkpoints.conftest import TEXT, edit_at, logits, oblique_erasure, plain_logits
from tests.runs.runs import contents
from tests.tiny_models import tiny_model


@pytest.fixture(scope="module")
def model(models):
    return models["gpt2"]


@pytest.fixture(scope="module")
def checkpoints(model, tmp_path_factory):
    """One finished checkpoint of each form; the second replaces one and finds a killed save."""
    root = tmp_path_factory.mktemp("checkpoints")
    (root / "carried.tmp").mkdir()
    (root / "carried.tmp" / "model.safetensors").write_bytes(b"half a file")
    carried, folded = root / "carried", root / "folded"
    record = {"seed": 3}
    save_checkpoint(model, edit_at(model, "resid_post"), carried, record=record, form="carried")
    shutil.copytree(carried, folded)
    how = {"record": record, "card": lambda form, parity: f"# {form}, {parity.texts} texts\n"}
    save_checkpoint(model, edit_at(model, "attn_out"), folded, overwrite=True, **how)
    return {"carried": carried, "folded": folded}


@pytest.fixture
def copied(checkpoints, tmp_path):
    return shutil.copytree(checkpoints["carried"], tmp_path / "copy")


def test_a_finished_checkpoint_lies_alone_readable_and_proven(checkpoints):
    assert {p.name for p in checkpoints["carried"].parent.iterdir()} == {"carried", "folded"}
    for folder in checkpoints.values():
        assert is_checkpoint(folder)
        modes = {stat.S_IMODE(p.stat().st_mode) for p in folder.rglob("*") if p.is_file()}
        assert len(modes) == 1
        parity = json.loads((folder / "parity.json").read_text())
        assert parity["max_difference"] <= 1e-5
        assert parity["effect"] > 1000 * parity["tolerance"]
        assert open_checkpoint(folder).record["seed"] == 3
    assert not (checkpoints["folded"] / "modeling_edited.py").exists()
    assert (checkpoints["folded"] / "README.md").read_text() == "# folded, 3 texts\n"


@pytest.mark.parametrize(("form", "site"), [("carried", "resid_post"), ("folded", "attn_out")])
def test_a_checkpoint_loads_here_as_the_edited_model(form, site, checkpoints, model):
    loaded = load_checkpoint(checkpoints[form])
    expected = logits(model, edit_at(model, site))
    torch.testing.assert_close(logits(loaded), expected, atol=1e-5, rtol=0)
    assert loaded.fingerprint != model.fingerprint
    if form == "carried":
        erasure = edit_at(model, site).placements[0].erasure
        activations = capture(loaded, [TEXT], layers=[1]).values[site][0]
        np.testing.assert_allclose((activations - erasure.mean) @ erasure.right.T, 0, atol=1e-4)
        with pytest.raises(UserError, match="carries an edit"):
            choose_form(loaded)


def test_a_carried_checkpoint_still_holds_the_unedited_model(checkpoints, model):
    unedited = load_unedited(open_checkpoint(checkpoints["carried"]))
    assert torch.equal(logits(unedited), logits(model))
    assert unedited.fingerprint == model.fingerprint
    with pytest.raises(UserError, match="load_checkpoint"):
        load_model(checkpoints["carried"])


def test_a_saved_model_that_is_not_the_edited_one_is_refused(model):
    edit, ids = edit_at(model, "resid_post"), model.tokenizer(TEXT).input_ids
    right, lost, other = (logits(model, e) for e in (edit, None, edit_at(model, "mlp_out")))
    assert compare_logits(model, edit, [ids], [right]).max_difference == 0
    for wrong in (lost, other, right * torch.nan):
        with pytest.raises(UserError, match=r"not the edited one: a logit differs .*form=carried"):
            compare_logits(model, edit, [ids], [wrong])


@pytest.mark.parametrize(
    "name", ["model.edited.safetensors", "edit/edit.safetensors", "config.json"]
)
def test_a_changed_a_missing_and_an_added_file_are_named(copied, name):
    content = bytearray((copied / name).read_bytes())
    changed = content[:-10] + bytes([content[-10] ^ 1]) + content[-9:]
    for others, says in (
        ({name: changed}, f"damaged: {name} was changed"),
        ({name: content, "sitecustomize.py": b""}, r"holds sitecustomize\.py, which was not saved"),
        ({"sitecustomize.py": None, name: None}, f"{name} is missing"),
    ):
        for file, new in others.items():
            (copied / file).unlink(missing_ok=True)
            if new is not None:
                (copied / file).write_bytes(new)
        with pytest.raises(UserError, match=says):
            load_checkpoint(copied)


def test_a_checkpoint_without_its_erasure_never_loads_as_the_unedited_model(copied, tmp_path):
    from transformers import AutoModelForCausalLM, GPT2LMHeadModel

    edited = AutoModelForCausalLM.from_pretrained(copied, trust_remote_code=True)
    edited.save_pretrained(tmp_path / "again", max_shard_size="100KB")
    assert len(list((tmp_path / "again").glob("*.safetensors"))) > 1
    for folder in (copied, tmp_path / "again"):  # the stock class by its own name
        with pytest.raises(OSError, match=r"no file named model\.safetensors"):
            GPT2LMHeadModel.from_pretrained(folder)
    (tmp_path / "again" / CODE).write_bytes((copied / CODE).read_bytes())
    again = AutoModelForCausalLM.from_pretrained(tmp_path / "again", trust_remote_code=True)
    ids = torch.arange(8)[None]
    assert torch.equal(again(ids).logits, edited(ids).logits)
    weights = load_file(copied / "model.edited.safetensors")
    left = {key: value for key, value in weights.items() if ".erasure." not in key}
    save_file(left, copied / "model.edited.safetensors", metadata={"format": "pt"})
    with pytest.raises(ValueError, match="was not loaded: this would not be the edited model"):
        AutoModelForCausalLM.from_pretrained(copied, trust_remote_code=True)


def test_an_edit_of_another_model_is_refused(copied, models):
    with pytest.raises(UserError, match="was made for another model"):
        load_edit(copied / "edit", models["llama"])
    assert load_edit(copied / "edit", models["gpt2"]).rank == 2


def test_a_target_that_holds_something_is_not_touched(copied, tmp_path):
    before = contents(copied)
    with pytest.raises(UserError, match="holds a checkpoint already"):
        check_target(copied)
    check_target(copied, overwrite=True)
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "thesis.tex").write_text("years")
    (tmp_path / "file").write_text("")
    for name in ("thesis", "file"):
        with pytest.raises(UserError, match="holds something else"):
            check_target(tmp_path / name, overwrite=True)
    with pytest.raises(UserError, match="cannot write save="):
        check_target(Path("/proc/checkpoint"))
    assert contents(copied) == before


@contextmanager
def full_disk():
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
@pytest.mark.parametrize("killed", [False, True])
def test_a_save_that_runs_out_of_space_leaves_the_good_checkpoint_and_no_half_one(
    form, killed, copied, model
):
    """Also where an earlier save was killed while it took the checkpoint's place."""
    before = contents(copied)
    if killed:
        copied.rename(copied.with_name("copy.old.tmp"))
    with full_disk(), pytest.raises(UserError, match="cannot write "):
        save_checkpoint(model, edit_at(model, "attn_out"), copied, form=form, overwrite=True)
    assert contents(copied) == before
    assert [p.name for p in copied.parent.iterdir()] == ["copy"]


def test_the_same_checkpoint_is_saved_once_and_another_refused(copied, model):
    """A command that was stopped after saving continues with the proven checkpoint."""
    edit, before = edit_at(model, "resid_post"), contents(copied)
    how = {"record": {"seed": 3}, "form": "carried"}
    again = save_checkpoint(model, edit, copied, **how)
    assert vars(again.parity) == json.loads((copied / "parity.json").read_text())
    assert contents(copied) == before
    with pytest.raises(UserError, match="holds a checkpoint already"):
        save_checkpoint(model, edit, copied, **how | {"record": {"seed": 4}})
    (copied / "config.json").write_text("{}")
    with pytest.raises(UserError, match=r"damaged: config\.json was changed"):
        save_checkpoint(model, edit, copied, **how)
    assert [path.name for path in copied.parent.iterdir()] == ["copy"]


# Folding


def at(site, d=32, gate=None, limit=None):
    layer = None if site == "embed" else 1
    return Edit((Placement(site, layer, replace(oblique_erasure(d), gate=gate), limit),))


@pytest.mark.parametrize(
    ("family", "edit", "form", "says"),
    [
        ("gpt2", at("resid_post"), "folded", "skip path.*form=carried"),
        ("gpt2", at("embed"), "folded", "may also be the output matrix.*form=carried"),
        ("qwen2", at("mlp_out"), "folded", "down_proj of .* has no bias.*form=carried"),
        ("mixtral", at("mlp_out"), "folded", "not the plain output of one matrix.*form=carried"),
        ("gpt2", at("mlp_out", limit=3.0), "folded", "skips attention sinks; .*form=carried"),
        ("gpt2", at("mlp_out", gate=Gate(np.ones(32), 0.4)), "folded", "has a gate; .*=carried"),
        ("gpt2", at("everywhere"), "carried", "form=folded"),
        ("gpt2", at("head.0", 8), "carried", "save it with form=folded"),
        ("gpt2", at("everywhere"), "adapter", "needs tie_word_embeddings=False .*form=folded"),
        ("llama", at("attn_out"), "adapter", "needs attention_bias=True .*form=folded"),
        *(
            ("gpt2", at("attn_out", 16), form, r"width 16, but model .* has width 32")
            for form in ("carried", "folded")
        ),
    ],
)
def test_what_a_form_cannot_hold_is_refused_before_anything_is_written(
    family, edit, form, says, models, tmp_path
):
    model = models.get(family) or tiny_model(family)
    with pytest.raises(UserError, match=says):
        save_checkpoint(model, edit, tmp_path / "saved", form=form)
    assert not [*tmp_path.iterdir()]


def test_a_folded_testbed_differs_by_the_rounding_of_float32_alone(wide_testbed):
    """Its logits reach 20 after a residual stream that reaches 800; in float64 the two agree."""
    edit = edit_at(wide_testbed, "attn_out").then(edit_at(wide_testbed, "mlp_out"))
    largest = float(logits(wide_testbed, edit).abs().max())
    wide = load_model(directory(), dtype="float64")
    for model, atol in ((wide, 1e-6), (wide_testbed, 1.5e-6 * largest)):
        folded = plain_logits(fold(model, edit), model)
        torch.testing.assert_close(folded, logits(model, edit), atol=atol, rtol=0)


@pytest.mark.parametrize(
    ("family", "path"),
    [
        ("gpt2", "transformer.h.1.attn.c_proj"),
        ("opt", "model.decoder.layers.1.self_attn.out_proj"),
        ("gpt_neox", "gpt_neox.layers.1.attention.dense"),
    ],
)
def test_folded_weights_are_the_formula(family, path, models):
    model = models[family]
    edit, unedited = edit_at(model, "attn_out"), logits(model)
    erasure, plain = edit.placements[0].erasure, fold(model, edit)
    before, after = fold(model, Edit(())).get_submodule(path), plain.get_submodule(path)
    projection = np.eye(32) - erasure.left @ erasure.right
    turn = np.transpose if family == "gpt2" else np.asarray  # Conv1D keeps its output last
    expected = projection @ turn(before.weight.double().numpy())
    np.testing.assert_allclose(turn(after.weight.numpy()), expected, atol=1e-6)
    bias = projection @ before.bias.double().numpy() + erasure.left @ erasure.right @ erasure.mean
    np.testing.assert_allclose(after.bias.numpy(), bias, atol=1e-6)
    assert torch.equal(logits(model), unedited)  # the model in memory is as it was
