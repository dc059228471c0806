"""Edits of several axes in one checkpoint, and one added to a checkpoint that carries some."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from countergen_edit.edits import Edit, NamedEdit, applied
from countergen_edit.edits.checkpoints import (
    Form,
    choose_form,
    edits_in_record,
    folded_into,
    load_base,
    load_checkpoint,
    open_checkpoint,
    save_checkpoint,
)
from countergen_edit.edits.checkpoints.parity import edited_logits
from countergen_edit.edits.checkpoints.saving import write_model
from countergen_edit.models import LanguageModel, capture
from tests.edits.checkpoints.conftest import TEXT, oblique_erasure

pytestmark = pytest.mark.slow  # every test is of whole runs

AXES = ("gender", "nationality")


def named(site: str, layer: int | None, seed: int, task: str, *before: NamedEdit) -> NamedEdit:
    edit = Edit.at(site, {layer: oblique_erasure(32, seed=seed)})
    places = [place for one in before for place in one.record.places]
    return NamedEdit.of(edit, "leace", task=task, after=places)


def chained(*places: tuple[str, int | None], limit: float | None = None) -> NamedEdit:
    """An edit at each place, each fitted after those before it; the first with a limit."""
    edits: list[NamedEdit] = []
    for seed, (place, task) in enumerate(zip(places, (*AXES, "age", "race"), strict=False), 1):
        edits.append(named(*place, seed, task, *edits))
    if limit is not None:
        place = replace(edits[0].edit.placements[0], limit=limit)
        edits[0] = NamedEdit.of(Edit((place,)), "leace", task=AXES[0])
    return NamedEdit.combined(edits)


def ids_of(model: LanguageModel) -> list[int]:
    return list(model.tokenizer(TEXT).input_ids)


def record_of(edit: NamedEdit) -> dict[str, object]:
    return {"edits": edits_in_record(edit.record), "record": edit.record.to_dict()}


@pytest.mark.parametrize("site", ["resid_post", "attn_out", "mlp_out"])
def test_two_at_one_place_act_one_after_the_other(
    site: str, models: dict[str, LanguageModel]
) -> None:
    """Against the two maps written out, one after the other."""
    model, edit = models["gpt2"], chained((site, 1), (site, 1)).edit
    before = capture(model, [TEXT], sites=(site,), layers=[1]).values[site][0].astype(float)
    with applied(model, edit):
        after = capture(model, [TEXT], sites=(site,), layers=[1]).values[site][0]
    expected = before
    for place in edit.placements:
        e = place.erasure
        expected = expected - (expected - e.mean) @ e.right.T @ e.left.T  # type: ignore[union-attr]
    np.testing.assert_allclose(after, expected, atol=1e-4)
    other = Edit(edit.placements[::-1])
    assert (
        edited_logits(model, other, ids_of(model)) - edited_logits(model, edit, ids_of(model))
    ).any()


@pytest.mark.parametrize(
    ("family", "places", "form"),
    [
        (
            "gpt2",
            (("resid_post", 1), ("resid_post", 1), ("embed", None)),
            "carried",
        ),
        ("llama", (("attn_out", 1), ("attn_out", 1)), "carried"),
        ("gpt2", (("mlp_out", 1), ("mlp_out", 1), ("attn_out", 1)), "folded"),
        ("llama", (("attn_out", 1), ("attn_out", 1)), "folded"),
    ],
)
def test_plain_transformers_gives_the_hooks_logits_to_the_bit_or_to_the_rounding_of_weights(
    family: str,
    places: tuple[tuple[str, int | None], ...],
    form: Form,
    models: dict[str, LanguageModel],
    tmp_path: Path,
) -> None:
    model, whole = models[family], chained(*places)
    (tmp_path / "saved").mkdir()
    write_model(model, whole.edit, tmp_path / "saved", form)
    loaded = AutoModelForCausalLM.from_pretrained(
        tmp_path / "saved", trust_remote_code=form == "carried", attn_implementation="eager"
    ).eval()
    ids = ids_of(model)
    with torch.inference_mode():
        logits = loaded(torch.tensor([ids])).logits[0].double()
    expected = edited_logits(model, whole.edit, ids)
    if form == "carried":
        assert torch.equal(logits, expected)
    torch.testing.assert_close(logits, expected, atol=1e-5, rtol=0)
    assert choose_form(model, whole.edit, "auto" if form == "folded" else "carried") == form
    for lost in whole.edit.placements:  # none is lost
        rest = Edit(tuple(place for place in whole.edit.placements if place is not lost))
        assert (edited_logits(model, rest, ids) - expected).abs().max() > 1e-3


def test_an_edit_added_to_a_carried_checkpoint_is_saved_with_the_one_it_carries(
    models: dict[str, LanguageModel], tmp_path: Path
) -> None:
    """Once from the checkpoint's folder, once in one go: the same weights and the same logits."""
    model, whole = models["gpt2"], chained(("resid_post", 1), ("resid_post", 1), limit=1e6)
    first = NamedEdit(whole.record.parts[0], Edit(whole.edit.placements[:1]))
    second = NamedEdit(whole.record.parts[1], Edit(whole.edit.placements[1:]))
    save_checkpoint(model, first.edit, tmp_path / "first", record=record_of(first))
    base = load_base(tmp_path / "first")
    assert base.before is not None
    assert base.before.record == first.record
    assert base.before.edit.digest == first.edit.digest
    assert base.model.name == model.name
    assert base.model.fingerprint == model.fingerprint  # the hooks are not on it
    added = NamedEdit.combined([base.before, second])
    assert added.record == whole.record
    save_checkpoint(base.model, added.edit, tmp_path / "added", record=record_of(added))
    (tmp_path / "at_once").mkdir()
    write_model(model, whole.edit, tmp_path / "at_once", "carried")
    weights = [
        (tmp_path / n / "model.edited.safetensors").read_bytes() for n in ("added", "at_once")
    ]
    assert weights[0] == weights[1]
    expected = edited_logits(model, whole.edit, ids_of(model))
    loaded = load_checkpoint(tmp_path / "added")
    assert torch.equal(edited_logits(loaded, None, ids_of(model)), expected)
    assert [edit["axis"] for edit in open_checkpoint(tmp_path / "added").record["edits"]] == [*AXES]


def test_an_edit_added_to_a_folded_checkpoint_folds_on_top_and_both_are_listed(
    models: dict[str, LanguageModel], tmp_path: Path
) -> None:
    model, whole = models["gpt2"], chained(("mlp_out", 1), ("mlp_out", 1))
    first = NamedEdit(whole.record.parts[0], Edit(whole.edit.placements[:1]))
    second = NamedEdit(whole.record.parts[1], Edit(whole.edit.placements[1:]))
    save_checkpoint(model, first.edit, tmp_path / "first", record=record_of(first))
    base = load_base(tmp_path / "first")
    assert base.before is None
    assert [edit["axis"] for edit in folded_into(base.model)] == ["gender"]
    saved = save_checkpoint(base.model, second.edit, tmp_path / "added", record=record_of(second))
    assert saved.form == "folded"
    record = open_checkpoint(tmp_path / "added").record
    assert [edit["axis"] for edit in record["edits"]] == [*AXES]
    ids = ids_of(model)
    logits = edited_logits(load_checkpoint(tmp_path / "added"), None, ids)
    torch.testing.assert_close(logits, edited_logits(model, whole.edit, ids), atol=1e-5, rtol=0)


def test_the_second_of_two_at_one_module_is_missed_where_it_is_lost(
    models: dict[str, LanguageModel], tmp_path: Path
) -> None:
    from safetensors.torch import load_file, save_file

    edit = chained(("resid_post", 1), ("resid_post", 1)).edit
    folder = tmp_path / "saved"
    folder.mkdir()
    write_model(models["gpt2"], edit, folder, "carried")
    assert len(json.loads((folder / "config.json").read_text())["erasures"]) == 2
    weights = load_file(folder / "model.edited.safetensors")
    left = {key: value for key, value in weights.items() if ".then." not in key}
    assert len(left) == len(weights) - 6
    save_file(left, folder / "model.edited.safetensors", metadata={"format": "pt"})
    with pytest.raises(ValueError, match="was not loaded: this would be the unedited model"):
        AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True)


def test_means_that_a_first_erasure_made_equal_stay_equal() -> None:
    """Under any second affine map at the same place."""
    rng = np.random.default_rng(0)
    x, group = rng.normal(size=(40, 32)), np.arange(40) % 2
    x[group == 1] += rng.normal(size=32)
    direction = x[group == 1].mean(0) - x[group == 0].mean(0)
    unit = direction[:, None] / np.linalg.norm(direction)
    y = oblique_erasure(32)(AffineErasure(unit, unit.T, x.mean(0))(x))
    np.testing.assert_allclose(y[group == 1].mean(0), y[group == 0].mean(0), atol=1e-12)
