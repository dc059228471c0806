"""Φ of the package and of a user: a classifier's score, and a class in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from countergen_edit.core.errors import UserError
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.fairpair.phi import PHIS
from tests.metrics.fairpair_settings import fairpair, row_of

TEXTS = ["Jane is a nurse.", "She works at the hospital every day.", "good"]


def saved_classifier(folder: Path, labels: list[str]) -> tuple[Any, Any]:
    from transformers import BertConfig, BertForSequenceClassification

    from tests.tiny_models import tiny_tokenizer

    tokenizer = tiny_tokenizer()
    tokenizer.pad_token = tokenizer.eos_token
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    content = BertConfig(
        vocab_size=len(tokenizer),
        intermediate_size=16,
        id2label=dict(enumerate(labels)),
        label2id={label: i for i, label in enumerate(labels)},
        pad_token_id=tokenizer.pad_token_id,
        initializer_range=1.0,
        **sizes,
    )
    model = BertForSequenceClassification(content).eval()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return model, tokenizer


def test_a_classifiers_score_is_a_phi(tmp_path):
    model, tokenizer = saved_classifier(tmp_path, ["positive", "negative"])
    settings = {"kind": "classifier", "model": str(tmp_path), "label": "negative", "device": "cpu"}
    phi = PHIS.make("regard", settings)
    scores = phi.scores(TEXTS)
    for text, score in zip(TEXTS, scores, strict=True):
        ids = tokenizer([text], return_tensors="pt")
        logits = model(**ids).logits.detach().double()
        assert score == pytest.approx(float(logits.softmax(-1)[0, 1]), abs=1e-5)
    assert np.array_equal(phi.scores(TEXTS[::-1]), scores[::-1])
    assert phi.name == "classifier"
    with pytest.raises(UserError, match="did you mean 'negative'"):
        PHIS.make("regard", settings | {"label": "negativ"})


MINE = """
import numpy as np
from countergen_edit.metrics.fairpair import ScoreDifference

class Mine(ScoreDifference):
    def __init__(self, scale=1.0):
        self.scale = scale

    def scores(self, texts):
        return np.array([self.scale * len(text.split()) for text in texts])
"""


def test_a_phi_of_a_file_is_measured_under_the_users_name(testbed, tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    kind = f"{tmp_path / 'mine.py'}:Mine"
    metric = fairpair(phi={"words": {"kind": kind, "scale": 0.5}, "jaccard": {}})
    rows = metric.measure(EvaluationContext(testbed, tmp_path / "store"), None)
    bias = row_of(rows, "fairpair_bias", "words")
    first = metric.sampled(EvaluationContext(testbed, tmp_path / "store"), None)[0]
    gaps = [abs(len(u.split()) - len(v.split())) / 2 for u in first.p_g_x for v in first.g_px]
    of_first = row_of(rows, "fairpair_f", "words").detail["prompts"][0][1]
    assert of_first == pytest.approx(np.mean(gaps))
    assert bias.n == 3
    assert metric.phis["words"].name == "Mine"  # its draws depend on no folder
    with pytest.raises(UserError, match="did you mean 'scale'"):
        fairpair(phi={"words": {"kind": kind, "scal": 0.5}})
    with pytest.raises(UserError, match="Mne"):
        fairpair(phi={"words": {"kind": kind.replace("Mine", "Mne")}})
