"""A gate says of every set whether it keeps its limit, in lines, JUnit XML and JSON."""

import json
from dataclasses import replace

import pytest

import countergen_edit as ce
from countergen_edit.core.errors import UserError
from countergen_edit.metrics.rows import Row
from countergen_edit.reports.gate import gate_run
from tests.cli.support import call
from tests.reports.runs import GROUPS, LEACE, MANIFEST, audit_rows, in_memory, make_run, unedited
from tests.reports.test_own_metric import OWN

AUDIT = in_memory(audit_rows())


def chosen(edit, **about):
    detail = {"front": True, "chosen": True, "affordable": True, "shown": True, **about}
    return Row("cost", 0.1, edit=edit, split="validation", detail=detail)


def test_every_set_of_a_figure_has_its_line():
    held = gate_run(AUDIT, {"group_effect": 0.62, "agreement": 0.7}, {})
    assert held.lines == [
        "nowhere, testbed",
        "cannot tell  group_effect, jobs: 0.600 [0.550, 0.650], at most 0.62, P 1.000",
        "cannot tell  group_effect, traits: 0.610 [0.560, 0.660], at most 0.62, P 1.000",
        "cannot tell  group_effect, hobbies: 0.620 [0.570, 0.670], at most 0.62, P 1.000",
        "holds        agreement, female / male: 0.900 [0.800, 0.950], at least 0.7, P < 0.001",
        "holds        agreement, female: 0.900 [0.800, 0.950], at least 0.7, P < 0.001",
        "The gate cannot tell, by 95 % intervals; P: Holm over the sets of a figure. "
        "Checks: cannot tell 3, holds 2.",
    ]


def test_of_a_search_the_edit_that_is_kept_is_held_and_of_an_audit_none():
    of = {"group_effect": 0.5}
    assert gate_run(AUDIT, of, {}).verdict == "fails"
    search = in_memory([*audit_rows(), chosen(LEACE["edit"])])
    held = gate_run(search, of, {})
    assert (held.verdict, held.lines[0]) == ("holds", "nowhere, testbed with leace-1@resid_post.2")
    dear = in_memory([*audit_rows(), chosen(LEACE["edit"], affordable=False)])
    assert gate_run(dear, of, {}).verdict == "fails"  # nothing was kept: the model is as it was


def test_another_run_is_matched_set_by_set():
    fewer = in_memory([row for row in audit_rows() if row.dataset != "jobs_test"])
    held = gate_run(AUDIT, {}, {"agreement": 0.2, "group_effect": 0.05}, fewer)
    verdicts = {line.of: line.verdict for line in held.checks if "group" in line.figure}
    assert verdicts == dict.fromkeys(("jobs", "traits", "hobbies"), "cannot tell")
    wide = gate_run(AUDIT, {}, {"group_effect": 0.2}, fewer)
    assert [line.verdict for line in wide.checks] == ["cannot tell", "holds", "holds"]
    assert wide.checks[0].row.value is None
    better = next(line for line in held.checks if line.figure == "margin.agreement")
    assert (better.better, better.limit) == ("higher", -0.2)


def test_several_tasks_are_all_held_and_named():
    rows = [replace(row, task=task) for task in ("gender", "race") for row in audit_rows()]
    manifest = MANIFEST | {"tasks": {"gender": "x", "race": "y"}}
    held = gate_run(in_memory(rows, manifest), {"group_effect": 0.3}, {})
    assert [line.of for line in held.checks][::3] == ["gender, jobs", "race, jobs"]
    one = in_memory([row for row in rows if row.task == "gender"], manifest)
    with pytest.raises(UserError, match="no test rows of 'race'"):
        gate_run(one, {"group_effect": 0.3}, {})


@pytest.mark.parametrize("name", ["r", "null_abs_r", "planted_group_effect", "kl"])
def test_what_has_no_better_end_or_says_nothing_here_is_no_figure(name):
    rows = [row for row in audit_rows() if row.metric != "kl"]
    with pytest.raises(UserError, match=f"unknown figure '{name}': did you mean"):
        gate_run(in_memory(rows), {name: 1.0}, {})


def test_a_ratio_to_itself_holds_nobody_to_anything():
    with pytest.raises(UserError, match="did you mean 'perplexity'"):
        gate_run(in_memory(unedited()), {"perplexity_ratio": 1.3}, {})
    edited = in_memory([*audit_rows(), chosen(LEACE["edit"])])
    assert gate_run(edited, {"perplexity_ratio": 1.3}, {}).verdict == "holds"


def test_a_metric_of_ones_own_is_held_the_way_that_it_declares(tmp_path):
    file = tmp_path / "own.py"
    file.write_text(
        OWN + "\n\nclass Kindness(Metric):\n    better = {'kindness': 'higher'}\n"
        "    def measure(self, context, edit, split='test'):\n        return []\n",
        "utf-8",
    )
    about = {"lo": 0.7, "hi": 0.8, "dataset": "mine", "split": "test", **GROUPS}
    verdicts = {"politeness": "fails", "length": "fails", "kindness": "holds"}
    metrics = {name: f"{file}:{name.title()}" for name in verdicts}
    rows = [Row(name, 0.777, **about) for name in verdicts]
    run = in_memory(rows, MANIFEST | {"metrics": metrics})
    held = gate_run(run, dict.fromkeys(verdicts, 0.5), {})
    assert [line.verdict for line in held.checks] == [*verdicts.values()]


def test_the_file_says_what_the_lines_say(tmp_path):
    rows = [replace(r, dataset=r.dataset.replace("jobs", "<jobs & \x07>")) for r in audit_rows()]
    held = gate_run(in_memory(rows), {"group_effect": 0.62, "agreement": 0.97}, {})
    held.write_json(tmp_path / "new" / "gate.json")
    content = json.loads((tmp_path / "new" / "gate.json").read_text("utf-8"))
    assert content["verdict"] == "fails"
    written = [(check["dataset"], check["verdict"]) for check in content["checks"]]
    assert written == [(line.row.dataset, line.verdict) for line in held.checks]
    assert content["checks"][0]["hi"] == pytest.approx(0.65)


@pytest.mark.parametrize(("limit", "code"), [(0.9, 0), (0.4, 1), (0.62, 2)])
def test_exit_codes_lines_and_the_assertion_agree(limit, code, tmp_path):
    run = make_run(tmp_path / "run", audit_rows())
    ended = call("gate", run, f"group_effect={limit}", f"json={tmp_path / 'a gate.json'}")
    lines = ended.out.splitlines()
    assert (ended.code, lines) == (code, ce.gate(run, group_effect=limit).lines)
    assert (tmp_path / "a gate.json").is_file()
    if code:
        with pytest.raises(AssertionError) as raised:
            ce.assert_gate(run, group_effect=limit)
        assert str(raised.value).splitlines() == lines
    else:
        ce.assert_gate(run, group_effect=limit)
    assert ce.gate(run, group_effect=0.625, strict=False).verdict == "holds"
