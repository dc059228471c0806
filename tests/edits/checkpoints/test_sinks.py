"""Checkpoints of edits that skip tokens: carried to the bit, never folded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from countergen_edit.core.errors import UserError
from countergen_edit.edits import Edit, Placement, load_edit, save_edit
from countergen_edit.edits.checkpoints import choose_form, fold, load_checkpoint, save_checkpoint
from countergen_edit.edits.checkpoints.parity import compared_ids, edited_logits, reload
from countergen_edit.edits.checkpoints.saving import write_model
from countergen_edit.erasers import Gate
from countergen_edit.models import LanguageModel
from tests.edits.checkpoints.conftest import oblique_erasure
from tests.edits.test_sinks import TEXTS, fitted, sunk
from tests.planted_sink import SUNK

pytestmark = pytest.mark.slow  # every test is of whole runs


@pytest.fixture(scope="module")
def sunken() -> dict[str, LanguageModel]:
    return {family: sunk(family) for family in SUNK}


def carries_to_the_bit(
    models: dict[str, LanguageModel],
    edits: Mapping[str, Edit],
    others: Mapping[str, Edit],
    root: Path,
) -> None:
    """Every carried edit gives the same logits after a reload, and others do not."""
    jobs, expected = {}, {}
    for family, edit in edits.items():
        model = models[family]
        (root / family).mkdir()
        write_model(model, edit, root / family, "carried")
        ids = compared_ids(model, TEXTS)
        jobs[family] = (root / family, ids, "float32", True)
        expected[family] = [edited_logits(model, edit, row) for row in ids]
        without = [edited_logits(model, others[family], row) for row in ids]
        gaps = [(a - b).abs().max() for a, b in zip(expected[family], without, strict=True)]
        assert min(gaps) > 1e-2
    logits, keys = reload(jobs)
    assert not any(keys.values())
    for family, own in expected.items():
        for i, row in enumerate(own):
            assert torch.equal(logits[f"{family}.{i}"], row)


def beside(model: LanguageModel) -> Edit:
    """One that has neither a limit nor a gate."""
    return Edit((Placement("attn_out", 1, oblique_erasure(model.d_model)),))


def test_a_carried_checkpoint_skips_the_same_tokens_to_the_bit(
    sunken: dict[str, LanguageModel], tmp_path: Path
) -> None:
    """Also where one place has a limit and another has none; a lost limit would show."""
    edits = {family: fitted(model) + beside(model) for family, model in sunken.items()}
    everywhere = {
        family: Edit(tuple(replace(place, limit=None) for place in edit.placements))
        for family, edit in edits.items()
    }
    carries_to_the_bit(sunken, edits, everywhere, tmp_path)


def gated(model: LanguageModel) -> Edit:
    """A gate of a weight so large that it is open at some tokens, half open or closed at others."""
    erasure = oblique_erasure(model.d_model)
    rng = np.random.default_rng(3)
    gate = Gate(rng.normal(size=model.d_model), 0.4)
    return Edit((Placement("resid_post", 1, replace(erasure, gate=gate)),))


def test_a_carried_checkpoint_opens_the_same_gate_to_the_bit(
    sunken: dict[str, LanguageModel], tmp_path: Path
) -> None:
    """Also where another place has none; a lost gate would show."""
    edits = {family: gated(model) + beside(model) for family, model in sunken.items()}
    always = {
        family: Edit((Placement("resid_post", 1, oblique_erasure(model.d_model)),)) + beside(model)
        for family, model in sunken.items()
    }
    carries_to_the_bit(sunken, edits, always, tmp_path)


def test_an_edit_that_skips_tokens_is_carried_and_never_folded(
    sunken: dict[str, LanguageModel], tmp_path: Path
) -> None:
    model = sunken["gpt2"]
    erasure = oblique_erasure(model.d_model)
    everywhere = Placement("mlp_out", 0, erasure)
    assert choose_form(model, Edit((everywhere,))) == "folded"
    skipping = replace(everywhere, limit=fitted(model).placements[0].limit)
    with_gate = replace(gated(model).placements[0], site="mlp_out")
    for place, reason in ((skipping, "skips attention sinks"), (with_gate, "has a gate")):
        edit = Edit((place,))
        save_edit(edit, tmp_path / reason)
        assert load_edit(tmp_path / reason).digest == edit.digest
        assert choose_form(model, edit) == "carried"
        with pytest.raises(UserError, match=rf"mlp_out does not fold .*{reason}; .*form=carried"):
            fold(model, edit)


def test_a_saved_and_reloaded_edit_skips_the_same_tokens(
    sunken: dict[str, LanguageModel], tmp_path: Path
) -> None:
    model = sunken["llama"]
    edit = fitted(model)
    saved = save_checkpoint(model, edit, tmp_path / "saved", texts=TEXTS)
    assert saved.form == "carried"
    assert saved.parity.max_difference == 0
    loaded = load_checkpoint(saved.folder)
    [ids] = compared_ids(model, TEXTS[:1])
    assert torch.equal(edited_logits(loaded, None, ids), edited_logits(model, edit, ids))
