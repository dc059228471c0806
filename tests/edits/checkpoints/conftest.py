"""Models of every family, and edits of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer

from countergen_edit.edits import Edit
from countergen_edit.edits.checkpoints.parity import edited_logits
from countergen_edit.erasers import AffineErasure
from countergen_edit.models import LanguageModel, capture, load_model
from countergen_edit.testbed import directory

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


def plain_logits(plain: Any, model: LanguageModel) -> Tensor:
    """Of every token of the text, by a model of plain transformers or the folder of one.

    Attention runs as in TransformerLens, so that nothing but the edit can differ.
    """
    if isinstance(plain, Path):
        code = any(plain.glob("*.py"))
        how = {"attn_implementation": "eager", "trust_remote_code": code}
        plain = AutoModelForCausalLM.from_pretrained(plain, **how)
    ids = torch.tensor([model.tokenizer(TEXT).input_ids])
    with torch.inference_mode():
        return plain.eval()(ids).logits[0].double()


@pytest.fixture(scope="session")
def wide_testbed(tmp_path_factory):
    """The testbed, whose shipped weights are float16, from a folder of float32."""
    folder = tmp_path_factory.mktemp("testbed")
    plain = AutoModelForCausalLM.from_pretrained(directory(), dtype="float32")
    plain.save_pretrained(folder)
    AutoTokenizer.from_pretrained(directory()).save_pretrained(folder)
    return load_model(folder)


@pytest.fixture(scope="session")
def models(models, wide_testbed):
    return {"testbed": wide_testbed} | models
