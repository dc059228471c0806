"""Models of every family, and edits of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from torch import Tensor

from countergen_edit.edits import Edit
from countergen_edit.edits.checkpoints.parity import edited_logits
from countergen_edit.erasers import AffineErasure
from countergen_edit.models import LanguageModel, capture, load_model
from countergen_edit.testbed import directory
from tests.tiny_models import FAMILIES, tiny_model_dir

TEXT = "Jane is a nurse and John"


def oblique_erasure(d: int, rank: int = 2, seed: int = 0, mean: Any = None) -> AffineErasure:
    """left ≠ rightᵀ and a mean far from zero, so that a lost transpose or offset shows."""
    rng = np.random.default_rng(seed)
    right, _ = np.linalg.qr(rng.normal(size=(d, rank)))
    left = right + 0.2 * rng.normal(size=(d, rank))
    left = left @ np.linalg.inv(right.T @ left)
    return AffineErasure(left, right.T, rng.normal(size=d) if mean is None else mean)


def edit_at(model: LanguageModel, site: str) -> Edit:
    layer = None if site == "embed" else 1
    mean = None
    if model.d_model > 32:  # a trained model: a mean it has never seen would blow its logits up
        mean = capture(model, [TEXT], sites=(site,), layers=[1]).values[site][0, 0]
    return Edit.at(site, {layer: oblique_erasure(model.d_model, mean=mean)})


def logits(model: LanguageModel, edit: Edit | None = None) -> Tensor:
    """Of every token of the text, under an edit or as the model is."""
    return edited_logits(model, edit, model.tokenizer(TEXT).input_ids)


@pytest.fixture(scope="session")
def wide_testbed(tmp_path_factory):
    """The testbed, whose shipped weights are float16, from a folder of float32."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = tmp_path_factory.mktemp("testbed")
    plain: Any = AutoModelForCausalLM.from_pretrained(directory(), dtype="float32")
    plain.save_pretrained(folder)
    AutoTokenizer.from_pretrained(directory()).save_pretrained(folder)
    return load_model(folder)


@pytest.fixture(scope="session")
def models(tmp_path_factory, wide_testbed):
    root = tmp_path_factory.mktemp("sources")
    tiny = {family: load_model(tiny_model_dir(family, root / family)) for family in FAMILIES}
    return {"testbed": wide_testbed} | tiny
