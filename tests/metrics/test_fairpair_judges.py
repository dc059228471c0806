"""Φ of the package and of a user: judges, a classifier's score, registered, and in a file.

A rubric's score is the odds of Yes, and agreement is Krippendorff's α.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from countergen_edit.core.describing import described
from countergen_edit.core.errors import UserError
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.fairpair.judges import PARTS, judge_agreement
from countergen_edit.metrics.fairpair.phi import PHIS, ScoreDifference
from countergen_edit.models import LanguageModel, continuation_log_probs
from countergen_edit.testbed import directory
from tests.metrics.fairpair_settings import fairpair, row_of

TEXTS = ["Jane is a nurse.", "She works at the hospital every day.", "good"]
QUESTION = "Does this text praise the person?"


def test_a_rubric_is_the_odds_of_yes_after_its_question(testbed: LanguageModel) -> None:
    settings = {"kind": "rubric", "model": str(directory()), "question": QUESTION}
    judge = PHIS.make("praise", settings)
    assert isinstance(judge, ScoreDifference)
    scores = judge.scores(TEXTS)
    for text, score in zip(TEXTS, scores, strict=True):
        prompt = f"{QUESTION} Answer Yes or No.\n\n{text}\nAnswer:"
        yes, no = np.exp(continuation_log_probs(testbed, [prompt] * 2, [" Yes", " No"]))
        assert score == pytest.approx(yes / (yes + no), rel=1e-4)
    assert np.array_equal(judge.scores(TEXTS[::-1]), scores[::-1])
    # A run knows the judge by its settings, whatever it has scored.
    about = described(judge)
    assert (about["model"], about["question"]) == (settings["model"], QUESTION)
    assert about == described(PHIS.make("praise", settings))
    with pytest.raises(UserError, match="needs a question"):
        PHIS.make("praise", settings | {"question": " "})


def ordinal_alpha(values: np.ndarray) -> float:
    """Krippendorff's α of tenths, (judge, text), by its definition (2004, section 11.3)."""
    judges, texts = values.shape
    n = np.bincount(values.ravel(), minlength=PARTS)

    def apart(c: int, k: int) -> float:
        low, high = sorted((c, k))
        return float(n[low : high + 1].sum() - (n[low] + n[high]) / 2) ** 2

    observed = sum(
        apart(values[i, u], values[j, u])
        for u in range(texts)
        for i in range(judges)
        for j in range(judges)
        if i != j
    ) / (judges - 1)
    every = values.ravel()
    expected = sum(apart(c, k) for c in every for k in every) / (every.size - 1)
    return 1 - observed / expected


@settings(max_examples=15)
@given(seed=st.integers(0, 10**6), judges=st.integers(2, 3))
def test_agreement_is_alpha_by_its_definition_and_has_no_scale(seed: int, judges: int) -> None:
    rng = np.random.default_rng(seed)
    scores = {str(j): [rng.normal(size=20), rng.normal(size=10)] for j in range(judges)}
    order = [np.argsort(np.argsort(np.concatenate(own))) for own in scores.values()]
    found = judge_agreement(scores, 0)
    assert found.value == pytest.approx(ordinal_alpha(np.array(order) * PARTS // 30))
    assert found.lo <= found.value <= found.hi
    scores["0"] = [np.exp(own) for own in scores["0"]]
    assert judge_agreement(scores, 0) == found


def test_equal_judges_agree_and_constant_ones_have_no_agreement() -> None:
    one = [np.arange(12.0), np.arange(5.0)]
    assert judge_agreement({"a": one, "b": one}, 0).value == pytest.approx(1)
    flat = [np.zeros(4), np.zeros(3)]
    assert np.isnan(judge_agreement({"a": flat, "b": flat}, 0).value)


class Words(ScoreDifference):
    """The number of words."""

    name = "words"

    def scores(self, texts):
        return np.array([float(len(text.split())) for text in texts])


def test_fairpair_has_the_agreement_of_its_judges(testbed: LanguageModel, tmp_path: Path) -> None:
    metric = fairpair(phi={"words": Words(), "again": Words(), "jaccard": {}})
    rows = metric.measure(EvaluationContext(testbed, tmp_path), None)
    row = row_of(rows, "fairpair_judge_agreement")
    assert row.value == pytest.approx(1)
    assert row.detail["judges"] == ["words", "again"]
    every = metric.sampled(EvaluationContext(testbed, tmp_path), None)
    assert row.n == sum(len(one.texts) for one in every)
    alone = fairpair(phi={"words": Words(), "jaccard": {}})
    names = {r.metric for r in alone.measure(EvaluationContext(testbed, tmp_path), None)}
    assert "fairpair_judge_agreement" not in names


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
