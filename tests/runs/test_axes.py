"""Two axes in one edit: the second is fitted on what the first leaves, and each is measured."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from countergen_edit.core.errors import UserError
from countergen_edit.data.task import Task
from countergen_edit.edits import Edit, NamedEdit
from countergen_edit.erasers import make_eraser
from countergen_edit.metrics.base import METRICS
from countergen_edit.metrics.rows import UNEDITED, Row
from countergen_edit.models import LanguageModel
from countergen_edit.runs.files import RESULTS
from countergen_edit.runs.plan import Plan
from countergen_edit.runs.run import Run, open_run
from countergen_edit.testbed import load_axis, load_truth
from tests.runs.runs import captured, resumed, run
from tests.runs.test_audit import make_task, thin

pytestmark = pytest.mark.slow  # every test is of whole runs

LAYER = 4
LEACE = make_eraser("leace")
AXES = ("gender", "nationality")


def tasks(names: int = 8) -> list[Task]:
    truth, axis = load_truth(), load_axis("nationality")
    groups = ("egypt_male", "usa_male")
    fit, validation, test = (
        truth.counterfactual_set("reasons", split, axis, groups)
        for split in ("fit", "validation", "test")
    )
    gender = make_task(("hobbies",))
    nationality = Task(axis, groups, (fit,), (validation,), (test,), neutral=gender.neutral)
    gender = replace(gender, keep=(truth.agreement_set("fit", gender.axis),))
    return [thin(task, names) for task in (gender, nationality)]


def axes(names: int = 8, **changes: Any) -> Plan:
    settings: dict[str, Any] = {
        "tasks": tasks(names),
        "erasers": {"leace": LEACE},
        "metrics": tuple(METRICS.make(name) for name in ("r", "agreement", "kl")),
        "layers": (LAYER,),
        "together": True,
        "joint": True,
    }
    return Plan(**settings | changes)


def rows_at(model: LanguageModel, task: Task, before: Edit) -> tuple[np.ndarray, np.ndarray]:
    """Activations and groups of what is to be erased."""
    data = captured(model, task, LAYER, before)
    return data.at(LAYER)[~data.keep], data.group[~data.keep]


@pytest.fixture(scope="module")
def finished(testbed, tmp_path_factory):
    path = tmp_path_factory.mktemp("axes") / "run"
    run(testbed, axes(), path)
    return open_run(path, testbed)


def whole(run: Run) -> NamedEdit:
    return run.best.named


def test_the_second_erasure_is_leace_fitted_by_hand_on_what_the_first_leaves(testbed, finished):
    first, second = whole(finished).edit.placements
    assert (first.site, first.layer) == (second.site, second.layer) == ("resid_post", LAYER)
    chain = zip(axes().tasks, (Edit(()), Edit((first,))), (first, second), strict=True)
    for task, before, place in chain:
        by_hand = make_eraser("leace").fit(*rows_at(testbed, task, before)).erasure_
        for part in ("left", "right", "mean"):
            own, theirs = getattr(place.erasure, part), getattr(by_hand, part)
            np.testing.assert_allclose(own, theirs, rtol=1e-6, atol=1e-9)


def test_under_the_edit_of_both_neither_axis_has_a_difference_of_means(testbed, finished):
    """Present before, zero after, of the first axis too: the second map has not brought it back."""
    for task in axes().tasks:
        gaps = []
        for edit in (Edit(()), whole(finished).edit):
            values, of_group = rows_at(testbed, task, edit)
            a, b = (values[of_group == group].astype(float).mean(0) for group in task.groups)
            gaps.append(float(np.linalg.norm(a - b)))
        assert gaps[0] > 0.1
        assert gaps[1] < 1e-4 * gaps[0]  # float32 rounds the means of some hundred rows


def test_every_axis_is_measured_as_it_came_and_under_the_edit_of_both(finished):
    parts = finished.by_task()
    assert [*parts] == [*AXES]
    record = whole(finished).record
    assert [part.task for part in record.parts] == [*AXES]
    assert record.label == (
        f"leace-1@resid_post.{LAYER} (gender) + leace-1@resid_post.{LAYER} (nationality)"
    )
    for task, part in parts.items():
        bias = {r.edit: r for r in part.results.of("group_effect")}
        assert bias[UNEDITED].value > bias[record.id].value  # type: ignore[operator]
        assert part.results.baseline_of(record) is not None, task
    alone = parts["gender"].results.edits[0]
    assert alone.parts == ()
    with pytest.raises(UserError, match=r"of one eraser, not 2 \(leace, sal\)"):
        axes(erasers={"leace": LEACE, "sal": make_eraser("sal")})
    control = parts["nationality"].results.baseline_of(record)
    first, second = finished.edits[control.id].edit.placements  # at one place, drawn apart
    assert np.linalg.norm(first.erasure.right @ second.erasure.right.T) < 0.5
    assert "agreement" in {r.metric for r in parts["gender"].results.rows if r.edit == record.id}


def test_an_update_of_both_axes_is_trained_on_what_the_first_leaves(testbed, tmp_path):
    """Its matrices have the rank of both, and it takes a fifth of either bias or more."""
    settings = {"rank": 4, "steps": 60, "learning_rate": 5e-3, "first_layer": 0.0, "contexts": 24}
    erasers = {"distilled": make_eraser("distilled", **settings)}
    gender, nationality = tasks()
    occupations = load_truth().counterfactual_set("occupations", "fit", gender.axis)
    both = [replace(gender, fit=(occupations,)), nationality]
    run(testbed, axes(tasks=both, erasers=erasers, layers=None, together=False), tmp_path / "run")
    opened = open_run(tmp_path / "run", testbed)
    edit = whole(opened).edit
    assert edit.placements == ()
    assert edit.update is not None
    assert edit.update.rank == 8
    for task, part in opened.by_task().items():
        bias = {row.edit: row.value for row in part.results.of("group_effect")}
        assert bias[whole(opened).id] < 0.8 * bias[UNEDITED], task


def test_each_axis_keeps_the_grammar_of_the_other():
    gender, nationality = axes(names=1000).tasks
    assert gender.keep == tasks(names=1000)[0].keep  # nationality keeps nothing of its own
    [own], [other] = gender.keep, nationality.keep
    assert (other.name, other.axis, other.groups) == (own.name, own.axis, own.groups)
    assert 0.8 * len(own.samples) <= len(other.samples)
    measured = {
        name for data in (*nationality.validation, *nationality.test) for name in data.names
    }
    assert measured & {*own.names}  # or nothing would have to be left out
    assert not measured & {*other.names}


def test_a_killed_run_ends_with_the_rows_of_one_that_was_not(testbed, finished, tmp_path):
    units = len((finished.path / "progress.jsonl").read_text().splitlines())
    again = resumed(testbed, axes(), tmp_path / "run", 1, units // 2)
    assert again == (finished.path / RESULTS).read_bytes()


def test_an_edit_before_is_part_of_the_whole_and_what_it_was_for_is_measured(
    testbed, finished, tmp_path
):
    """The second axis added to a model that has the first: the same edit, the same figures."""
    gender, nationality = axes().tasks
    before = finished.edits[whole(finished).record.parts[0].id]
    run(testbed, axes(tasks=[nationality], before=before, earlier=[gender]), tmp_path / "run")
    added = open_run(tmp_path / "run", testbed)
    assert whole(added).id == whole(finished).id
    assert whole(added).edit.digest == whole(finished).edit.digest

    def tested(of: Run) -> dict[tuple[object, ...], float | None]:
        ids = (UNEDITED, whole(of).id)
        rows: list[Row] = [r for r in of.results.rows if r.split == "test" and r.edit in ids]
        return {row.key: row.value for row in rows}

    assert tested(added) == tested(finished)
