"""Checkpoints of edits that leave attention sinks alone: carried to the bit, folded never."""

from __future__ import annotations

import re
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
from countergen_edit.models import LanguageModel, generate
from tests.edits.checkpoints.conftest import oblique_erasure
from tests.edits.test_sinks import PROMPTS, TEXTS, fitted, sunk
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
    """Every carried edit computes after a reload what it does in memory, and others do not."""
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


def test_a_carried_checkpoint_leaves_the_same_tokens_to_the_bit(
    sunken: dict[str, LanguageModel], tmp_path: Path
) -> None:
    """Also where one place has a limit and another has none; a lost limit would show."""
    edits = {family: fitted(model) + beside(model) for family, model in sunken.items()}
    everywhere = {family: edit.without_limits() for family, edit in edits.items()}
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


def test_an_edit_with_a_gate_is_written_read_and_never_folded(
    sunken: dict[str, LanguageModel], tmp_path: Path
) -> None:
    model = sunken["gpt2"]
    edit = gated(model)
    save_edit(edit, tmp_path)
    assert load_edit(tmp_path).digest == edit.digest
    [place] = edit.placements
    inside = Edit((replace(place, site="mlp_out"),))
    assert choose_form(model, inside) == "carried"
    with pytest.raises(UserError, match="with a gate does not fold into weights, which treat"):
        fold(model, inside)


def test_a_saved_and_reloaded_edit_leaves_the_same_tokens_alone(
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
    assert loaded.adds_bos
    assert len(generate(loaded, PROMPTS, max_new_tokens=4)) == len(PROMPTS)


def test_what_folds_at_every_position_is_carried_where_sinks_are_left(
    sunken: dict[str, LanguageModel], tmp_path: Path
) -> None:
    model = sunken["gpt2"]
    limit = fitted(model).placements[0].limit
    left = Edit((Placement("mlp_out", 0, oblique_erasure(model.d_model), limit),))
    assert choose_form(model, left.without_limits()) == "folded"
    assert choose_form(model, left) == "carried"
    with pytest.raises(UserError, match=r"mlp_out that leaves attention sinks alone.*form=carried"):
        fold(model, left)
    with pytest.raises(UserError) as refusal:
        save_checkpoint(model, left, tmp_path / "folded", form="folded", texts=TEXTS)
    words = str(refusal.value)
    tokens = sum(map(len, compared_ids(model, TEXTS)))
    # One beginning-of-text token in each text, and nothing else, is left alone.
    assert f"of {tokens} tokens it would edit {len(TEXTS)} that this edit leaves" in words
    kl = re.search(r"at a KL of (\S+) nats a token", words)
    divergences = []
    for row in compared_ids(model, TEXTS):
        a, b = (edited_logits(model, e, row).log_softmax(-1) for e in (left, left.without_limits()))
        divergences.append((a.exp() * (a - b)).sum(-1))
    assert kl is not None
    assert float(kl[1]) == pytest.approx(float(torch.cat(divergences).mean()), rel=1e-2)
    assert float(kl[1]) > 0.01
    with pytest.raises(UserError, match="skip path"):
        save_checkpoint(model, fitted(model), tmp_path / "folded", form="folded", texts=TEXTS)
    assert not list(tmp_path.iterdir())
