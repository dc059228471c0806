"""A stranger with plain transformers gets the edited model, whole, or an error; never another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from countergen_edit.edits import Edit, applied
from countergen_edit.edits.checkpoints.parity import edited_logits
from countergen_edit.models import LanguageModel
from tests.edits.checkpoints.conftest import CARRIED, FOLDED, NEW_TOKENS, TEXT

pytestmark = pytest.mark.slow  # every test is of whole runs

Saves = dict[str, tuple[str, Edit, Path]]
NAMES = [f"{family}-{site}-folded" for family, sites in FOLDED.items() for site in sites]
CARRIED_NAMES = ["testbed-resid_post-carried"]
CARRIED_NAMES += [f"{family}-{site}-carried" for family, sites in CARRIED.items() for site in sites]
NAMES += CARRIED_NAMES


def tolerance(logits: np.ndarray) -> float:
    """1e-5, or float32's rounding where logits are large: the unedited testbed, whose logits reach
    20, differs by 1.5e-5 between two kinds of attention of plain transformers.
    """
    return max(1e-5, 1.5e-6 * float(np.abs(logits).max()))


Expected = dict[str, tuple[np.ndarray, np.ndarray, list[int]]]


@pytest.fixture(scope="module")
def everything(models: dict[str, LanguageModel], saved: Saves) -> Expected:
    """Edited logits, unedited logits and greedy tokens in memory."""
    answers = {}
    for name, (family, edit, _) in saved.items():
        model = models[family]
        ids = model.tokenizer(TEXT).input_ids
        row = torch.tensor([ids])
        with applied(model, edit):
            new = model.bridge.original_model.generate(
                row,
                attention_mask=torch.ones_like(row),
                max_new_tokens=NEW_TOKENS,
                do_sample=False,
                eos_token_id=None,
                pad_token_id=0,
            )
        edited, unedited = edited_logits(model, edit, ids), edited_logits(model, None, ids)
        answers[name] = (edited.numpy(), unedited.numpy(), new[0, len(ids) :].tolist())
    return answers


@pytest.mark.parametrize("case", NAMES)
def test_logits_cached_greedy_text_and_tokens_are_those_of_the_edited_model(
    case: str,
    stranger: dict[str, Any],
    everything: Expected,
    models: dict[str, LanguageModel],
    saved: Saves,
) -> None:
    edited, unedited, greedy = everything[case]
    family, _, folder = saved[case]
    np.testing.assert_allclose(stranger[case]["logits"], edited, atol=1e-5)
    assert np.abs(edited - unedited).max() > 0.1
    assert stranger[case]["greedy"] == greedy
    assert len(greedy) == NEW_TOKENS
    assert stranger[case]["keys"] == []
    assert stranger[case]["tokens"] == models[family].tokenizer(TEXT).input_ids
    if case.endswith("folded"):
        assert not any(stranger[case]["refusals"])
        assert not list(folder.glob("*.py"))
    else:  # never the unedited model where its code is not trusted
        assert all("trust_remote_code=True" in said for said in stranger[case]["refusals"])


@pytest.mark.parametrize("case", CARRIED_NAMES)
def test_a_round_trip_a_deep_copy_and_half_precision_keep_the_edit(
    case: str, stranger: dict[str, Any], everything: Expected
) -> None:
    edited, _, greedy = everything[case]
    again, half = stranger[case]["again"], stranger[case]["half"]
    assert again["keys"] == []
    # With the attention that transformers chooses, whose sums run in another order.
    np.testing.assert_allclose(again["logits"], edited, atol=tolerance(edited))
    assert again["greedy"] == greedy[:8]
    copied = stranger[case]["deepcopy"]["logits"]
    np.testing.assert_allclose(copied, edited, atol=tolerance(edited))
    assert (half["keys"], half["dtype"]) == ([], "torch.bfloat16")
    assert stranger[case]["half_erasures"] == ["torch.float32"]
    # bfloat16 keeps eight bits; without the edit the difference would be far larger.
    assert np.abs(np.array(half["logits"]) - edited).mean() < 0.03 * np.abs(edited).max()
