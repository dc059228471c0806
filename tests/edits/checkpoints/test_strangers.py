"""Plain transformers gives the edited model, whole, or an error; never another."""

import copy

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from countergen_edit.edits import applied
from countergen_edit.edits.checkpoints.saving import write_model
from tests.edits.checkpoints.conftest import TEXT, edit_at, logits, plain_logits
from tests.tiny_models import FAMILIES

pytestmark = pytest.mark.slow  # every test is of whole runs

NEW_TOKENS = 24
CASES = [("carried", family, "resid_post") for family in ("testbed", *FAMILIES)] + [
    ("carried", "qwen2", "attn_out"),
    ("carried", "opt", "mlp_out"),
    ("carried", "gemma", "embed"),
    ("folded", "gpt2", "mlp_out"),
    ("folded", "llama", "attn_out"),  # its bias is switched on
]


def load(folder, **how):
    model, report = AutoModelForCausalLM.from_pretrained(
        folder, trust_remote_code=True, output_loading_info=True, **how
    )
    assert not any(report.values())
    return model.eval()


def greedy(model, ids):
    row = torch.tensor([ids])
    how = {"max_new_tokens": NEW_TOKENS, "do_sample": False, "eos_token_id": None}
    new = model.generate(row, attention_mask=torch.ones_like(row), pad_token_id=0, **how)
    return list(new[0, len(ids) :].tolist())


@pytest.mark.parametrize(("form", "family", "site"), CASES)
def test_a_checkpoint_is_the_edited_model(form, family, site, models, tmp_path):
    model, folder = models[family], tmp_path / "saved"
    edit, ids = edit_at(model, site), model.tokenizer(TEXT).input_ids
    write_model(model, edit, folder, form)
    # As TransformerLens runs attention, so that nothing but the edit can differ.
    stranger = load(folder, attn_implementation="eager")
    edited = logits(model, edit)
    torch.testing.assert_close(plain_logits(stranger, model), edited, atol=1e-5, rtol=1e-7)
    assert (edited - logits(model)).abs().max() > 0.1
    with applied(model, edit):
        assert greedy(stranger, ids) == greedy(model.bridge.original_model, ids)
    assert AutoTokenizer.from_pretrained(folder)(TEXT).input_ids == ids
    if form == "folded":  # a stock class, which others test
        AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=False)
        assert not list(folder.glob("*.py"))
        return
    for cls in (AutoModelForCausalLM, AutoConfig):  # never the unedited model without trust
        with pytest.raises(ValueError, match="trust_remote_code=True"):
            cls.from_pretrained(folder, trust_remote_code=False)
    stranger.save_pretrained(tmp_path / "again")
    # With the attention that transformers chooses, whose sums run in another order: the unedited
    # testbed, whose logits reach 20, differs by 1.5e-5 between two kinds.
    tolerance = max(1e-5, 1.5e-6 * float(edited.abs().max()))
    for other in (copy.deepcopy(stranger), load(tmp_path / "again")):
        torch.testing.assert_close(plain_logits(other, model), edited, atol=tolerance, rtol=1e-7)
    half = load(folder, dtype=torch.bfloat16)
    erasures = {t.dtype for name, t in half.named_buffers() if ".erasure." in name}
    assert (half.dtype, erasures) == (torch.bfloat16, {torch.float32})
    # bfloat16 keeps eight bits; without the edit the difference would be far larger.
    assert (plain_logits(half, model) - edited).abs().mean() < 0.03 * edited.abs().max()
