"""No split shares anything with another, in checks and in the splitting of the user's prompts."""

from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest
import yaml

from countergen_edit.core.conf_path import read_config
from countergen_edit.core.errors import UserError
from countergen_edit.core.writing import write_json_lines
from countergen_edit.data.counterfactual import CounterfactualSet, Sample, Variation
from countergen_edit.data.subsets import (
    LEAST_CLUSTERS,
    check_leakage,
    split_prompts,
    without_overlap,
)
from countergen_edit.data.task import Task
from countergen_edit.data.templates import Template, expand
from tests.gender import GENDER


def crossed(name, templates, split):
    return expand(name, [Template(t, (" Yes",)) for t in templates], GENDER, split)


def plain(name, female, male):
    sides = (Variation("female", female), Variation("male", male))
    sample = Sample(f"{female} / {male}", (" x",), sides)
    return CounterfactualSet(name, "gender", ("female", "male"), (sample,))


FIT = crossed("questions", ["Is {name} smart?", "Is {name} strong?"], "fit")
LEAKS = {
    "data set": (crossed("questions", ["{name} left"], "test"), "data set 'questions'"),
    "template": (crossed("t", ["{name} left", "is  {name} SMART?"], "test"), "template 'Is .name"),
    "name": (crossed("t", ["{name} left"], "fit"), "name 'Olivia'"),
    "name in a text": (plain("t", "She met Eva.", "He met Eva."), "name 'Eva'"),
    "prompt": (plain("t", "is Olivia smart?", "Is Liam strong?"), "prompt 'Is Olivia smart"),
}


@pytest.mark.parametrize("leak", LEAKS)
def test_a_leak_is_an_error_that_names_the_culprit_and_both_sets(leak):
    test, message = LEAKS[leak]
    clean = crossed("clean", ["{name} left"], "test")
    with pytest.raises(UserError, match=message) as caught:
        check_leakage([FIT], [clean, test])
    assert "'questions'" in str(caught.value)
    assert repr(test.name) in str(caught.value)


def test_a_name_of_the_test_set_in_a_fitting_text_is_a_leak_too():
    fit = plain("f", "She met Jane.", "He met Jane.")
    with pytest.raises(UserError, match="name 'Jane'"):
        check_leakage([fit], [crossed("t", ["{name} left"], "test")])


def test_sets_that_share_nothing_pass():
    others = crossed("t", ["{name} left"], "test"), plain("p", "She ran", "He ran")
    check_leakage([FIT], [*others, plain("e", "Her Evangeline left.", "His Evangeline left.")])
    check_leakage([], [FIT])
    assert without_overlap(FIT, []) == FIT


@pytest.mark.parametrize("leak", [leak for leak in LEAKS if leak != "data set"])
def test_a_set_without_overlap_leaks_nothing_and_keeps_the_rest(leak):
    tested, _ = LEAKS[leak]
    mixed = replace(FIT, samples=(*FIT.samples, *crossed("t", ["Is {name} kind?"], "fit").samples))
    left = without_overlap(mixed, [tested])
    if leak == "name":  # all people are known
        assert left is None
        return
    check_leakage([left], [tested])
    assert {"Is {name} kind?"} <= {*left.templates} <= {*mixed.templates}
    assert len(mixed.names) - len(left.names) == (0 if leak == "template" else 2)  # a pair


NAMES = read_config("axis", "gender")["groups"]["female"]["names"]["test"]
TEMPLATES = yaml.safe_load(Path(__file__).with_name("prompt_table.yaml").read_text())["templates"]


def file_of(
    folder,
    texts,
    name="own.jsonl",
    outputs=(" a", " the"),
):
    path = folder / name
    write_json_lines(path, ({"input": text, "outputs": [*outputs]} for text in texts))
    return str(path)


def own_task(path, **settings):
    return Task.from_config("gender", {"file": path, "fit": "own"}, **settings)


def prompts(sets):
    return [sample.of("female")[0].text for data in sets for sample in data.samples]


@pytest.fixture
def texts():
    return [text.format(name) for text, name in zip(TEMPLATES, NAMES, strict=False)]


def test_every_prompt_is_in_one_split(texts, tmp_path):
    task = own_task(file_of(tmp_path, texts))
    parts = [prompts(sets) for sets in (task.fit, task.validation, task.test)]
    assert sorted(text for part in parts for text in part) == sorted(texts)
    assert [len(part) for part in parts] == [8, 3, 5]
    sets = (*task.fit, *task.validation, *task.test)
    assert [data.name for data in sets] == ["own_fit", "own_validation", "own_test"]


def test_prompts_that_share_anything_stay_in_one_split(texts, tmp_path):
    twins = {
        "of another case and sign": [f"{text.upper()} !" for text in texts[1:3]],
        "of another person": ["We know that Martha is", "Nobody but Martha can"],
        "of the other group": ["John works as a nurse because he was"],
        "of a word more": ["My good friend Anna wants to become an"],
    }
    lines = [*texts, *chain.from_iterable(twins.values())]
    for seed in range(4):
        task = own_task(file_of(tmp_path, lines), seed=seed)
        parts = [" ".join(prompts(sets)).lower() for sets in (task.fit, task.validation, task.test)]
        for words in (
            ["works as a nurse because she"] * 2,
            ["wants to become an"] * 3,
            ["we know that"] * 3 + ["nobody but"] * 2,  # one person says both
        ):
            counts = [sum(part.count(word) for word in set(words)) for part in parts]
            assert sorted(counts) == [0, 0, len(words)], (seed, words)
        check_leakage(task.fit, (*task.validation, *task.test))
        check_leakage(task.validation, task.test)


def test_names_of_prompts_are_not_in_other_sets(texts, tmp_path):
    fitted = read_config("axis", "gender")["groups"]["female"]["names"]["fit"]
    lines = [text.format(name) for text, name in zip(TEMPLATES, fitted, strict=False)]
    task = own_task(file_of(tmp_path, lines))
    assert task.keep
    assert task.agreement
    names = {name for data in (*task.fit, *task.validation, *task.test) for name in data.names}
    assert names.isdisjoint(name for data in task.keep for name in data.names)
    assert set(task.agreement["test"].names).isdisjoint(task.fit[0].names)


def test_too_few_prompts_are_refused(texts, tmp_path):
    [few] = own_task(file_of(tmp_path, texts[:LEAST_CLUSTERS])).fit
    assert len(few.samples) == LEAST_CLUSTERS // 2
    with pytest.raises(UserError, match=rf"own has {LEAST_CLUSTERS - 1} groups"):
        own_task(file_of(tmp_path, texts[: LEAST_CLUSTERS - 1]))
    alike = [text.format("Jane") for text in TEMPLATES]
    with pytest.raises(UserError, match=r"own has 1 groups .* \(16 prompts\); 12 are"):
        own_task(file_of(tmp_path, alike))


@pytest.mark.parametrize(("count", "together"), [(10, True), (9, True), (5, False)])
def test_templates_that_share_four_fifths_of_their_words_stay_together(count, together, tmp_path):
    """All words but one of 10: 9 of 11 are shared; of 9: 8 of 10; of 5: 4 of 6."""
    others = [f"She {letter * 3}" for letter in "abcdefghijklmnop"]
    common = " ".join(["She", *(f"w{i}" for i in range(count - 2))])
    twins = [f"{common} here", f"{common} there"]
    path = file_of(tmp_path, [*others, *twins])
    [whole] = Task.from_config("gender", {"test": [{"source": "jsonl", "path": path}]}).test
    splits = [split_prompts([whole], seed).values() for seed in range(12)]
    shares = [[{*twins} <= {*prompts(sets)} for sets in parts] for parts in splits]
    assert together == all(any(of_split) for of_split in shares)
