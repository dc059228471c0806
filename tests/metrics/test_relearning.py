"""Relearning: what fine-tuning does, that weights come back, and rows by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from countergen_edit.core.errors import UserError
from countergen_edit.edits import Edit, NamedEdit, applied
from countergen_edit.erasers import AffineErasure
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.r.group_effect import GroupEffect
from countergen_edit.metrics.relearning import Relearning, fine_tuned
from countergen_edit.metrics.scores import score
from countergen_edit.models import LanguageModel, resuming, text_log_probs
from tests.runs.test_audit import make_task, thin


def weights_of(model: LanguageModel) -> list[torch.Tensor]:
    return [weight.detach().clone() for weight in model.bridge.original_model.parameters()]


def nll(model: LanguageModel, texts: list[str]) -> float:
    found = text_log_probs(model, [""] * len(texts), texts)
    return float(-found.log_p.sum() / found.tokens.sum())


def edit_of(model: LanguageModel) -> NamedEdit:
    rng = np.random.default_rng(0)
    left, _ = np.linalg.qr(rng.normal(size=(model.d_model, 2)))
    erasure = AffineErasure(left, left.T, np.zeros(model.d_model))
    return NamedEdit.of(Edit.at("resid_post", {3: erasure}), "random")


def test_text_becomes_likelier_and_weights_come_back(testbed: LanguageModel) -> None:
    texts = [*thin(make_task(), 4).weighed]
    before, loss = weights_of(testbed), nll(testbed, texts)
    with fine_tuned(testbed, texts, 20, 1e-3, seed=0):
        assert nll(testbed, texts) < loss - 0.05
    assert all(torch.equal(a, b) for a, b in zip(before, weights_of(testbed), strict=True))
    assert not any(w.requires_grad for w in testbed.bridge.original_model.parameters())
    assert nll(testbed, texts) == loss


def test_weights_come_back_after_an_error(testbed: LanguageModel) -> None:
    before = weights_of(testbed)
    with pytest.raises(KeyboardInterrupt), fine_tuned(testbed, ["The well is deep."], 2, 1e-2, 0):
        raise KeyboardInterrupt
    assert all(torch.equal(a, b) for a, b in zip(before, weights_of(testbed), strict=True))


def test_rows_are_group_effects_of_the_trained_model(
    testbed: LanguageModel, tmp_path: Path
) -> None:
    task = thin(make_task(), 4)
    metric = Relearning(steps=3, learning_rate=1e-3).bound(task)
    quick = resuming(testbed, range(testbed.n_layers))
    score(quick, task.test[0])  # its kept outputs are of other weights
    edit = edit_of(testbed)
    [row] = metric.measure(EvaluationContext(quick, tmp_path), edit)
    with (
        applied(testbed, edit.edit) as model,
        fine_tuned(model, task.weighed, 3, 1e-3, seed=0),
    ):
        expected = GroupEffect(score(model, task.test[0]).pairs[0]).estimate
    assert row.metric == "relearned_effect"
    assert row.value == pytest.approx(expected.value)
    assert row.lo == pytest.approx(expected.lo)


def test_a_task_without_neutral_text_is_refused() -> None:
    with pytest.raises(UserError, match=r"metric=relearning needs neutral text"):
        Relearning().bound(replace(make_task(), neutral={}))
