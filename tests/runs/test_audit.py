"""The audit on the testbed finds what was planted, removes it, and can be killed and resumed."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from jaxtyping import Float, Int

from countergen_edit.core.conf_path import read_config
from countergen_edit.core.errors import UserError
from countergen_edit.data.subsets import few_variations
from countergen_edit.data.task import Task
from countergen_edit.data.templates import Template, expand
from countergen_edit.erasers import BaseEraser, MeanDifference, make_eraser
from countergen_edit.metrics.base import METRICS
from countergen_edit.models import load_model
from countergen_edit.runs.files import MANIFEST, RESULTS
from countergen_edit.runs.folder import RunFolder, read_records
from countergen_edit.runs.plan import Plan
from countergen_edit.runs.run import open_run
from countergen_edit.testbed import directory, load_axis, load_truth
from tests.edits.test_sinks import sunk
from tests.models.test_memory import memory_for
from tests.runs.runs import IDENTITY, Dying, KilledError, contents, run, value


def make_task(families=("occupations",)):
    """The task of the default audit, small."""
    truth, gender = load_truth(), load_axis("gender")
    appendix = read_config("dataset", "appendix_a")
    templates = [Template(text, (" Yes", " No")) for text in appendix["templates"]]
    fit = expand("appendix_a", templates, gender, "fit")
    groups, texts = ("female", "male"), tuple(truth.neutral_texts())
    return Task(
        axis=gender,
        groups=groups,
        fit=(fit,),
        validation=(truth.counterfactual_set("occupations", "validation", gender),),
        test=tuple(truth.counterfactual_set(f, "test", gender) for f in families),
        agreement={s: truth.agreement_set(s, gender) for s in ("validation", "test")},
        neutral={"fit": texts[40:50], "validation": texts[50:60], "test": texts[:40]},
        planted=truth.planted(groups)[0],
    )


def thin(task, names):
    """The task with so few people in each of its sets, for what holds of however many."""

    def few(sets):
        return tuple(few_variations(data, names, seed=0) for data in sets)

    return replace(
        task,
        fit=few(task.fit),
        keep=few(task.keep),
        validation=few(task.validation),
        test=few(task.test),
        agreement=dict(zip(task.agreement, few(task.agreement.values()), strict=True)),
        neutral={split: texts[:5] for split, texts in task.neutral.items()},
    )


def make_plan(
    families=("occupations",),
    *,
    task=None,
    layers=None,
    **changes,
):
    """The plan of an audit, which edits its layers together."""
    names = ("r", "agreement", "perplexity", "kl")
    settings = {
        "tasks": [task or make_task(families)],
        "erasers": {"rlace": make_eraser("rlace", rank=1)},
        "metrics": tuple(METRICS.make(name) for name in names),
        "layers": layers,
        "together": layers is not None,
    }
    return Plan(**settings | changes)


@pytest.fixture(scope="module")
def path(testbed, tmp_path_factory):
    path = tmp_path_factory.mktemp("audit") / "run"
    run(testbed, make_plan(task=thin(make_task(), 12)), path)
    return path


def on_test(rows, metric, eraser="", **columns):
    return value(rows, metric, eraser=eraser, split="test", **columns)


def test_the_planted_bias_is_found_and_removed_and_random_directions_leave_it(rows):
    measured = on_test(rows, "mean_abs_r")
    assert measured == pytest.approx(on_test(rows, "planted_mean_abs_r"), abs=0.05)
    assert on_test(rows, "group_effect_removed", "rlace", dataset="occupations_test") >= 0.6
    assert abs(on_test(rows, "abs_r_reduction", "random", dataset="occupations_test")) < 0.1


def on_validation(rows, metric, group=""):
    """A figure of the eraser at each layer; of agreement that of one group."""
    rows = [r for r in rows if metric != "agreement" or (r.group_a, r.group_b) == (group, "")]
    about = (metric, "validation", "rlace")
    return {r.layers: r.value for r in rows if (r.metric, r.split, r.eraser) == about}


def test_the_chosen_layer_is_that_of_the_rule_on_validation(rows):
    """Brute force: no layer is affordable, so the cheapest that removes half as much as any."""
    removed = on_validation(rows, "bias_removed")
    about = {"split": "validation", "edit": "none", "group_b": ""}
    women, men = (value(rows, "agreement", group_a=g, **about) for g in ("female", "male"))
    cost = dict.fromkeys(removed, 0.0)
    for metric, group, before, budget in (
        ("agreement", "female", women, 0.01),
        ("agreement", "male", men, 0.01),
        ("perplexity_ratio", "", 1.0, 0.01),
        ("kl", "", 0.0, 0.05),
    ):
        for layers, after in on_validation(rows, metric, group).items():
            cost[layers] = max(cost[layers], abs(after - before) / budget)
    worthy = [layers for layers in removed if removed[layers] >= max(removed.values()) / 2]
    assert min(cost[layers] for layers in worthy) > 1
    [chosen] = {r.layers for r in rows if r.split == "test" and r.eraser == "rlace"}
    assert chosen == min(worthy, key=lambda layers: cost[layers])
    [choice] = [r for r in rows if r.metric == "choice"]
    assert choice.layers == chosen
    assert choice.value == pytest.approx(cost[chosen])
    assert not choice.detail["affordable"]
    assert "agreement" in choice.detail["over"]


def test_a_finished_audit_fits_nothing_again_and_loads_its_edits(testbed, path, monkeypatch):
    before, fit = contents(path), "countergen_edit.runs.fit_data.FitData.fit"
    monkeypatch.setattr(fit, lambda *_: pytest.fail("fitted again"))
    run(testbed, make_plan(task=thin(make_task(), 12)), path)
    assert contents(path) == before
    assert not any(handles for handles in testbed.bridge.list_hooks().values())


def test_data_that_was_fitted_on_is_refused_as_test_data():
    truth, gender = load_truth(), load_axis("gender")
    texts, traits = truth.neutral_texts()[:3], truth.counterfactual_set("traits", "fit", gender)
    with pytest.raises(UserError, match="stands in both"):
        replace(make_task(), neutral={"test": tuple(texts), "fit": (texts[0],)})
    with pytest.raises(UserError, match="traits"):
        replace(make_task(), fit=(traits,), test=(traits,)).check_leakage()


WHY = "nothing is left to tell the groups apart by"


class Refuses(MeanDifference):
    """Refuses activations that are shorter than so much; one of less than 0 has a defect."""

    def __init__(self, least: float = float("inf")) -> None:
        self.least = least

    def fit(self, X: Float[np.ndarray, "row d"], y: Int[np.ndarray, " row"]) -> BaseEraser:
        if self.least < 0:
            raise ZeroDivisionError
        if np.linalg.norm(X, axis=1).mean() < self.least:
            raise UserError(WHY)
        return super().fit(X, y)


def audited(model, path, **plan):
    return run(model, make_plan(task=thin(make_task(), 4), **plan), path)


RLACE = make_eraser("rlace", rank=1)


@pytest.mark.slow
@pytest.mark.parametrize("layers", [None, (2, 4)])
def test_the_others_go_on_and_the_verdict_says_which_did_not(layers, testbed, tmp_path):
    plan = {"layers": layers, "erasers": {"own": Refuses(), "rlace": RLACE}}
    rows = audited(testbed, tmp_path / "both", **plan)
    alone = audited(testbed, tmp_path / "alone", layers=layers, erasers={"rlace": RLACE})
    tested = {row.eraser for row in rows if row.split == "test" and not row.baseline}
    assert tested == {"", "rlace"}
    for metric in ("mean_abs_r", "perplexity"):
        assert on_test(rows, metric, "rlace") == on_test(alone, metric, "rlace")
    opened = open_run(tmp_path / "both")
    assert f"Not fitted: own: {WHY}." in opened.findings
    assert [row.eraser for row in opened.results.of("judgement")] == ["rlace"]
    # What is written is read again, and nothing is tried twice.
    assert audited(testbed, tmp_path / "both", **plan) == rows


@pytest.mark.slow
def test_an_audit_in_which_every_eraser_refuses_ends_with_the_reason(testbed, tmp_path):
    erasers = {"own": Refuses(), "other": Refuses(1e9)}
    for _ in range(2):  # once it has ended, it says the same again
        with pytest.raises(UserError, match=f"^own, other: {WHY}$"):
            audited(testbed, tmp_path / "run", layers=(3,), erasers=erasers)
    with pytest.raises(ZeroDivisionError):  # a defect of an eraser is raised
        audited(testbed, tmp_path / "defect", layers=(3,), erasers={"own": Refuses(-1.0)})
    rows = RunFolder(tmp_path / "run", {}, IDENTITY).rows()
    assert {row.metric for row in rows if row.edit != "none"} == {"error"}


@pytest.mark.slow
def test_skipping_an_attention_sink_costs_less_and_names_other_edits(tmp_path):
    kl, records = [], []
    for skips in (True, False):
        few, path = thin(make_task(("stereotypes",)), 8), tmp_path / str(skips)
        erasers = {"leace": make_eraser("leace")}
        plan = make_plan(task=few, layers=(0,), skip_attention_sinks=skips, erasers=erasers)
        kl.append(on_test(run(sunk("llama"), plan, path), "kl", "leace"))
        records.append(read_records(path))
    assert 0 < kl[0] < kl[1]  # these fits hardly know the direction that the sink lies along
    left, edited = records
    assert {record.eraser for record in left.values()} == {"leace", "random"}
    [limit] = {place.limit for record in left.values() for place in record.places}
    assert limit
    assert {p.limit for record in edited.values() for p in record.places} == {None}
    assert not left.keys() & edited.keys()
    assert {r.label for r in left.values()} == {r.label for r in edited.values()}


@pytest.mark.slow
def test_a_killed_run_goes_on_in_the_batches_that_the_device_had_memory_for(tmp_path):
    plan = make_plan(task=thin(make_task(), 12), erasers={})
    # Apart, as runs in one folder share scores.
    whole, killed = (tmp_path / name / "run" for name in ("whole", "killed"))
    first, second, larger_device = (load_model(directory()) for _ in range(3))
    with memory_for(first, 400):
        run(first, plan, whole)
    with memory_for(second, 400), pytest.raises(KilledError):
        run(second, plan, Dying.after(2, killed))
    run(larger_device, plan, killed)
    assert (whole / RESULTS).read_bytes() == (killed / RESULTS).read_bytes()
    reductions = [
        json.loads((path / MANIFEST).read_text())["batch_reductions"] for path in (whole, killed)
    ]
    assert reductions[0] == reductions[1] != {}
