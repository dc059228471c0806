"""On the testbed, whose logits reach 20 after a residual stream that reaches 800."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from countergen_edit.edits import Edit
from countergen_edit.edits.checkpoints.parity import edited_logits, reload
from countergen_edit.edits.checkpoints.saving import write_model
from countergen_edit.models import LanguageModel, encode, load
from countergen_edit.testbed import directory, load_truth
from tests.edits.checkpoints.conftest import edit_at

TEXTS = load_truth().neutral_texts()[:50]
Logits = list[Tensor]


@pytest.fixture(scope="module")
def edits(testbed: LanguageModel) -> dict[str, Edit]:
    by_site = {name: edit_at(testbed, name) for name in ("resid_post", "mlp_out")}
    return by_site | {"folded": edit_at(testbed, "attn_out") + by_site["mlp_out"]}


@pytest.fixture(scope="module")
def saved(
    testbed: LanguageModel, edits: dict[str, Edit], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Logits]:
    """Logits in a fresh process; of the folded model, also with its weights widened."""
    root = tmp_path_factory.mktemp("parity")
    ids = [e.ids for e in encode(testbed, TEXTS)]
    for name, edit in edits.items():
        (root / name).mkdir()
        write_model(testbed, edit, root / name, "folded" if name == "folded" else "carried")
    folders = {name: (root / name, ids, "float32", name != "folded") for name in edits}
    logits, keys = reload(folders | {"wide": (root / "folded", ids, "float64", False)})
    assert not any(keys.values())
    return {name: [logits[f"{name}.{i}"] for i in range(len(ids))] for name in keys}


def edited(model: LanguageModel, edit: Edit) -> Logits:
    return [edited_logits(model, edit, e.ids) for e in encode(model, TEXTS)]


def difference(a: Logits, b: Logits) -> float:
    return max(float((x - y).abs().max()) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("site", ["resid_post", "mlp_out"])
def test_a_carried_model_computes_what_the_edited_one_does(
    site: str, testbed: LanguageModel, edits: dict[str, Edit], saved: dict[str, Logits]
) -> None:
    """To the bit where kernels are the same: both run the norms of the Hugging Face model."""
    assert difference(saved[site], edited(testbed, edits[site])) <= 1e-5


def test_a_folded_model_differs_by_the_rounding_of_float32_alone(
    testbed: LanguageModel, edits: dict[str, Edit], saved: dict[str, Logits]
) -> None:
    """Each is 2e-5 from what it computes in float64, and there the two are one."""
    wide = load(directory(), dtype="float64")
    assert difference(saved["wide"], edited(wide, edits["folded"])) <= 1e-6
    narrow = edited(testbed, edits["folded"])
    largest = max(float(logits.abs().max()) for logits in narrow)
    assert difference(saved["folded"], narrow) <= 1.5e-6 * largest


def test_without_an_edit_memory_and_plain_transformers_agree_to_the_bit(
    testbed: LanguageModel,
) -> None:
    from transformers import AutoModelForCausalLM

    plain = AutoModelForCausalLM.from_pretrained(
        directory(), attn_implementation="eager", dtype=torch.float32
    )
    for encoding in encode(testbed, TEXTS[:10]):
        with torch.inference_mode():
            logits = plain(torch.tensor([encoding.ids])).logits[0].double()
        assert torch.equal(edited_logits(testbed, None, encoding.ids), logits)


def test_hooks_within_a_norm_are_served_by_the_bridge(testbed: LanguageModel) -> None:
    [ids] = [e.ids for e in encode(testbed, TEXTS[:1])]
    before = edited_logits(testbed, None, ids)
    with testbed.bridge.hooks(fwd_hooks=[("ln_final.hook_normalized", lambda x, hook: 0 * x)]):
        hooked = edited_logits(testbed, None, ids)
    assert torch.allclose(hooked, hooked[:1].expand_as(hooked))
    assert torch.equal(edited_logits(testbed, None, ids), before)
