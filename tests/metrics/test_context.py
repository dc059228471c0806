"""What was scored is kept by what it is, never by what it is called."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from countergen_edit.data.counterfactual import CounterfactualSet, Sample, Variation
from countergen_edit.edits import Edit, EditRecord, NamedEdit, Place
from countergen_edit.erasers import AffineErasure
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.scores import score
from countergen_edit.models import LanguageModel, load
from tests.tiny_models import tiny_model_dir


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LanguageModel:
    return load(tiny_model_dir("gpt2", tmp_path_factory.mktemp("gpt2")))


def set_of(output: str, name: str = "same") -> CounterfactualSet:
    variations = (Variation("female", "Jane is a", "Jane"), Variation("male", "John is a", "John"))
    return CounterfactualSet(
        name, "gender", ("female", "male"), (Sample("{} is a", (output,), variations),)
    )


def edit_of(seed: int) -> NamedEdit:
    direction = np.random.default_rng(seed).normal(size=(1, 32))
    direction /= np.linalg.norm(direction)
    erasure = AffineErasure(direction.T, direction, np.zeros(32))
    record = EditRecord("same-1", "same", {}, (Place("resid_post", 0, 1),))
    return NamedEdit(record, Edit.at("resid_post", {0: erasure}))


def test_sets_of_one_name_do_not_share_scores(model: LanguageModel, tmp_path: Path) -> None:
    context = EvaluationContext(model, tmp_path)
    for output in (" nurse", " engineer"):
        data = set_of(output)
        np.testing.assert_array_equal(context.scores(data, None).log_p, score(model, data).log_p)
    first, second = (context.scores(set_of(o), None).log_p for o in (" nurse", " engineer"))
    assert not np.array_equal(first, second)


def test_edits_of_one_label_and_id_do_not_share_scores(
    model: LanguageModel, tmp_path: Path
) -> None:
    context, data, texts = (
        EvaluationContext(model, tmp_path),
        set_of(" nurse"),
        ("John is an engineer.",),
    )
    one, other = edit_of(0), edit_of(1)
    assert (one.label, one.id) == (other.label, other.id)
    for edit in (one, other):
        with context.under(edit) as edited:
            expected = score(edited, data).log_p
        np.testing.assert_array_equal(context.scores(data, edit).log_p, expected)
    assert not np.array_equal(context.scores(data, one).log_p, context.scores(data, other).log_p)
    assert context.neutral(texts, one).kl != context.neutral(texts, other).kl


def test_what_was_scored_is_not_scored_again(model: LanguageModel, tmp_path: Path) -> None:
    context = EvaluationContext(model, tmp_path)
    assert context.scores(set_of(" nurse"), None) is context.scores(set_of(" nurse"), None)
    texts = ("John is an engineer.", "Jane is a nurse")
    assert context.neutral(texts, edit_of(0)) is context.neutral([*texts], edit_of(0))
