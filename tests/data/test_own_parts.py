"""Prompts of one's own are parted so that nothing of what is tested on was fitted on."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from countergen_edit.core.conf_path import config_of, read_config
from countergen_edit.core.errors import UserError
from countergen_edit.data.account import account
from countergen_edit.data.axis_data import data_of
from countergen_edit.data.counterfactual import CounterfactualSet
from countergen_edit.data.own_parts import LEAST, parted
from countergen_edit.data.splits import check_leakage
from countergen_edit.data.task import Task

PEOPLE = read_config("axis", "gender")["groups"]["female"]["names"]["test"]
PARAPHRASES = (
    "{} works as a nurse because she", "My friend {} wants to become an", "We know that {} is",
    "The best thing about {} is", "{} was promoted since", "At school {} liked",
    "When the car broke, {} called", "{} is good at", "People think {} should be",
    "After work {} goes", "The boss told {} to", "{} earns", "For a living {} repairs",
    "It was {} who led the", "Nobody but {} can", "The house of {} is",
)  # fmt: skip


def file_of(folder: Path, texts: Sequence[str], name: str = "own.jsonl") -> str:
    path = folder / name
    rows = ({"input": text, "outputs": [" a", " the"]} for text in texts)
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    return str(path)


def own_task(path: str, **settings: object) -> Task:
    return Task.from_config("gender", {"file": path, "fit": "own"}, **settings)  # type: ignore[arg-type]


def prompts(sets: Sequence[CounterfactualSet]) -> list[str]:
    return [sample.of("female")[0].text for data in sets for sample in data.samples]


@pytest.fixture
def texts() -> list[str]:
    return [text.format(name) for text, name in zip(PARAPHRASES, PEOPLE, strict=False)]


def test_every_prompt_is_in_one_part_and_half_are_fitted_on(
    texts: list[str], tmp_path: Path
) -> None:
    task = own_task(file_of(tmp_path, texts))
    parts = [prompts(sets) for sets in (task.fit, task.validation, task.test)]
    assert sorted(text for part in parts for text in part) == sorted(texts)
    assert [len(part) for part in parts] == [8, 3, 5]
    assert [d.name for d in (*task.fit, *task.validation, *task.test)] == [
        "own_fit",
        "own_validation",
        "own_test",
    ]


def test_the_parts_are_those_of_the_seed(texts: list[str], tmp_path: Path) -> None:
    path = file_of(tmp_path, texts)
    first, again, other = (prompts(own_task(path, seed=seed).test) for seed in (0, 0, 1))
    assert first == again
    assert first != other


def test_what_is_nearly_the_same_stays_together(texts: list[str], tmp_path: Path) -> None:
    twins = {
        "of another case and sign": [f"{text.upper()} !" for text in texts[1:3]],
        "of another person": ["We know that Martha is", "Nobody but Martha can"],
        "of the other group": ["John works as a nurse because he"],
        "of a word more": ["My good friend Anna wants to become an"],
    }
    lines = [*texts, *(twin for some in twins.values() for twin in some)]
    for seed in range(4):
        task = own_task(file_of(tmp_path, lines), seed=seed)
        said = [" ".join(prompts(sets)).lower() for sets in (task.fit, task.validation, task.test)]
        for words in (
            ["works as a nurse because she"] * 2,
            ["wants to become an"] * 3,
            ["we know that"] * 3 + ["nobody but"] * 2,  # one person says both
        ):
            own = [sum(part.count(word) for word in set(words)) for part in said]
            assert sorted(own) == [0, 0, len(words)], (seed, words)
        check_leakage(task.fit, (*task.validation, *task.test))
        check_leakage(task.validation, task.test)


def test_paraphrases_of_one_content_and_files_that_share_a_paraphrase_stay_together(
    texts: list[str], tmp_path: Path
) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    for folder in (first, second):
        folder.mkdir()
    paths = [file_of(first, texts[:8]), file_of(second, [*texts[8:], texts[0]])]
    entries = [{"source": "jsonl", "path": path} for path in paths]
    task = Task.from_config("gender", {"fit": "own", "test": entries})
    parts = (task.fit, task.validation, task.test)
    assert sum(texts[0] in prompts(sets) for sets in parts) == 1
    assert {data.name for sets in parts for data in sets} <= {
        f"{folder}/own_{split}" for folder in "ab" for split in ("fit", "validation", "test")
    }


def test_no_person_that_is_tested_is_kept_or_agrees_with_one_that_was_fitted_on(
    texts: list[str], tmp_path: Path
) -> None:
    fitted = read_config("axis", "gender")["groups"]["female"]["names"]["fit"]
    lines = [text.format(name) for text, name in zip(PARAPHRASES, fitted, strict=False)]
    task = own_task(file_of(tmp_path, lines))  # people whom grammar is kept by, and agreement asks
    assert task.keep
    assert task.agreement
    spoken_of = {name for data in (*task.fit, *task.validation, *task.test) for name in data.names}
    assert spoken_of.isdisjoint(name for data in task.keep for name in data.names)
    assert set(task.agreement["test"].names).isdisjoint(task.fit[0].names)


@pytest.mark.parametrize("texts_of", ["natural", "testbed"])
@pytest.mark.parametrize("fit", [{}, {"fit": "own"}])
def test_own_prompts_keep_the_contexts_that_grammar_needs(
    fit: dict[str, str], texts_of: str, texts: list[str], tmp_path: Path
) -> None:
    path = file_of(tmp_path, texts)
    mine = Task.from_config("gender", {"file": path, **fit}, texts=texts_of)
    usual = Task.from_config("gender", texts=texts_of)
    assert [data.templates for data in mine.keep] == [data.templates for data in usual.keep]
    for split in ("validation", "test"):
        assert mine.agreement[split].templates == usual.agreement[split].templates
    if not fit:
        assert (mine.fit, mine.keep, mine.validation) == (usual.fit, usual.keep, usual.validation)


def test_too_few_prompts_are_refused_with_how_many_it_takes(
    texts: list[str], tmp_path: Path
) -> None:
    assert len(own_task(file_of(tmp_path, texts[:LEAST])).fit[0].samples) == LEAST // 2
    with pytest.raises(UserError, match=rf"own has {LEAST - 1} prompts; {LEAST} are needed"):
        own_task(file_of(tmp_path, texts[: LEAST - 1]))
    alike = [text.format("Jane") for text in PARAPHRASES]
    with pytest.raises(UserError, match=r"count as 1,.* \('Jane' is in 16\); 12 are"):
        own_task(file_of(tmp_path, alike))
    with pytest.raises(UserError, match="fits on a part of prompts of yours, and there are none"):
        Task.from_config("gender", {"fit": "own", "test": []})


def test_an_axis_without_data_is_asked_by_prompts_alone(texts: list[str], tmp_path: Path) -> None:
    axis = read_config("axis", "gender")
    del axis["data"]
    path = file_of(tmp_path, texts)
    assert Task.from_config(axis, {"file": path, "fit": "own"}).fit
    with pytest.raises(UserError, match=r"prompts of yours are fitted on too with data\.fit=own"):
        Task.from_config(axis, path)
    content, given = data_of(axis, config_of("data", {"file": path, "fit": "own"}))
    assert (content["validation"], given) == ([], frozenset())


@pytest.mark.parametrize(("count", "together"), [(10, True), (9, True), (5, False)])
def test_paraphrases_stay_together_that_share_four_fifths_of_their_words(
    count: int, together: bool, tmp_path: Path
) -> None:
    """All words but one of 10: 9 of 11 are shared; of 9: 8 of 10; of 5: 4 of 6."""
    others = [f"She {letter * 3}" for letter in "abcdefghijklmnop"]
    common = " ".join(["She", *(f"w{i}" for i in range(count - 2))])
    twins = [f"{common} here", f"{common} there"]
    path = file_of(tmp_path, [*others, *twins])
    [whole] = Task.from_config("gender", {"test": [{"source": "jsonl", "path": path}]}).test
    parted_by_seed = [
        [sum(twin in prompts(sets) for twin in twins) for sets in parted([whole], seed).values()]
        for seed in range(12)
    ]
    assert together == all(max(counts) == 2 for counts in parted_by_seed)


def test_a_line_says_what_a_task_is_made_of(texts: list[str], tmp_path: Path) -> None:
    task = own_task(file_of(tmp_path, texts))
    said = account(task)
    assert re.fullmatch(
        r"The run fits on own_fit \(8 prompts\); keeps agreement_fit \(\d+ prompts\); chooses by "
        r"own_validation \(3 prompts\); tests on own_test \(5 prompts\)\.",
        said,
    )
    assert account(task, fits=False) == "Nothing is fitted; tests on own_test (5 prompts)."
    many = account(Task.from_config("gender"))
    assert "tests on occupations_test, traits_test, hobbies_test, 5 more (" in many
