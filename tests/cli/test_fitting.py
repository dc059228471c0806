"""Default metrics that do not fit the groups are left out; metrics that were named are refused."""

from __future__ import annotations

from itertools import combinations

import pytest

import countergen_edit as ce
from countergen_edit.cli.study import fitting_metrics
from countergen_edit.core.conf_path import read_config
from countergen_edit.data.axis import DoesNotFitError
from countergen_edit.metrics.base import METRICS
from countergen_edit.metrics.cid import template_set

FEW = {"fit": 4, "few": 4, "agreement": 1, "validation": 2, "test": 2}
SETTINGS = read_config("metric", "cid")["cid"]["templates"]


@pytest.mark.parametrize(
    "axis",
    ["gender", "nationality", ["gender", "nationality"], ["gender", "religion"], ["gender", "age"]],
)
def test_every_pair_of_groups_that_have_names_has_cid_templates(axis: str | list[str]) -> None:
    own = ce.task(axis, names=FEW).axis
    templates = SETTINGS.get(own.name, SETTINGS["others"])
    for pair in combinations(own.groups, 2):
        data = template_set(own, templates, pair, names=2)
        for sample in data.samples:
            texts = [{v.text for v in sample.of(group)} for group in pair]
            assert not texts[0] & texts[1]


def test_names_that_two_groups_share_do_not_tell_them_apart() -> None:
    own = ce.task(["gender", "religion"], names=FEW).axis
    named, told = "In this town {name} works as", "Here most {adjective} people work as"
    shared = ("female_christian", "female_muslim")
    assert template_set(own, [named, told], shared, names=2).templates == (told,)
    with pytest.raises(DoesNotFitError, match="can fill no CID template that tells"):
        template_set(own, [named], shared, names=2)
    across = ("female_christian", "male_muslim")
    assert template_set(own, [named, told], across, names=2).templates == (named, told)


def test_a_default_metric_that_does_not_fit_is_left_out_with_a_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    task = ce.task("nationality", groups=["egypt_male", "usa_male"], names=FEW)
    same = METRICS.make("cid", {"templates": ["A {person} here works as"]})
    metrics = {"r": METRICS.make("r"), "cid": same}
    assert [*fitting_metrics(metrics, task, ["axis=nationality"])] == ["r"]
    assert capsys.readouterr().out.startswith("cid is left out: axis 'nationality' can fill no CID")
    assert [*fitting_metrics(metrics, task, ["metric=[r,cid]"])] == ["r", "cid"]
    with pytest.raises(DoesNotFitError):
        same.bound(task)
