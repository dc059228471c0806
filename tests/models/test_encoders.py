"""Encoders of any family have the same hook points, and hooks there act and leave no trace."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import transformers

from countergen_edit.core.conf_path import read_config
from countergen_edit.core.errors import UserError
from countergen_edit.data.template_bank import bank_from_config
from countergen_edit.edits import Edit, Placement, Shift, applied
from countergen_edit.models.classifiers import Classifier, classifier_from_objects
from countergen_edit.testbed.classifiers import build, plant

SMALL: dict[str, Any] = {"num_hidden_layers": 3, "num_attention_heads": 2, "hidden_size": 8}
SIZES: dict[str, dict[str, Any]] = {
    "Bert": SMALL | {"intermediate_size": 16},
    "Roberta": SMALL | {"intermediate_size": 16, "pad_token_id": 0},
    "Electra": SMALL | {"intermediate_size": 16, "embedding_size": 8},
    "DistilBert": {"n_layers": 3, "n_heads": 2, "dim": 8, "hidden_dim": 16},
    "GPT2": {"n_layer": 3, "n_head": 2, "n_embd": 8, "pad_token_id": 0},
    "Albert": SMALL | {"intermediate_size": 16, "embedding_size": 8},  # its blocks share weights
}
FAMILIES = [*SIZES][:-1]
TEXTS = ["She feels sad.", "My brother told us all about the recent amazing events."]


@pytest.fixture(scope="module")
def tokenizer():
    return build(plant(bank_from_config(read_config("template", "sentiment"))))[1]


def classifier(family: str, tokenizer: Any) -> Classifier:
    torch.manual_seed(0)
    config = getattr(transformers, f"{family}Config")(
        vocab_size=len(tokenizer), id2label={0: "negative", 1: "positive"}, **SIZES[family]
    )
    hf_model = getattr(transformers, f"{family}ForSequenceClassification")(config).eval()
    return classifier_from_objects(family, hf_model, tokenizer, "sentiment")


@pytest.mark.parametrize("family", FAMILIES)
def test_activations_are_the_hidden_states_of_transformers(family, tokenizer):
    model = classifier(family, tokenizer)
    rows, _ = model.encoded(TEXTS)
    states = [
        model.hf_model(**tokenizer(text, return_tensors="pt"), output_hidden_states=True)
        for text in TEXTS
    ]
    for k, (site, layer) in enumerate((("embed", None), ("resid_post", 0), ("resid_post", 1))):
        found, texts = model.encoder.activations(rows, site=site, layer=layer, tokens="all")
        expected = torch.cat([state.hidden_states[k][0] for state in states]).numpy()
        np.testing.assert_allclose(found, expected, atol=1e-5)
        assert texts.tolist() == [i for i in (0, 1) for _ in rows[i]["input_ids"]]


@pytest.mark.parametrize(("family", "place"), [(f, -1 if f == "GPT2" else 0) for f in FAMILIES])
def test_the_token_that_the_head_reads_is_found(family, place, tokenizer):
    """Encoders read the first token; a causal model that classifies reads the last."""
    model = classifier(family, tokenizer)
    rows, _ = model.encoded(TEXTS)
    read, texts = model.encoder.activations(rows, site="resid_post", layer=2)
    every, row = model.encoder.activations(rows, site="resid_post", layer=2, tokens="all")
    assert texts.tolist() == [0, 1]
    for text in texts:
        np.testing.assert_allclose(read[text], every[row == text][place], atol=1e-6)


@pytest.mark.parametrize("site", ["embed", "resid_post"])
def test_an_edit_acts_while_it_is_attached_and_leaves_no_trace(site, tokenizer):
    model = classifier("Bert", tokenizer)
    before = model.probabilities(TEXTS)["positive"]
    moved = Edit((Placement(site, 1 if site == "resid_post" else None, Shift(np.arange(8.0))),))
    with applied(model.encoder, moved):
        edited = model.probabilities(TEXTS)["positive"]
    np.testing.assert_array_equal(model.probabilities(TEXTS)["positive"], before)
    assert np.abs(edited - before).min() > 1e-6


def test_what_an_encoder_has_not_is_refused_in_one_line(tokenizer):
    encoder = classifier("Bert", tokenizer).encoder
    rows = [{"input_ids": [1, 2]}]
    with pytest.raises(UserError, match=r"valid are 0\.\.2"):
        encoder.activations(rows, site="resid_post", layer=3)
    with pytest.raises(UserError, match="no site mlp_out"):
        encoder.activations(rows, site="mlp_out", layer=0)
    with pytest.raises(UserError, match="no list of its 3 blocks"):
        _ = classifier("Albert", tokenizer).encoder
