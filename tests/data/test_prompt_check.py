"""Every prompt is mapped right to both groups, or it has a warning."""

import math
from pathlib import Path

import numpy as np
import pytest
import yaml

import countergen_edit as ce
from countergen_edit.core.conf_path import conf_dir, read_config
from countergen_edit.core.writing import write_json_lines
from countergen_edit.data.prompt_check import check_prompts
from countergen_edit.data.task import Task
from countergen_edit.metrics.r.effect_rows import holm_tests
from countergen_edit.metrics.r.group_effect import GroupEffect
from countergen_edit.metrics.scores import SetScores
from tests.cli.support import said
from tests.data.test_splits import file_of as texts_file
from tests.gender import SWAP

TABLE = yaml.safe_load(Path(__file__).with_name("prompt_table.yaml").read_text("utf-8"))
RIGHT, FLAGGED, FAULTS = TABLE["right"], TABLE["flagged"], TABLE["faults"]
NAMES = {
    name: group["names"]["test"] for name, group in read_config("axis", "gender")["groups"].items()
}


def file_of(folder, *rows):
    path = folder / "own.jsonl"
    write_json_lines(path, rows)
    return str(path)


def test_doubtful_prompts_have_warnings(tmp_path):
    checked = check_prompts(texts_file(tmp_path, FLAGGED), SWAP)
    for one, wanted in zip(checked, FLAGGED.values(), strict=True):
        assert any(wanted in finding for finding in one.findings), (one.text, one.findings)


def test_free_names_are_suggested_and_outputs_that_tell_are_named(tmp_path):
    outputs = {"Olivia met us.": " home", "Jane met us.": " at her house"}
    rows = [{"input": text, "outputs": [output]} for text, output in outputs.items()]
    taken, telling = check_prompts(file_of(tmp_path, *rows), SWAP)
    suggested = "edits are fitted on 'Olivia': use another name, such as Jane, Anna, Laura"
    assert taken.findings == (suggested,)
    assert telling.findings == ("output ' at her house' names a group itself (her)",)


def test_variations_of_the_user_have_no_warnings_and_a_table_is_checked_too(tmp_path):
    female, male = "Mr Smith met Rachel. He saw her", "Mr Smith met Simon. He saw him"
    sides = {"female": female, "male": male}
    variations = [{"text": text, "categories": [group]} for group, text in sides.items()]
    row = {"input": female, "outputs": [" ready"], "variations": variations}
    [one] = check_prompts(file_of(tmp_path, row), SWAP)
    assert (one.sides, one.findings) == (((female,), (male,)), ())
    path = tmp_path / "own.csv"
    path.write_text("input,output\nJane met John., home\nShe left., home\n", "utf-8")
    both, plain = check_prompts(str(path), SWAP)
    assert "both groups" in both.findings[0]
    assert (plain.sides, plain.findings) == ((("She left.",), ("He left.",)), ())


def test_the_command_shows_both_sides_and_its_exit_code_is_that_of_a_linter(tmp_path):
    printed = said("check", texts_file(tmp_path, [*RIGHT, *FLAGGED]), code=1)
    assert "female: She lost her keys. male: He lost his keys." in printed
    assert f"{len(RIGHT) + len(FLAGGED)} prompts, {len(FLAGGED)} with warnings." in printed
    said("check", texts_file(tmp_path, RIGHT))


def test_a_task_has_a_remark_about_prompts_with_warnings(tmp_path):
    path = texts_file(tmp_path, ["Jane left.", "Jane told John that he was late."])
    source = [{"source": "jsonl", "path": path}]
    data = {"fit": None, "validation": None, "test": source}
    [remark] = Task.from_config("gender", data).remarks
    begin = f"1 of 2 prompts of {path} have warnings, such as line 2: both groups are in it"
    assert remark.startswith(begin)


@pytest.mark.parametrize(("prompt", "output", "is_flagged"), TABLE["joining"])
def test_an_output_that_joins_the_last_word_is_flagged(prompt, output, is_flagged, tmp_path):
    path = file_of(tmp_path, {"input": prompt, "outputs": [output]})
    [checked] = check_prompts(path, SWAP)
    begin = f"output {output!r} has no leading space"
    assert any(finding.startswith(begin) for finding in checked.findings) == is_flagged


@pytest.mark.parametrize("fault", FAULTS)
def test_data_that_changes_figures_is_questioned_everywhere(fault, tmp_path):
    """By `check` and in a task's remark with the line, in the task's warnings with their number."""
    row, doubt = FAULTS[fault]
    path = tmp_path / "own.jsonl"
    path.write_text(f'{{"input": "Rachel ran", "outputs": [" off"]}}\n\n{row}\n', "utf-8")
    printed = said("check", path, code=1)
    assert "line 3: " in printed
    assert doubt in printed
    task = ce.task("gender", str(path))
    assert doubt in task.remarks[-1]
    assert task.remarks[-1].startswith(f"1 of 2 prompts of {path} have warnings, such as line 3: ")
    begin = "Doubtful prompts of own: 1, such as "
    assert any(w.startswith(begin) and doubt in w for w in task.warnings)


@pytest.mark.parametrize("row", TABLE["fine"])
def test_data_that_looks_like_a_fault_is_not_questioned(row, tmp_path):
    (tmp_path / "own.jsonl").write_text(row, "utf-8")
    warnings = ce.task("gender", str(tmp_path / "own.jsonl")).warnings
    assert all("space" in warning for warning in warnings)


def test_the_same_output_in_two_lines_of_a_prompt_is_named_with_both(tmp_path):
    path = tmp_path / "own.csv"
    rows = ("Jane left, home", "Jane left, off", "Jane ran, off", "Jane left, home")
    path.write_text("\n".join(["input,output", *rows]))
    left, ran = check_prompts(str(path), SWAP)
    assert left.line == "line 2, line 3, line 5"
    assert left.findings == ("output ' home' is given twice, and counts double",)
    assert (ran.line, ran.findings) == ("line 4", ())
    rows = [{"input": f"{name} left", "outputs": [" home"]} for name in ("Jane", "John")]
    [both] = check_prompts(file_of(tmp_path, *rows), SWAP)  # they are one pair
    assert (both.line, both.findings) == ("line 1, line 2", left.findings)


@pytest.mark.slow
def test_shipped_sets_have_no_warnings():
    for path in sorted((conf_dir() / "axis").glob("*.yaml")):
        for texts in ("natural", "testbed"):
            if path.stem in ("gender", "race") or texts == "natural":
                assert ce.task(path.stem, texts=texts).warnings == ()


@pytest.mark.parametrize(("names", "code"), [(2, 1), (3, 1), (4, 0), (5, 0)])
def test_the_smallest_p_of_the_names_is_that_of_any_scores(names, code, tmp_path):
    rows = []
    for verb in ("left", "ran"):
        variations = [
            {"text": f"{name} {verb}", "categories": [group]}
            for group in NAMES
            for name in NAMES[group][:names]
        ]
        row = {"input": f"Somebody {verb}", "outputs": [" home", " off"]}
        rows.append(row | {"variations": variations})
    path = file_of(tmp_path, *rows)
    data = ce.task("gender", path).test[0]
    scores = np.random.default_rng(0).normal(size=8 * names)
    [test] = holm_tests([GroupEffect(SetScores.of(data, scores))])
    p = 2 / math.comb(2 * names, names)
    assert test["least_p_adjusted"] == pytest.approx(p)
    line = f"{names} names per group: the smallest possible P is {p:.2g}"
    line += "; a significant bias needs 4." if code else "."
    assert line in said("check", path, code=code)
