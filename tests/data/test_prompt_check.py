"""Every prompt is mapped right to both groups, or it has a warning."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import countergen_edit as ce
from countergen_edit import api
from countergen_edit.cli.main import main
from countergen_edit.core.conf_path import read_config
from countergen_edit.data.axis import Axis
from countergen_edit.data.prompt_check import check_prompts
from countergen_edit.data.task import Task
from countergen_edit.data.text.substitution import Substitution

RIGHT = {
    "Jane is a nurse.": "John is a nurse.",
    "My sister works as": "My brother works as",
    "The doctor said she was tired.": "The doctor said he was tired.",
    "She lost her keys.": "He lost his keys.",
    "She hurt herself.": "He hurt himself.",
    "A woman and her dog left.": "A man and his dog left.",
    "When the engineer came, she was late.": "When the engineer came, he was late.",
    "We met her at noon.": "We met him at noon.",
}
FLAGGED = {
    "Mr Smith interviewed Rachel. He found her in time": "both groups are in it",
    "Jane told John that he was late.": "both groups are in it",
    "He and his wife moved.": "both groups are in it",
    "Sir, this is Linda.": "both groups are in it",
    "Priya is a nurse. She works nights.": "'Priya' is no known name",
    "We asked Oluwaseun about his work.": "'Oluwaseun' is no known name",
    "Jane saw Bronwyn leave.": "'Bronwyn' is no known name",
    "They gave her books.": "'her' is read as",
    "We made her lunch.": "'her' is read as",
    "The weather is fine.": "changes nothing",
    "Olivia is a lawyer.": "edits are fitted on 'Olivia'",
    "Robert slept.": "edits are chosen with 'Robert'",
}


@pytest.fixture(scope="module")
def substitution():
    content = read_config("axis", "gender")
    return Substitution.from_config(Axis.from_config(content), content["substitution"])


def file_of(folder: Path, *rows: dict[str, Any]) -> str:
    path = folder / "own.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    return str(path)


def of_texts(folder: Path, texts: Any) -> str:
    return file_of(folder, *({"input": text, "outputs": [" left"]} for text in texts))


def test_plain_prompts_are_mapped_right_and_have_no_warnings(substitution, tmp_path):
    checked = check_prompts(of_texts(tmp_path, RIGHT), substitution)
    found = {one.text: tuple(side[0] for side in one.sides) for one in checked}
    assert found == {female: (female, male) for female, male in RIGHT.items()}
    assert {one.text: one.findings for one in checked} == dict.fromkeys(RIGHT, ())


def test_doubtful_prompts_have_warnings(substitution, tmp_path):
    checked = check_prompts(of_texts(tmp_path, FLAGGED), substitution)
    for one, wanted in zip(checked, FLAGGED.values(), strict=True):
        assert any(wanted in finding for finding in one.findings), (one.text, one.findings)


def test_free_names_are_suggested_and_outputs_that_tell_are_named(substitution, tmp_path):
    outputs = {"Olivia met us.": " home", "Jane met us.": " at her house"}
    rows = [{"input": text, "outputs": [output]} for text, output in outputs.items()]
    taken, telling = check_prompts(file_of(tmp_path, *rows), substitution)
    assert taken.findings == ("edits are fitted on 'Olivia': use another name",)
    assert telling.findings == ("output ' at her house' names a group itself (her)",)


def test_variations_of_the_user_have_no_warnings_and_a_table_is_checked_too(substitution, tmp_path):
    female, male = "Mr Smith met Rachel. He saw her", "Mr Smith met Simon. He saw him"
    sides = {"female": female, "male": male}
    variations = [{"text": text, "categories": [group]} for group, text in sides.items()]
    row = {"input": female, "outputs": [" ready"], "variations": variations}
    [one] = check_prompts(file_of(tmp_path, row), substitution)
    assert (one.sides, one.findings) == (((female,), (male,)), ())
    path = tmp_path / "own.csv"
    path.write_text("input,output\nJane met John., home\nShe left., home\n", "utf-8")
    both, plain = check_prompts(str(path), substitution)
    assert "both groups" in both.findings[0]
    assert (plain.sides, plain.findings) == ((("She left.",), ("He left.",)), ())


def test_the_command_shows_both_sides_and_its_exit_code_is_that_of_a_linter(tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["check", of_texts(tmp_path, [*RIGHT, *FLAGGED])])
    assert ended.value.code == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "female: She lost her keys. male: He lost his keys." in said
    assert f"{len(RIGHT) + len(FLAGGED)} prompts, {len(FLAGGED)} with warnings." in said
    assert main(["check", of_texts(tmp_path, RIGHT)]) == 0


def test_a_task_has_a_remark_about_prompts_with_warnings(tmp_path):
    path = of_texts(tmp_path, ["Jane left.", "Jane told John that he was late."])
    source = [{"source": "jsonl", "path": path}]
    data = {"fit": None, "validation": None, "test": source}
    [remark] = Task.from_config("gender", data).remarks
    assert remark.startswith(f"1 of 2 prompts of {path} have warnings, such as 'Jane told John")


@pytest.mark.parametrize(
    ("prompt", "output", "is_flagged"),
    [
        ("Jane works as", "a nurse", True),
        ("Jane works as", " a nurse", False),
        ("Jane works as ", "a nurse", False),
        ("Jane works as", ", of all things, a nurse", False),
        ('Jane said: "', "I am a nurse", False),
        ("Jane came late.", "She had slept", True),
        ("Jane (her sister)", "works", True),
        ("Jane 은", "간호사", True),
        ("Jane 是", "护士", False),
        ("Jane は", "看護師です", False),
        ("Jane เป็น", "พยาบาล", False),
    ],
)
def test_an_output_that_joins_the_last_word_is_flagged(
    prompt, output, is_flagged, tmp_path, substitution
):
    path = file_of(tmp_path, {"input": prompt, "outputs": [output]})
    [checked] = check_prompts(path, substitution)
    said = f"output {output!r} has no leading space"
    assert any(f.startswith(said) for f in checked.findings) == is_flagged


def test_a_run_keeps_its_warnings(testbed, tmp_path):
    templates = ["{name} is excellent at"]
    test = [{"source": "templates", "templates": templates, "outputs": ["triage"], "name": "mine"}]
    data = {"fit": None, "validation": None, "test": test}
    task = api.in_vocabulary(testbed, ce.task("gender", data, names={"test": 2}), keys=())
    run = ce.audit(testbed, task, [], ["r"], folder=tmp_path / "run")
    spaces, words = run.manifest["warnings"]
    assert spaces.startswith("1 of 1 prompts of mine have outputs without a leading space")
    assert words.startswith("1 of 1 prompts of mine contain words outside the vocabulary of")
    assert run.findings[-2:] == (spaces, words)
