"""All that a search can choose can be saved: layers, sites, erasers and axes in one edit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from countergen_edit.edits import Edit, NamedEdit
from countergen_edit.edits.checkpoints import load_checkpoint, open_checkpoint, save_checkpoint
from countergen_edit.edits.checkpoints.parity import edited_logits
from countergen_edit.erasers import AffineErasure
from countergen_edit.models import LanguageModel
from tests.edits.checkpoints.conftest import TEXT, oblique_erasure

pytestmark = pytest.mark.slow  # every test is of whole runs


def orthogonal_erasure(d: int, seed: int) -> AffineErasure:
    rng = np.random.default_rng(seed)
    basis, _ = np.linalg.qr(rng.normal(size=(d, 2)))
    return AffineErasure.orthogonal(basis.T, rng.normal(size=d))


def part(eraser: str, site: str, layers: dict[int | None, int], task: str = "gender") -> NamedEdit:
    """An edit as a search fits it: layer → seed."""
    make = oblique_erasure if eraser == "leace" else orthogonal_erasure
    edit = Edit.at(site, {layer: make(32, seed=seed) for layer, seed in layers.items()})
    return NamedEdit.of(edit, eraser, task=task)


CHOICES = {
    "layers of the residual stream": [part("leace", "resid_post", {0: 1, 1: 2})],
    "sites": [
        part("leace", "resid_post", {0: 1}),
        part("leace", "mlp_out", {1: 2}),
        part("leace", "embed", {None: 3}),
    ],
    "erasers of two axes": [
        part("leace", "resid_post", {0: 1}),
        part("rlace", "resid_post", {1: 2}, task="nationality"),
    ],
    "layers of an MLP": [part("rlace", "mlp_out", {0: 1, 1: 2})],
    "sites of two axes": [
        part("leace", "attn_out", {1: 1}),
        part("rlace", "mlp_out", {0: 2}),
        part("leace", "embed", {None: 3}, task="nationality"),
        part("rlace", "attn_out", {0: 4}, task="nationality"),
    ],
}
FOLDED = {"layers of an MLP", "sites of two axes"}


@pytest.mark.parametrize(
    ("choice", "form"),
    [*((choice, "auto") for choice in CHOICES), ("layers of an MLP", "carried")],
)
def test_a_choice_is_saved_as_it_computes(
    choice: str, form: str, models: dict[str, LanguageModel], tmp_path: Path
) -> None:
    model, whole = models["gpt2"], NamedEdit.combined(CHOICES[choice])
    saved = save_checkpoint(
        model, whole.edit, tmp_path / "saved", form=form, record=whole.record.to_dict()
    )
    assert saved.form == ("folded" if choice in FOLDED and form == "auto" else "carried")
    assert saved.parity.effect > 1000 * saved.parity.tolerance
    checkpoint = open_checkpoint(tmp_path / "saved")
    assert checkpoint.edit.digest == whole.edit.digest
    assert checkpoint.record["id"] == whole.id
    ids = model.tokenizer(TEXT).input_ids
    expected = edited_logits(model, whole.edit, ids)
    loaded = edited_logits(load_checkpoint(tmp_path / "saved"), None, ids)
    torch.testing.assert_close(loaded, expected, atol=1e-5, rtol=0)
    for lost in whole.edit.placements:  # no placement is without effect, or its loss is unseen
        rest = Edit(tuple(p for p in whole.edit.placements if p is not lost))
        assert (edited_logits(model, rest, ids) - expected).abs().max() > 1e-3
