"""Low-rank updates: attached, merged, saved and taken off, in every family."""

import numpy as np
import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from countergen_edit.core.errors import UserError
from countergen_edit.edits import Edit, LowRankUpdate, applied
from countergen_edit.edits.checkpoints import save_checkpoint
from countergen_edit.edits.checkpoints.forms import fold
from countergen_edit.edits.checkpoints.stock import stock_model
from countergen_edit.models import resuming
from countergen_edit.runs.student import block_names, matrices
from tests.edits.checkpoints.conftest import logits, plain_logits


def update_of(model, *, first=0, rank=2, seed=0):
    rng, plain = np.random.default_rng(seed), stock_model(model)
    factors = {}
    for name in matrices(model, block_names(model)[first:], None):
        module = plain.get_submodule(name)
        shape = module.weight.shape
        d_out, d_in = shape if isinstance(module, torch.nn.Linear) else shape[::-1]
        a, b = rng.normal(size=(rank, d_in)), rng.normal(size=(d_out, rank))
        factors[name] = (0.1 * a.astype(np.float32), 0.1 * b.astype(np.float32))
    return LowRankUpdate(factors)


def test_an_attached_update_is_the_merged_matrices_and_leaves_no_bit(model):
    before, update = logits(model), update_of(model)
    edited, plain = logits(model, Edit((), update=update)), stock_model(model)
    for name, (a, b) in update.factors.items():  # by hand, not by our merging
        module = plain.get_submodule(name)
        change = torch.from_numpy(b @ a)
        change = change if isinstance(module, torch.nn.Linear) else change.T
        module.weight = torch.nn.Parameter(module.weight + change)
    for merged in (plain, fold(model, Edit((), update=update))):
        torch.testing.assert_close(plain_logits(merged, model), edited, rtol=1e-4, atol=1e-5)
    assert (edited - before).abs().max() > 1e-3
    assert torch.equal(logits(model), before)


def test_a_model_that_skips_blocks_runs_those_of_the_update(model):
    last = model.n_layers - 1
    quick, update = resuming(model, range(model.n_layers)), update_of(model, first=last)
    unedited, edited = (logits(quick, edit) for edit in (None, Edit((), update=update)))
    assert torch.equal(edited, logits(model, Edit((), update=update)))
    assert torch.equal(logits(quick), unedited)


def test_an_update_of_another_model_is_refused(model):
    update = LowRankUpdate({"nowhere": (np.zeros((1, 3), "float32"), np.zeros((3, 1), "float32"))})
    with (
        pytest.raises(UserError, match=r"the edit updates nowhere \[3, 3\]"),
        applied(model, Edit((), update=update)),
    ):
        pass


def test_stock_transformers_and_peft_load_what_is_saved(model, tmp_path):
    edit = Edit((), update=update_of(model))
    expected, saved = logits(model, edit), save_checkpoint(model, edit, tmp_path / "saved")
    assert saved.form == "folded"
    base = AutoModelForCausalLM.from_pretrained(model.directory, attn_implementation="eager")
    adapter = save_checkpoint(model, edit, tmp_path / "adapter", form="adapter").folder
    for plain in (saved.folder, PeftModel.from_pretrained(base, str(adapter))):
        torch.testing.assert_close(plain_logits(plain, model), expected, rtol=1e-4, atol=1e-5)
    factors = edit.update.factors if edit.update else ()
    assert len(load_file(adapter / "adapter_model.safetensors")) == 2 * len(factors)
