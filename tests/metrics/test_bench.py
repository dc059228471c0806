"""What was scored is kept by what it is, never by what it is called."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from countergen_edit.data.counterfactual import CounterfactualSet, Sample, Variation
from countergen_edit.edits import Edit, EditRecord, NamedEdit, Place
from countergen_edit.erasers import AffineErasure
from countergen_edit.metrics.bench import Bench
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
    bench = Bench(model, tmp_path)
    for output in (" nurse", " engineer"):
        data = set_of(output)
        np.testing.assert_array_equal(bench.scores(data, None).log_p, score(model, data).log_p)
    first, second = (bench.scores(set_of(o), None).log_p for o in (" nurse", " engineer"))
    assert not np.array_equal(first, second)


def test_edits_of_one_label_and_id_do_not_share_scores(
    model: LanguageModel, tmp_path: Path
) -> None:
    bench, data, texts = Bench(model, tmp_path), set_of(" nurse"), ("John is an engineer.",)
    one, other = edit_of(0), edit_of(1)
    assert (one.label, one.id) == (other.label, other.id)
    for edit in (one, other):
        with bench.under(edit) as edited:
            expected = score(edited, data).log_p
        np.testing.assert_array_equal(bench.scores(data, edit).log_p, expected)
    assert not np.array_equal(bench.scores(data, one).log_p, bench.scores(data, other).log_p)
    assert bench.neutral(texts, one).kl != bench.neutral(texts, other).kl


def test_what_was_scored_is_not_scored_again(model: LanguageModel, tmp_path: Path) -> None:
    bench = Bench(model, tmp_path)
    assert bench.scores(set_of(" nurse"), None) is bench.scores(set_of(" nurse"), None)
    texts = ("John is an engineer.", "Jane is a nurse")
    assert bench.neutral(texts, edit_of(0)) is bench.neutral([*texts], edit_of(0))


def test_the_model_is_unedited_between_measurements(model: LanguageModel, tmp_path: Path) -> None:
    bench, data = Bench(model, tmp_path), set_of(" nurse")
    before = score(model, data).log_p
    assert not np.array_equal(bench.scores(data, edit_of(0)).log_p, before)
    np.testing.assert_array_equal(score(model, data).log_p, before)


def test_stores_are_found_by_metric_and_edit(model: LanguageModel, tmp_path: Path) -> None:
    bench, edit = Bench(model, tmp_path), edit_of(0)
    assert bench.place("r", None) == tmp_path / "r" / "none.jsonl"
    assert bench.place("r", edit) == tmp_path / "r" / f"{edit.id}.jsonl"
