"""`form=adapter`: peft reads an edit as an adapter of the unedited model, without this package."""

from functools import reduce
from pathlib import Path

import pytest
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM

from countergen_edit.core.errors import UserError
from countergen_edit.core.reading import json_mapping
from countergen_edit.edits import Edit
from countergen_edit.edits.checkpoints import load_checkpoint, save_checkpoint
from countergen_edit.edits.checkpoints.saving import write_model
from countergen_edit.models import load_model
from tests.edits.checkpoints.conftest import edit_at, logits, plain_logits
from tests.edits.checkpoints.test_heads import edit_of as at_heads
from tests.edits.test_update import update_of

EDITS = {
    "update": lambda model: Edit((), update=update_of(model)),
    "heads": lambda model: at_heads(model, 2, 0),
    "attn_out": lambda model: edit_at(model, "attn_out"),
    "mlp_out": lambda model: edit_at(model, "mlp_out"),
}
TOGETHER = "heads attn_out update"


@pytest.mark.parametrize(
    ("kinds", "family"),
    [
        *(("update", "gpt2"), ("heads", "opt"), ("mlp_out", "gpt_neox")),
        *((TOGETHER, family) for family in ("gpt2", "opt", "gpt_neox")),
    ],
)
def test_an_edit_is_an_adapter_that_peft_reads_and_merges(kinds, family, models, tmp_path):
    model = models[family]
    edit = reduce(Edit.then, (EDITS[kind](model) for kind in kinds.split()))
    write_model(model, edit, tmp_path, "adapter")
    expected = logits(model, edit)
    assert (expected - logits(model)).abs().max() > 1e-2
    # By transformers and peft alone.
    base = AutoModelForCausalLM.from_pretrained(model.directory, attn_implementation="eager")
    adapted = plain_logits(PeftModel.from_pretrained(base, str(tmp_path)), model)
    torch.testing.assert_close(adapted, expected, atol=2e-5, rtol=0)
    merged = load_model(model.directory, adapter=tmp_path)
    torch.testing.assert_close(logits(merged), expected, atol=2e-5, rtol=0)
    config = json_mapping(tmp_path / "adapter_config.json")
    assert config["base_model_name_or_path"] == Path(model.directory).name
    assert config["target_modules"] == sorted(config["target_modules"])


def test_an_adapter_of_ours_loads_on_the_model_that_it_names_or_on_the_one_given(models, tmp_path):
    model, folder = models["llama"], tmp_path / "saved"
    edit = EDITS["update"](model)
    save_checkpoint(model, edit, folder, form="adapter")
    expected = logits(model, edit)
    for loaded in (
        load_checkpoint(folder, base=model.directory),
        load_model(model.directory, adapter=folder),
    ):
        torch.testing.assert_close(logits(loaded), expected, atol=2e-5, rtol=0)
    with pytest.raises(UserError, match=r"say where .* is: model=NAME model.adapter="):
        load_checkpoint(folder)
    with pytest.raises(UserError, match="was made for another model"):
        load_checkpoint(folder, base=models["gpt2"].directory)
    assert not [path for path in folder.glob("*") if path.name.startswith("model")]
