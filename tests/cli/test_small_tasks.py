"""A run on few prompts says so; default metrics that do not fit the groups are left out."""

from collections import Counter
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest

import countergen_edit as ce
from countergen_edit.cli.study import fitting_metrics
from countergen_edit.core.conf_path import read_config
from countergen_edit.data.axis import DoesNotFitError
from countergen_edit.data.task import Task
from countergen_edit.metrics.base import METRICS
from countergen_edit.metrics.cid import template_set
from countergen_edit.runs.run import open_run
from tests.cli.support import call, names
from tests.made_benchmarks import make_benchmarks, settings


def test_every_set_has_no_more_and_fewer_are_among_more():
    whole = Task.from_config("gender", "many_testbed", names={"test": 4})
    three, five = (whole.limited(most, seed=7) for most in (3, 5))
    for few, many, every in zip(three.every_set, five.every_set, whole.every_set, strict=True):
        assert len(few.samples) == min(3, len(every.samples))
        assert {*few.templates} <= {*many.templates} <= {*every.templates}
        assert few.widest == every.widest or len(few.samples) < len(every.samples)
    assert {len(texts) for texts in three.neutral.values()} == {3}
    assert whole.limited(10**6) == whole


@pytest.mark.slow
def test_a_run_on_few_prompts_says_so_wherever_it_is_read():
    small = ["eraser=rlace", "metric=r", names(8, 4, 6, 2, few=4), "edit.layers=[4]"]
    ended = call("audit", *small, "cost=agreement", "limit=2", "run_dir=runs/a")
    first, end = (ended.out.splitlines()[at] for at in (1, -2))
    assert first.startswith("A quick try: at most 2 prompts of each set (limit=2), too few")
    run = open_run("runs/a")
    assert run.findings[0].startswith("A quick try: at most 2 prompts")
    assert max(row.n for row in run.results.of("mean_abs_r")) <= 2 * 60  # of 60 occupations
    assert end.startswith("Next, on every prompt: countergen-edit audit eraser=rlace metric=r ")
    assert "limit" not in end
    assert "run_dir" not in end
    page = Path("runs/a/report.html").read_text("utf-8")
    assert page.count("A quick try: at most 2 prompts") >= 2  # in its head and body


def test_prompts_that_metrics_bring_are_few_as_well(tmp_path):
    task = Task.from_config("gender", "testbed", names={"test": 4}).limited(2)
    fairpair, cid = (METRICS.make(name).bound(task) for name in ("fairpair", "cid"))
    whole = METRICS.make("cid").bound(replace(task, limit=None)).data
    assert len(fairpair.prompts) == 2
    assert len(cid.data.samples) == min(2, len(whole.samples))
    [asked] = METRICS.make("decisions").bound(task).asked
    assert len({case.topic for case in asked.cases}) == 2
    made = settings(make_benchmarks(tmp_path)) | {"of": ["crows_pairs", "bbq"]}
    for limit, most in ((None, 2), ({"crows_pairs": 1}, 1), (5, 2)):
        benchmarks = METRICS.make("benchmarks", made | {"limit": limit}).bound(task)
        items = benchmarks.items("crows_pairs", 0)
        assert max(Counter(item.bias_type for item in items).values()) == most


FEW = {"fit": 4, "few": 4, "agreement": 1, "validation": 2, "test": 2}
SETTINGS = read_config("metric", "cid")["cid"]["templates"]


@pytest.mark.parametrize(
    "axis",
    ["gender", "nationality", ["gender", "nationality"], ["gender", "religion"], ["gender", "age"]],
)
def test_every_pair_of_groups_that_have_names_has_cid_templates(axis):
    shipped = ce.task(axis, names=FEW).axis
    templates = SETTINGS.get(shipped.name, SETTINGS["others"])
    for pair in combinations(shipped.groups, 2):
        data = template_set(shipped, templates, pair, names=2)
        for sample in data.samples:
            texts = [{v.text for v in sample.of(group)} for group in pair]
            assert not texts[0] & texts[1]


def test_names_that_two_groups_share_do_not_tell_them_apart():
    axis = ce.task(["gender", "religion"], names=FEW).axis
    named, worded = "In this town {name} works as", "Here most {adjective} people work as"
    shared = ("female_christian", "female_muslim")
    assert template_set(axis, [named, worded], shared, names=2).templates == (worded,)
    with pytest.raises(DoesNotFitError, match="can fill no CID template that tells"):
        template_set(axis, [named], shared, names=2)
    across = ("female_christian", "male_muslim")
    assert template_set(axis, [named, worded], across, names=2).templates == (named, worded)


def test_a_default_metric_that_does_not_fit_is_left_out_with_a_line(capsys):
    task = ce.task("nationality", groups=["egypt_male", "usa_male"], names=FEW)
    same = METRICS.make("cid", {"templates": ["A {person} here works as"]})
    metrics = {"r": METRICS.make("r"), "cid": same}
    assert [*fitting_metrics(metrics, task, ["axis=nationality"])] == ["r"]
    assert capsys.readouterr().out.startswith("cid is left out: axis 'nationality' can fill no CID")
    assert [*fitting_metrics(metrics, task, ["metric=[r,cid]"])] == ["r", "cid"]
    with pytest.raises(DoesNotFitError):
        same.bound(task)
