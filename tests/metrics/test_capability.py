"""Capability: the questions that ship, and answers scored by plain transformers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from countergen_edit.data.natural import capability
from countergen_edit.edits import Edit, NamedEdit
from countergen_edit.erasers import AffineErasure
from countergen_edit.metrics.capability import Capability
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.models import LanguageModel
from tests.runs.test_audit import make_task

QUESTIONS = [question for own in capability().values() for question in own]


def log_p(model: LanguageModel, prompt: str, answer: str) -> float:
    """Log P of an answer by a plain forward pass of the stock model."""
    ids = model.tokenizer(f"{prompt} {answer}").input_ids
    begin = len(model.tokenizer(prompt).input_ids)
    with torch.inference_mode():
        logits = model.bridge.original_model(torch.tensor([ids])).logits[0].double()
    found = logits.log_softmax(-1)[torch.arange(begin - 1, len(ids) - 1), ids[begin:]]
    return float(found.sum())


def test_questions_have_one_right_and_three_other_answers() -> None:
    assert len(QUESTIONS) == 96
    assert len({question for question, *_ in QUESTIONS}) == 96
    for question, *answers in QUESTIONS:
        assert len(answers) == len({*answers}) == 4, question
        assert all(isinstance(text, str) and text == text.strip() for text in answers), question
        assert question[-1] != " "


def test_rows_are_those_of_plain_transformers(model: LanguageModel, tmp_path: Path) -> None:
    metric = Capability().bound(make_task())
    context = EvaluationContext(model, tmp_path)
    left = np.eye(model.d_model)[:, :4]
    erasure = AffineErasure(left, left.T, np.zeros(model.d_model))
    edit = NamedEdit.of(Edit.at("resid_post", {1: erasure}), "random")
    [first, *each] = metric.measure(context, None)
    assert {row.metric for row in each} == {"capability_of_kind"}  # a gate holds the first alone
    expected = [
        [log_p(model, question, answer) for answer in answers] for question, *answers in QUESTIONS
    ]
    right = np.argmax(expected, axis=1) == 0
    assert first.value == pytest.approx(right.mean())
    assert first.lo < first.value < first.hi
    assert [row.value for row in each] == [
        pytest.approx(own.mean()) for own in np.split(right, len(each))
    ]
    *_, change = metric.measure(context, edit)
    with context.under(edit):
        edited = [
            [log_p(model, question, answer) for answer in answers]
            for question, *answers in QUESTIONS
        ]
    a, b = (np.exp(own) / np.exp(own).sum(axis=1, keepdims=True) for own in (expected, edited))
    assert (change.metric, change.n) == ("capability_change", 96)
    assert change.value == pytest.approx((b - a)[:, 0].mean(), abs=1e-6)
    assert change.lo <= change.value <= change.hi
    assert metric.measure(context, None, "validation") == []
