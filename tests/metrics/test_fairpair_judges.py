"""Judges of texts: a rubric's score is the odds of Yes, and agreement is Krippendorff's α."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from countergen_edit.core.describing import described
from countergen_edit.core.errors import UserError
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.fairpair.judges import PARTS, judge_agreement
from countergen_edit.metrics.fairpair.phi import PHIS, ScoreDifference
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import UNEDITED, Row
from countergen_edit.models import LanguageModel, continuation_log_probs
from countergen_edit.reports.views.fairpair import FairPairView
from countergen_edit.testbed import directory
from tests.metrics.fairpair_settings import FairPair, fairpair, row_of

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


@pytest.mark.parametrize(
    ("lo", "hi", "said"),
    [(0.7, 0.9, "agree"), (-0.1, 0.6, "do not agree"), (0.5, 0.8, "cannot be shown to agree")],
)
def test_the_sentence_follows_the_interval(lo: float, hi: float, said: str) -> None:
    row = Row("fairpair_judge_agreement", 0.55, lo=lo, hi=hi, edit=UNEDITED, n=9)
    row = replace(row, split="test", detail={"judges": ["sentiment", "praise"]})
    [sentence] = FairPairView(FairPair, "fairpair").sentences(Results([row]))
    assert sentence.startswith(f"The judges sentiment and praise {said} on the texts")
    ends = f"[{lo:.2f}, {hi:.2f}]".replace("-", "−")
    assert f"0.55 {ends}; 0.667 or more" in sentence
