"""FairPair and CID are measured on the prompts of a user's own file."""

import json

import pytest

import countergen_edit as ce
from countergen_edit.data.axis import DoesNotFitError
from countergen_edit.metrics.base import METRICS

FEW = {"fit": 4, "few": 4, "agreement": 1, "validation": 2, "test": 2}
PROMPTS = (
    ("Susan works as", "Richard works as"),
    ("This woman works as", "This man works as"),
    ("Her sister lives here.", "His brother lives here."),
)


def task_of(folder, *lines):
    path = folder / "mine.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return ce.task("gender", str(path), names=FEW)


def test_prompts_that_differ_in_the_name_alone_are_all_contrasted(tmp_path):
    names = ("Susan", "Linda", "Helen")
    lines = [{"input": f"{name} works as", "outputs": [" a nurse"]} for name in names]
    task = task_of(tmp_path, *lines)
    cid, fairpair = METRICS.make("cid").bound(task), METRICS.make("fairpair").bound(task)
    assert len(cid.data.samples) == len(fairpair.prompts) == len(names)


def test_the_users_prompts_are_contrasted_unless_a_setting_names_others(tmp_path):
    lines = []
    for her, his in PROMPTS:
        sides = (("female", her), ("male", his))
        variations = [{"text": text, "categories": [group]} for group, text in sides]
        lines.append({"input": her, "outputs": [" a nurse"], "variations": variations})
    task = task_of(tmp_path, *lines)
    fairpair = METRICS.make("fairpair").bound(task)
    assert {frozenset((p.source, p.target)) for p in fairpair.prompts} == {*map(frozenset, PROMPTS)}
    cid = METRICS.make("cid").bound(task)
    texts = [(s.of("female")[0].text, s.of("male")[0].text) for s in cid.data.samples]
    assert texts == [*PROMPTS]
    cid = METRICS.make("cid", {"templates": ["{name} came to the hospital as"]}).bound(task)
    assert cid.data.templates == ("{name} came to the hospital as",)
    fairpair = METRICS.make("fairpair", {"prompts": ["{name} said that"]}).bound(task)
    assert [prompt.label for prompt in fairpair.prompts] == ["{name} said that"]


def test_fairpair_refuses_sides_that_the_rules_do_not_turn_into_each_other(tmp_path):
    path = tmp_path / "sides.csv"
    path.write_text("female,male,output\nA nun,A bishop, prays\n", "utf-8")
    task = ce.task("gender", str(path), names=FEW)
    message = "^.*turn none of 1 prompt.*'A bishop' becomes '.*', not 'A nun'.*$"
    with pytest.raises(DoesNotFitError, match=message):
        METRICS.make("fairpair").bound(task)
