"""On the testbed, whose logits reach 20 after a residual stream that reaches 800."""

from __future__ import annotations

import pytest
from torch import Tensor

from countergen_edit.edits import Edit
from countergen_edit.edits.checkpoints.parity import edited_logits, reload
from countergen_edit.edits.checkpoints.saving import write_model
from countergen_edit.models import LanguageModel, encode, load_model
from countergen_edit.testbed import directory, load_truth
from tests.edits.checkpoints.conftest import edit_at

TEXTS = load_truth().neutral_texts()[:20]
Logits = list[Tensor]


@pytest.fixture(scope="module")
def edit(wide_testbed: LanguageModel) -> Edit:
    return edit_at(wide_testbed, "attn_out") + edit_at(wide_testbed, "mlp_out")


@pytest.fixture(scope="module")
def saved(wide_testbed, edit, tmp_path_factory):
    """Logits of the folded model in a fresh process, also with its weights widened."""
    folder = tmp_path_factory.mktemp("parity")
    ids = [e.ids for e in encode(wide_testbed, TEXTS)]
    write_model(wide_testbed, edit, folder, "folded")
    dtypes = {"saved": "float32", "wide": "float64"}
    logits, keys = reload({name: (folder, ids, dtypes[name], False) for name in dtypes})
    assert not any(keys.values())
    return {name: [logits[f"{name}.{i}"] for i in range(len(ids))] for name in keys}


def edited(model: LanguageModel, edit: Edit) -> Logits:
    return [edited_logits(model, edit, e.ids) for e in encode(model, TEXTS)]


def difference(a: Logits, b: Logits) -> float:
    return max(float((x - y).abs().max()) for x, y in zip(a, b, strict=True))


def test_a_folded_model_differs_by_the_rounding_of_float32_alone(wide_testbed, edit, saved):
    """Each is 2e-5 from its logits in float64, where the two agree."""
    wide = load_model(directory(), dtype="float64")
    assert difference(saved["wide"], edited(wide, edit)) <= 1e-6
    narrow = edited(wide_testbed, edit)
    largest = max(float(logits.abs().max()) for logits in narrow)
    assert difference(saved["saved"], narrow) <= 1.5e-6 * largest
