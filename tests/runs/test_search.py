"""A search's rows are those of the naive loop, however often it died."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from countergen_edit.core.errors import UserError
from countergen_edit.data.subsets import few_variations
from countergen_edit.data.task import Task
from countergen_edit.edits import Edit, applied
from countergen_edit.erasers import BaseEraser, make_eraser
from countergen_edit.erasers.orthogonal import MeanDifference
from countergen_edit.metrics.base import METRICS
from countergen_edit.metrics.costs.neutral import neutral_cost
from countergen_edit.metrics.r.formula import r_values
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.scores import score
from countergen_edit.models import Scratch
from countergen_edit.runs.files import EDITS, RESULTS
from countergen_edit.runs.fit_data import capture_sites
from countergen_edit.runs.folder import RunFolder, read_records, recorded_units
from countergen_edit.runs.plan import Plan
from countergen_edit.testbed import load_axis, load_truth
from tests.runs.runs import IDENTITY, run, value

LAYERS = (1, 4)
SAMPLES, NAMES = 2, 4


class Given(RunFolder):
    """A folder that records given rows of some units in place of those that are measured."""

    parts: Mapping[str, Sequence[Row]]

    def record(self, unit: str, rows: Sequence[Row]) -> None:
        super().record(unit, self.parts.get(unit, rows))


def run_given(model, plan, path, parts):
    folder = Given(path, {}, IDENTITY)
    folder.parts = parts
    return run(model, plan, folder)


class FailsAtRankTwo(MeanDifference):
    def __init__(self, rank: int = 1) -> None:
        self.rank = rank

    def fit(self, X: object, y: object) -> BaseEraser:
        if self.rank == 2:
            raise ZeroDivisionError("division by zero")
        return super().fit(X, y)


def few(data):
    """A set's first samples with the first few of their names: as true as all, and quicker."""
    return few_variations(replace(data, samples=data.samples[:SAMPLES]), NAMES, seed=0)


@cache
def make_sets():
    truth, gender = load_truth(), load_axis("gender")
    splits = ("fit", "validation", "test")
    sets = {split: few(truth.counterfactual_set("hobbies", split, gender)) for split in splits}
    agreement = {f"agreement_{s}": few(truth.agreement_set(s, gender)) for s in splits[1:]}
    return sets | agreement


def make_task(name=""):
    truth, gender, sets = load_truth(), load_axis("gender"), make_sets()
    texts = tuple(truth.neutral_texts())
    return Task(
        axis=gender,
        groups=("female", "male"),
        fit=(sets["fit"],),
        validation=(sets["validation"],),
        test=(sets["test"],),
        agreement={s: sets[f"agreement_{s}"] for s in ("validation", "test")},
        neutral={"fit": texts[50:52], "validation": texts[40:42], "test": texts[:4]},
        name=name,
    )


def make_metrics(budget=None):
    costs = ("agreement", "perplexity", "kl")
    settings = {} if budget is None else {"budget": budget}
    return (METRICS.make("r"), *(METRICS.make(name, settings) for name in costs))


def make_plan(**changes):
    settings = {
        "tasks": [make_task()],
        "erasers": {"rlace": make_eraser("rlace", rank=1), "leace": make_eraser("leace")},
        "metrics": make_metrics(),
        "layers": LAYERS,
        "select": "task",
        "combine": 3,
        "tested": "every",
        "halving": None,
    }
    return Plan(**settings | changes)


def labels(path):
    """Label → id of every edit that a run keeps."""
    return {record.label: edit for edit, record in read_records(path).items()}


@pytest.fixture(scope="module")
def path(testbed, tmp_path_factory):
    path = tmp_path_factory.mktemp("search") / "run"
    run(testbed, make_plan(), path)
    return path


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("name", ["rlace", "leace"])
def test_values_equal_those_of_a_naive_run(name, layer, rows, path, testbed):
    plan, task = make_plan(), make_task()
    data = capture_sites(
        testbed, task.fit, (), task.neutral["fit"], sites=["resid_post"], layers=None,
        positions="outputs",
    )["resid_post"]  # fmt: skip
    edit = Edit.at("resid_post", {layer: data.fit(plan.erasers[name], layer).erasure_})
    edit_id = labels(path)[f"{name}-1@resid_post.{layer}"]
    for split, sets in (("test", task.test), ("validation", task.validation)):
        with applied(testbed, edit):
            naive = np.abs(r_values(score(testbed, sets[0]))).mean()
        measured = value(rows, "mean_abs_r", edit=edit_id, split=split)
        assert measured == pytest.approx(naive, abs=1e-5)
    cost = neutral_cost(testbed, edit, task.neutral["test"])
    kl = cost.kl.sum() / cost.tokens.sum()
    assert value(rows, "kl", edit=edit_id, split="test") == pytest.approx(kl, abs=1e-5)


def units(path, first=None):
    """What a run recorded, or the first units of it."""
    return dict(list(recorded_units(path).items())[:first])


@pytest.mark.parametrize("recorded", [1, 6, 8])
def test_a_sweep_continues_wherever_it_ended(recorded, testbed, path, tmp_path):
    """Units that another process recorded stand for those that would be measured anew."""
    kinds = [unit.split("/")[1] for unit in units(path)]
    last = ["choice", "test", "test", "judgement"]
    assert kinds == ["unedited", *["candidate"] * 4, *["combined"] * 2, *last]
    begun = RunFolder(tmp_path / "run", {}, IDENTITY)
    for unit, rows in units(path, recorded).items():
        begun.record(unit, rows)
    shutil.copytree(path / EDITS, begun.path / EDITS)
    measured = ("/unedited", "/candidate/", "/combined/")
    parts = {u: rows for u, rows in units(path).items() if any(kind in u for kind in measured)}
    run_given(testbed, make_plan(), tmp_path / "run", parts)
    assert (tmp_path / "run" / RESULTS).read_bytes() == (path / RESULTS).read_bytes()


def test_an_edit_that_cannot_be_kept_is_no_fault_of_an_eraser(testbed, tmp_path, monkeypatch):
    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("countergen_edit.edits.record.save_edit", full)
    folder = RunFolder(tmp_path / "run", {}, IDENTITY)
    with pytest.raises(UserError, match="No space left on device; the same command continues"):
        run(testbed, make_plan(), folder)
    assert list(recorded_units(folder.path)) == ["gender/unedited"]


def test_the_choice_does_not_see_test_data(testbed, rows, tmp_path):
    def worsened(row):
        return replace(row, value=0.5) if row.split == "test" and row.value else row

    units = {}
    for row in rows:
        if not any(kind in row.unit for kind in ("/choice", "/judgement", "/test/")):
            units.setdefault(row.unit, []).append(worsened(row))
    again = run_given(testbed, make_plan(), tmp_path / "run", units)
    [before], [after] = ([r.edit for r in x if r.detail.get("chosen")] for x in (rows, again))
    assert before == after


def test_a_combination_removes_more_than_what_it_is_built_on(testbed, path, tmp_path):
    plan = make_plan(metrics=make_metrics(budget=10.0))  # anything goes: only bias counts
    cells = units(path, 5)  # budgets change none of them
    shutil.copytree(path / EDITS, RunFolder(tmp_path / "run", {}, IDENTITY).path / EDITS)
    rows = run_given(testbed, plan, tmp_path / "run", cells)
    records = read_records(tmp_path / "run")
    costs = {r.edit: r for r in rows if r.metric == "cost"}
    [chosen] = [edit for edit, row in costs.items() if row.detail["chosen"]]
    singles = [row.detail["removed"] for edit, row in costs.items() if not records[edit].parts]
    assert costs[chosen].detail["removed"] >= max(singles)
    assert any(records[edit].parts for edit in costs)
    assert not any(handles for handles in testbed.bridge.list_hooks().values())


def test_the_edit_that_is_tested_is_chosen_where_a_combination_only_costs_less(
    testbed, rows, path, tmp_path
):
    combined = {row.edit for row in rows if "/combined/" in row.unit}
    records = read_records(path)
    cells = [{(part.eraser, part.places) for part in records[edit].parts} for edit in combined]
    [(eraser, places)] = set.intersection(*cells)
    base = labels(path)[f"{eraser}-1@resid_post.{places[0].layer}"]
    free = {r.key[:-2]: r for r in rows if (r.edit, r.split) == ("none", "validation")}

    def made(row):
        if (row.metric, row.split) == ("bias_removed", "validation"):
            return replace(row, value=1.0 if row.edit in (base, *combined) else 0.9)
        if row.edit in combined and row.split == "validation" and row.key[:-2] in free:
            return replace(row, value=free[row.key[:-2]].value)
        return row

    kinds = ("unedited", "candidate", "combined")
    known = {u: [*map(made, r)] for u, r in units(path).items() if u.split("/")[1] in kinds}
    shutil.copytree(path / EDITS, RunFolder(tmp_path / "run", {}, IDENTITY).path / EDITS)
    plan = make_plan(tested="chosen", metrics=make_metrics(budget=10.0))
    again = run_given(testbed, plan, tmp_path / "run", known)
    costs = {r.edit: r for r in again if r.metric == "cost"}
    assert all(costs[edit].value < costs[base].value for edit in combined)
    assert [edit for edit, row in costs.items() if row.detail["chosen"]] == [base]
    tested = {r.edit for r in again if "/test/" in r.unit and not r.baseline}
    assert tested == {"none", base}


def test_an_eraser_that_fails_costs_its_own_cells_alone(testbed, tmp_path):
    plan = make_plan(erasers={"own": FailsAtRankTwo()}, ranks=(2, 1))
    rows = run(testbed, plan, tmp_path / "run")
    failed = [r for r in rows if r.metric == "error"]
    assert [(r.eraser, r.rank, r.layers) for r in failed] == [("own", 2, (at,)) for at in LAYERS]
    assert failed[0].detail["error"] == "ZeroDivisionError: division by zero"
    edit = labels(tmp_path / "run")["own-1@resid_post.4"]
    assert value(rows, "bias_removed", edit=edit, split="test") > 0


def test_a_search_that_tests_the_chosen_edit_alone_has_seen_no_test_set_before(
    testbed, rows, path, tmp_path
):
    plan = make_plan(tested="chosen", metrics=make_metrics(budget=10.0))
    frugal = run(testbed, plan, tmp_path / "run")
    before = [r for r in frugal if "/test/" not in r.unit and "/judgement" not in r.unit]
    assert {r.split for r in before} == {"validation"}
    [chosen] = [r.edit for r in frugal if r.detail.get("chosen")]
    tested = {r.edit: r.baseline for r in frugal if r.split == "test"}
    assert [edit for edit, baseline in tested.items() if not baseline] == ["none", chosen]
    assert sum(tested.values()) == 1
    assert any(r.metric == "linear_probe_accuracy" for r in frugal)
    # What both searches measured on validation data is the same, to the last bit.
    whole = {r.key: r.value for r in rows if r.split == "validation" and r.metric != "cost"}
    for row in frugal:
        assert row.value == whole.get(row.key, row.value)


def test_two_tasks_are_searched_as_each_alone(testbed, rows, path, tmp_path):
    plan = make_plan(tasks=[make_task(), make_task("other")], layers=(4,), combine=1)
    both = run(testbed, plan, tmp_path / "run")
    label = "leace-1@resid_post.4"
    alone = value(rows, "bias_removed", edit=labels(path)[label], split="test")
    for task in ("gender", "other"):
        removed = value(both, "bias_removed", task=task, eraser="leace", split="test")
        assert removed == pytest.approx(alone)
        assert len([r for r in both if r.unit == f"{task}/choice" and r.detail["chosen"]]) == 1


def test_a_mistake_is_named(testbed, tmp_path):
    for message, changes in (
        ("no site", {"sites": ()}),
        ("a rank is at least 1", {"ranks": (0,)}),
        ("two tasks of the run are called 'gender'", {"tasks": [make_task(), make_task()]}),
        ("no room for", {"scratch": Scratch(budget=0, directory=Path("/proc/nowhere"))}),
    ):
        with pytest.raises(UserError, match=message):
            run(testbed, make_plan(**changes), tmp_path / "run")
