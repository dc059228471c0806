"""Edits of several axes in one checkpoint, and one added to a checkpoint that carries some."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from countergen_edit.edits import Edit, NamedEdit, applied
from countergen_edit.edits.checkpoints import (
    edits_in_record,
    folded_into,
    load_base,
    load_checkpoint,
    open_checkpoint,
    save_checkpoint,
)
from countergen_edit.edits.checkpoints.saving import write_model
from countergen_edit.models import capture
from tests.edits.checkpoints.conftest import TEXT, logits, oblique_erasure, plain_logits

pytestmark = pytest.mark.slow  # every test is of whole runs

AXES = ("gender", "nationality")


def chained(*places: tuple[str, int | None], limit: float | None = None) -> list[NamedEdit]:
    """An edit at each place, each fitted after those before it; all with a limit."""
    edits: list[NamedEdit] = []
    for seed, ((site, layer), task) in enumerate(zip(places, (*AXES, "age"), strict=False), 1):
        edit = Edit.at(site, {layer: oblique_erasure(32, seed=seed)})
        edit = Edit(tuple(replace(place, limit=limit) for place in edit.placements))
        after = [place for one in edits for place in one.record.places]
        edits.append(NamedEdit.of(edit, "leace", task=task, after=after))
    return edits


@pytest.mark.parametrize("site", ["resid_post", "attn_out", "mlp_out"])
def test_two_at_one_place_act_one_after_the_other(site, models):
    """Against the two maps written out, one after the other."""
    model, edit = models["gpt2"], NamedEdit.combined(chained((site, 1), (site, 1))).edit
    before = capture(model, [TEXT], sites=(site,), layers=[1]).values[site][0].astype(float)
    with applied(model, edit):
        after = capture(model, [TEXT], sites=(site,), layers=[1]).values[site][0]
    expected = before
    for place in edit.placements:
        e = place.erasure
        expected = expected - (expected - e.mean) @ e.right.T @ e.left.T  # type: ignore[union-attr]
    np.testing.assert_allclose(after, expected, atol=1e-4)
    assert (logits(model, Edit(edit.placements[::-1])) - logits(model, edit)).any()


@pytest.mark.parametrize(
    ("family", "places", "form"),
    [
        ("gpt2", (("resid_post", 1), ("resid_post", 1), ("embed", None)), "carried"),
        ("llama", (("attn_out", 1), ("attn_out", 1)), "carried"),
        ("gpt2", (("mlp_out", 1), ("mlp_out", 1), ("attn_out", 1)), "folded"),
        ("llama", (("attn_out", 1), ("attn_out", 1)), "folded"),
    ],
)
def test_plain_transformers_gives_the_hooks_logits_to_the_bit_or_to_the_rounding_of_weights(
    family, places, form, models, tmp_path
):
    model, edit = models[family], NamedEdit.combined(chained(*places)).edit
    write_model(model, edit, tmp_path, form)  # type: ignore[arg-type]
    found, expected = plain_logits(tmp_path, model), logits(model, edit)
    if form == "carried":
        assert torch.equal(found, expected)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
    for lost in edit.placements:  # none is lost
        rest = Edit(tuple(place for place in edit.placements if place is not lost))
        assert (logits(model, rest) - expected).abs().max() > 1e-3


@pytest.mark.parametrize(("site", "form"), [("resid_post", "carried"), ("mlp_out", "folded")])
def test_an_edit_added_to_a_checkpoint_is_saved_with_the_one_in_it(site, form, models, tmp_path):
    """Once from the checkpoint's folder, once in one go: the same logits, and both are listed."""
    limit = 1e6 if form == "carried" else None
    model, (first, second) = models["gpt2"], chained((site, 1), (site, 1), limit=limit)
    whole = NamedEdit.combined([first, second])
    record = {"edits": edits_in_record(first.record), "record": first.record.to_dict()}
    save_checkpoint(model, first.edit, tmp_path / "first", record=record, form=form)
    base, added = load_base(tmp_path / "first"), second
    if form == "folded":
        assert base.before is None
        assert [edit["axis"] for edit in folded_into(base.model)] == ["gender"]
    else:
        assert base.before is not None
        assert base.before.record == first.record
        assert base.before.edit.digest == first.edit.digest
        assert base.model.name == Path(model.name).name
        assert base.model.fingerprint == model.fingerprint
        added = NamedEdit.combined([base.before, second])
        assert added.record == whole.record
    edits = [*folded_into(base.model), *edits_in_record(added.record)]
    record = {"edits": edits, "record": added.record.to_dict()}
    saved = save_checkpoint(base.model, added.edit, tmp_path / "added", record=record, form=form)
    assert saved.form == form
    assert [edit["axis"] for edit in open_checkpoint(tmp_path / "added").record["edits"]] == [*AXES]
    found, expected = logits(load_checkpoint(tmp_path / "added")), logits(model, whole.edit)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
    if form == "carried":
        assert torch.equal(found, expected)


def test_the_second_of_two_at_one_module_is_missed_where_it_is_lost(models, tmp_path):
    edit = NamedEdit.combined(chained(("resid_post", 1), ("resid_post", 1))).edit
    write_model(models["gpt2"], edit, tmp_path, "carried")
    weights = load_file(tmp_path / "model.edited.safetensors")
    left = {key: value for key, value in weights.items() if ".then." not in key}
    assert len(left) == len(weights) - 6
    save_file(left, tmp_path / "model.edited.safetensors", metadata={"format": "pt"})
    with pytest.raises(ValueError, match="was not loaded: this would not be the edited model"):
        AutoModelForCausalLM.from_pretrained(tmp_path, trust_remote_code=True)
