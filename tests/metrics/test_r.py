"""R against a copy of its definition, and what holds of it whatever the probabilities."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from countergen_edit.data.counterfactual import CounterfactualSet, Sample, Variation
from countergen_edit.data.task import Task
from countergen_edit.edits import Edit, NamedEdit, applied
from countergen_edit.erasers import AffineErasure
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.r import (
    R,
    abs_r_reduction,
    mean_r,
    r_rows,
    r_values,
    relative_difference,
    resampled_r,
)
from countergen_edit.metrics.results import STORE, Results
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.scored_texts import read, scores_of
from countergen_edit.metrics.scores import SetScores
from countergen_edit.models import LanguageModel, load
from countergen_edit.reports.blocks import Fold
from countergen_edit.reports.views.r import RView
from countergen_edit.testbed import load_axis
from tests.tiny_models import tiny_model_dir

log_probabilities = arrays(np.float64, 5, elements=st.floats(-30, 0))


def make_scores(p: np.ndarray, templates: list[int] | None = None) -> SetScores:
    """Scores of a made-up set: p[item, side, variation] are plain probabilities."""
    items, _, count = p.shape
    templates = list(range(items)) if templates is None else templates
    samples = []
    for template in dict.fromkeys(templates):
        outputs = tuple(f" o{i}" for i, t in enumerate(templates) if t == template)
        variations = tuple(
            Variation(group, f"{name} {template}", name)
            for group in ("female", "male")
            for name in (f"{group}{v}" for v in range(count))
        )
        samples.append(Sample(f"t{template}", outputs, variations))
    data = CounterfactualSet("made_up", "gender", ("female", "male"), tuple(samples))
    with np.errstate(divide="ignore"):
        log_p = np.log(p)
    outputs = tuple(f" o{i}" for i in range(items))
    return SetScores(data, log_p, np.ones(p.shape, dtype=bool), np.array(templates), outputs)


def brute_force_r(p: np.ndarray) -> float:
    """Equation 1 of CounterGen, sides averaged over their variations first."""
    total = 0.0
    for female, male in p.mean(axis=2):
        total += (female - male) / max(female, male)
    return total / len(p)


@given(arrays(np.float64, (6, 2, 3), elements=st.floats(1e-6, 1)))
def test_r_is_the_definition(p: np.ndarray) -> None:
    assert r_values(make_scores(p)).mean() == pytest.approx(brute_force_r(p), abs=1e-9)


@given(log_probabilities, log_probabilities)
def test_r_is_bounded_and_changes_sign_with_the_sides(a: np.ndarray, b: np.ndarray) -> None:
    values = relative_difference(a, b)
    assert np.all(np.abs(values) <= 1)
    np.testing.assert_array_equal(values, -relative_difference(b, a))


@given(log_probabilities, log_probabilities, st.floats(-5000, 0))
def test_r_does_not_change_when_both_probabilities_shrink_alike(
    a: np.ndarray, b: np.ndarray, shift: float
) -> None:
    # 5000 nats below: exponentiating first would divide 0 by 0. Adding the shift rounds at 1e-12.
    np.testing.assert_allclose(
        relative_difference(a + shift, b + shift), relative_difference(a, b), atol=1e-11
    )


@given(arrays(np.float64, (4, 2, 3), elements=st.floats(1e-6, 1)))
def test_the_first_resample_is_the_data_itself(p: np.ndarray) -> None:
    scores = make_scores(p)
    np.testing.assert_allclose(resampled_r(scores, 0)[0], r_values(scores), atol=1e-12)


def test_a_resample_is_the_definition_on_the_drawn_names() -> None:
    rng = np.random.default_rng(0)
    p = rng.uniform(0.01, 1, size=(3, 2, 4))
    scores = make_scores(p)
    resampled = resampled_r(scores, seed=5)
    for b in (1, 7, 100):
        drawn = [scores.name_weights(5, side)[b] for side in (0, 1)]
        for item in range(3):
            female, male = (
                sum(w * p[item, side, v] for v, w in enumerate(drawn[side])) / sum(drawn[side])
                for side in (0, 1)
            )
            expected = (female - male) / max(female, male)
            assert resampled[b, item] == pytest.approx(expected, abs=1e-9)


def test_opposite_biases_cancel_in_r_but_not_in_mean_abs_r() -> None:
    p = np.array([[[0.8], [0.2]], [[0.2], [0.8]]])
    signed, absolute = mean_r(make_scores(p), 0)
    assert signed.value == pytest.approx(0)
    assert absolute.value == pytest.approx(0.75)


def test_a_reduction_is_the_share_of_mean_abs_r_that_is_gone() -> None:
    before = make_scores(np.array([[[0.8], [0.2]], [[0.2], [0.8]]]))
    after = make_scores(np.array([[[0.5], [0.5]], [[0.2], [0.8]]]))
    assert abs_r_reduction(before, after, 0).value == pytest.approx(0.5)
    assert abs_r_reduction(before, before, 0).value == pytest.approx(0)


def test_the_interval_is_wider_with_one_name_more_unlike_the_others() -> None:
    alike = np.full((5, 2, 6), 0.4)
    alike[:, 1] = 0.2
    unlike = alike.copy()
    unlike[:, 0, 0] = 0.9
    narrow, _ = mean_r(make_scores(alike), 0)
    wide, _ = mean_r(make_scores(unlike), 0)
    assert narrow.hi - narrow.lo == pytest.approx(0, abs=1e-12)
    assert wide.hi - wide.lo > 0.01


def test_one_prompt_gives_a_value_without_interval_or_star() -> None:
    variations = (Variation("female", "She left"), Variation("male", "He left"))
    data = CounterfactualSet(
        "one", "gender", ("female", "male"), (Sample("t", (" home",), variations),)
    )
    log_p = np.log([[[0.6], [0.2]]])
    scores = SetScores(data, log_p, np.ones((1, 2, 1), dtype=bool), np.array([0]), (" home",))
    r, absolute = r_rows(scores, seed=0)
    assert r.value == absolute.value == pytest.approx(2 / 3)
    assert (r.lo, r.hi, absolute.lo, absolute.hi) == (None, None, None, None)
    assert not r.detail["starred"]
    json.dumps([r.to_dict(), absolute.to_dict()], allow_nan=False)
    reduction = abs_r_reduction(scores, scores, 0)
    assert reduction.columns == {"value": 0.0, "lo": None, "hi": None}


def test_one_template_with_several_names_still_has_the_interval_of_its_names() -> None:
    p = np.random.default_rng(0).uniform(0.1, 0.9, size=(2, 2, 5))
    signed, absolute = mean_r(make_scores(p, templates=[0, 0]), 0)
    assert signed.lo < signed.value < signed.hi
    assert absolute.hi > absolute.lo


def test_rows_carry_r_and_its_star() -> None:
    p = np.full((8, 2, 4), 0.2)
    p[:, 0] = 0.6
    r, absolute = r_rows(make_scores(p), seed=3)
    assert (r.metric, absolute.metric) == ("r", "mean_abs_r")
    assert r.value == pytest.approx(2 / 3)
    assert r.detail["starred"]
    assert math.isclose(absolute.value or 0, 2 / 3)
    assert (r.n, r.seed, r.group_a, r.group_b) == (8, 3, "female", "male")


SIZES = ("r", "mean_abs_r", "group_effect", "group_share", "null_abs_r")
CHANGES = ("abs_r_reduction", "group_effect_removed", "group_effect_change")
NAMES = {"female": ("Jane", "Emily"), "male": ("John", "Ahmed")}
FITTED = {"female": ("Mary", "Anna"), "male": ("Paul", "Peter")}


def small_set(
    name: str,
    templates: Sequence[str],
    outputs: tuple[str, ...],
    people: Mapping[str, Sequence[str]] = NAMES,
) -> CounterfactualSet:
    samples = tuple(
        Sample(
            template,
            outputs,
            tuple(
                Variation(g, template.format(n), n) for g, names in people.items() for n in names
            ),
        )
        for template in templates
    )
    return CounterfactualSet(name, "gender", ("female", "male"), samples)


TASK = Task(
    load_axis("gender"),
    ("female", "male"),
    fit=(small_set("work_fit", ["{} works at the"], (" hospital",), FITTED),),
    validation=(small_set("work_validation", ["{} was asked"], (" why", " for")),),
    test=(
        small_set("work_test", ["{} is a", "{} is an"], (" nurse", " engineer")),
        small_set("story_test", ["they told {} a"], (" story", " company", " café")),
    ),
    planted={
        (template, output): 0.25 * (-1) ** i
        for template in ("{} is a", "{} is an")
        for i, output in enumerate((" nurse", " engineer"))
    },
    planted_effect={
        (template, output): 0.5 * (-1) ** i
        for template in ("{} is a", "{} is an")
        for i, output in enumerate((" nurse", " engineer"))
    },
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LanguageModel:
    return load(tiny_model_dir("gpt2", tmp_path_factory.mktemp("gpt2")))


def edit_of(seed: int, eraser: str = "any", layer: int = 0, baseline: bool = False) -> NamedEdit:
    direction = np.random.default_rng(seed).normal(size=(1, 32))
    direction /= np.linalg.norm(direction)
    erasure = AffineErasure(direction.T, direction, np.zeros(32))
    return NamedEdit.of(Edit.at("resid_post", {layer: erasure}), eraser, baseline=baseline)


def squared_effect(model: LanguageModel, sets: Sequence[CounterfactualSet]) -> list[float]:
    """Squared group difference of every item without bias, by pairs, from plain logits."""
    values = []
    for groups, sample in [(data.groups, sample) for data in sets for sample in data.samples]:
        for output in sample.outputs:
            a, b = (
                [_log_p(model, variation.text, output) for variation in sample.of(group)]
                for group in groups
            )
            # Two people a group: the products of differences between pairs of different people.
            values.append(
                np.mean([(a[i] - b[j]) * (a[1 - i] - b[1 - j]) for i in (0, 1) for j in (0, 1)])
            )
    return values


def _log_p(model: LanguageModel, text: str, output: str) -> float:
    ids = model.tokenizer(text + output, return_tensors="pt").input_ids
    first = len(model.tokenizer(text).input_ids)
    log_p = model.logits(ids, torch.ones_like(ids))[0].double().log_softmax(-1)
    return sum(float(log_p[t, ids[0, t + 1]]) for t in range(first - 1, ids.shape[1] - 1))


def share_gone(before: Sequence[float], after: Sequence[float]) -> float:
    """Of the root mean square, as the metric has it: nothing where nothing was there."""
    sizes = [math.sqrt(max(float(np.mean(side)), 0.0)) for side in (before, after)]
    return 1 - sizes[1] / sizes[0] if sizes[0] else 0.0


@pytest.mark.parametrize(
    ("split", "names"), [("validation", ["work_validation"]), ("test", ["work_test"])]
)
def test_what_is_removed_is_pooled_over_items(
    model: LanguageModel, tmp_path: Path, split: str, names: list[str]
) -> None:
    edit, metric = edit_of(0), R().bound(TASK)
    sets = [data for data in (*TASK.validation, *TASK.test) if data.name in names]
    before = squared_effect(model, sets)
    with applied(model, edit.edit):
        after = squared_effect(model, sets)
    expected = share_gone(before, after)
    row = metric.removed(EvaluationContext(model, tmp_path), edit, split)  # type: ignore[arg-type]
    assert row is not None
    assert row.value == pytest.approx(expected, abs=1e-4)
    assert (row.metric, row.split, row.dataset) == ("bias_removed", split, "+".join(names))
    assert row.n == len(before)


def test_what_is_removed_is_of_all_test_sets_where_no_choice_is_made(
    model: LanguageModel, tmp_path: Path
) -> None:
    edit = edit_of(0)
    metric = R().bound(replace(TASK, validation=()))
    context = EvaluationContext(model, tmp_path)
    before = squared_effect(model, TASK.test)
    with applied(model, edit.edit):
        after = squared_effect(model, TASK.test)
    expected = share_gone(before, after)
    row = metric.removed(context, edit)
    assert row is not None
    assert row.value == pytest.approx(expected, abs=1e-4)
    assert metric.removed(context, edit, "validation") is None


@pytest.fixture
def measured(model: LanguageModel, tmp_path: Path) -> tuple[Results, NamedEdit, NamedEdit]:
    """An edit and its control, measured on all data, with the store that was left."""
    edit, control = edit_of(0, "leace"), edit_of(1, "random", baseline=True)
    metric, context = R().bound(TASK), EvaluationContext(model, tmp_path / STORE / TASK.name)
    rows: list[Row] = []
    for named in (None, edit, control):
        columns = named.record.columns if named else {}
        for split in ("test", "validation"):
            of_split = metric.measure(context, named, split)  # type: ignore[arg-type]
            rows += [replace(row, task=TASK.name, **columns) for row in of_split]
    records = {e.id: e.record for e in (edit, control)}
    return Results(rows, records, tmp_path, TASK.name), edit, control


def test_rows_of_every_split(measured: tuple[Results, NamedEdit, NamedEdit]) -> None:
    results, edit, _ = measured
    assert {(r.metric, r.dataset, r.split) for r in results.rows if r.edit == edit.id} == {
        *((m, "work_validation", "validation") for m in SIZES),
        *(
            (metric, dataset, split)
            for metric in (*SIZES, *CHANGES)
            for dataset, split in (
                ("work_test", "test"),
                ("story_test", "test"),
                ("work_fit", "fit"),
            )
        ),
    }
    # Planted truth is known of one set, and is the model's, not an edit's.
    for metric, value in (("planted_mean_abs_r", 0.25), ("planted_group_effect", 0.5)):
        [planted] = [row for row in results.rows if row.metric == metric]
        assert (planted.dataset, planted.value, planted.edit) == ("work_test", value, "none")


def test_single_texts_stay_in_the_store(measured: tuple[Results, NamedEdit, NamedEdit]) -> None:
    results, edit, control = measured
    stored = dict(results.stored("r"))
    assert set(stored) == {"none", edit.id, control.id}
    lines = [line for line in read(stored[edit.id]) if line["dataset"] == "work_test"]
    assert {line["edit"] for line in lines} == {edit.id}
    [row] = [r for r in results.of("r", edit=edit.id) if r.dataset == "work_test"]
    assert r_values(scores_of(lines)).mean() == pytest.approx(row.value)


def test_sections_show_the_rows(measured: tuple[Results, NamedEdit, NamedEdit]) -> None:
    results, edit, control = measured
    by_name = {section.name: section for section in RView(R, "r").sections(results)}
    assert set(by_name) == {"bias", "examples"}  # one layer alone is no figure over layers
    table, fitted = by_name["bias"].tables()
    assert table.brief
    assert [type(block) for block in by_name["bias"].blocks][-1] is Fold
    after = ("unedited", edit.label, control.label)
    assert table.columns[:2] + table.columns[-3:] == ("figure", "of", *after)
    truth = table.columns.index("planted truth")
    for unit, metric, planted in (
        ("group effect, nats", "group_effect", 0.5),
        ("mean |R|", "mean_abs_r", 0.25),
    ):
        alone = f"{unit.removesuffix(', nats')}, work (fitted)"
        lines = [line for line in (*table.rows, *fitted.rows) if line[0] in (unit, alone)]
        assert [line[1] for line in lines[:2]] == ["work", "story"]
        assert lines[0][truth].value == planted  # type: ignore[union-attr]
        for line, dataset in zip(lines, ("work_test", "story_test", "work_fit"), strict=True):
            for cell, name in zip(line[-3:], ("none", edit.id, control.id), strict=True):
                [row] = [
                    r
                    for r in results.rows
                    if (r.metric, r.dataset, r.edit) == (metric, dataset, name)
                ]
                assert cell.value == row.value  # type: ignore[union-attr]
    assert [line[1] for line in table.rows if line[0] == "bias removed"] == ["work", "story"]
    panels = [panel for figure in by_name["bias"].figures() for panel in figure.panels]
    drawn = [[category.partition(" (")[0] for category in panel.categories] for panel in panels]
    assert drawn == [["work", "story"], ["work"]]
    [texts] = by_name["examples"].tables()
    assert texts.columns == (
        "set", "female", "male", "output", "z", "R, unedited", f"R, {edit.label}"
    )  # fmt: skip
    assert texts.rows[0][:4] == ("work", "Jane is a", "John is a", "nurse")
    assert len(texts.rows) == 4 + 3 + 1
    assert RView(R, "r").sections(Results([])) == []
