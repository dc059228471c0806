"""Axes bring their data, sets get distinct names, groups the same prompts, files their paths."""

from itertools import combinations
from pathlib import Path

import pytest
import yaml

from countergen_edit.core.conf_path import conf_dir, config_of, read_config
from countergen_edit.core.errors import UserError
from countergen_edit.data.axis import data_of
from countergen_edit.data.counterfactual import CounterfactualSet, Sample, Variation, joined_sets
from countergen_edit.data.set_builder import NamedSet, distinctly_named
from countergen_edit.data.task import Task

AXES = sorted(path.stem for path in (conf_dir() / "axis").glob("*.yaml"))
FEW = {"fit": 4, "few": 2, "agreement": 2, "validation": 3, "test": 4}


@pytest.mark.parametrize("axis", AXES)
def test_each_shipped_axis_has_data_that_give_all_groups_the_same_prompts(axis):
    for texts in ("natural", "testbed"):
        task = Task.from_config(axis, texts=texts, names=FEW, groups="all")
        assert all((task.fit, task.validation, task.test))
        assert task.neutral  # perplexity and KL
        assert task.agreement or any("agreement is not a cost" in remark for remark in task.remarks)
    assert list(task.groups) == list(read_config("axis", axis)["groups"])
    for data in (*task.fit, *task.validation, *task.test, *task.legitimate_sets):
        assert data.groups == task.groups
        for sample in data.samples:
            assert len({len(sample.of(group)) for group in data.groups}) == 1


def test_a_pair_gets_the_same_prompts_alone_and_among_more_groups():
    groups = ["egypt_male", "usa_male", "mexico_male"]
    every = Task.from_config("nationality", groups=groups, names=FEW)
    for pair in combinations(groups, 2):
        alone = Task.from_config("nationality", groups=[*pair], names=FEW)
        for one, other in zip(every.test, alone.test, strict=True):
            paraphrases = {s.template: s for s in other.samples}
            for sample in one.between(*pair).samples:
                assert sample.variations == paraphrases[sample.template].variations


def test_texts_of_a_file_are_mapped_to_every_group(tmp_path):
    path = tmp_path / "pairs.jsonl"
    path.write_text('{"input": "Christians go to a church.", "outputs": [" yes", " no"]}\n')
    data = {"test": [{"source": "jsonl", "path": str(path)}]}
    task = Task.from_config("religion", data, groups=["christian", "jewish", "hindu"])
    [sample] = task.test[0].samples
    places = {"Christians": "church", "Jews": "synagogue", "Hindus": "mandir"}
    texts = [f"{people} go to a {place}." for people, place in places.items()]
    assert [v.text for v in sample.variations] == texts


def test_keys_of_the_data_config_override_those_of_the_axis():
    test = [{"source": "testbed", "family": "traits"}]
    given = read_config("data", "of_axis") | {"test": test}
    content, of_axis = data_of(read_config("axis", "gender"), given, "testbed")
    assert content["test"] == test
    assert content["fit"] == read_config("data", "contexts")["fit"]
    assert "fit" in of_axis
    assert "test" not in of_axis
    assert Task.from_config("gender") == Task.from_config("gender", "contexts")


def test_an_axis_without_data_is_refused():
    axis = {"name": "team", "groups": {"a": {"names": {}}, "b": {"names": {}}}}
    with pytest.raises(UserError, match=r"write data: FILE\.yaml into the axis"):
        Task.from_config(axis)


def test_an_entry_that_does_not_fit_is_refused_unless_if_fits_is_set():
    family = {"source": "testbed", "family": "occupations"}
    paraphrases = {"source": "natural", "family": "stereotypes"}
    data = {"test": [paraphrases, {**family, "if_fits": True}]}
    assert len(Task.from_config("religion", data).test) == 1
    with pytest.raises(UserError, match="was planted on axis 'gender'"):
        Task.from_config("religion", {"test": [paraphrases, family]})


def test_sets_that_share_no_template_cannot_be_joined():
    def one(family, pair):
        data = {"test": [{"source": "natural", "family": family}]}
        return Task.from_config("race", data, groups=pair, names=FEW).test[0]

    sets = [one("traits", ["white", "black"]), one("words", ["white", "asian"])]
    assert joined_sets(sets) is None


def named(split, verb, is_default=False):
    sides = (Variation("female", f"She {verb}"), Variation("male", f"He {verb}"))
    sample = Sample(verb, (" well",), sides)
    data = CounterfactualSet("pairs", "gender", ("female", "male"), (sample,))
    return NamedSet(split, data, is_default)


@pytest.mark.parametrize(
    ("sets", "expected"),
    [
        ([named("test", "sang"), named("test", "sang")], ["pairs", "pairs"]),
        ([named("test", "sang"), named("validation", "ran")], ["pairs", "pairs"]),
        ([named("fit", "sang", True), named("test", "ran", True)], ["pairs_fit", "pairs_test"]),
    ],
)
def test_sets_that_rows_would_confuse_get_distinct_names(sets, expected):
    renamed = distinctly_named(sets)
    assert [one.data.name for one in renamed] == expected
    assert [one.data.samples for one in renamed] == [one.data.samples for one in sets]


def templates(name, *texts):
    return {"source": "templates", "name": name, "templates": [*texts], "outputs": [" team"]}


HOBBIES = [{"source": "testbed", "family": "hobbies"}]


def measured(**data):
    return Task.from_config("gender", {"test": HOBBIES, "keep": [], **data})


SANG = templates("other", "{name} sang as")


@pytest.mark.parametrize("fit", [{"fit": [SANG]}, {"keep": [SANG]}])
def test_legitimate_differences_share_nothing_with_fitting_sets(fit):
    other, same = (templates("mine", text) for text in ("{name} sings as", "{name}  sang as"))
    measured(legitimate_differences=[other], **fit).check_leakage()
    with pytest.raises(UserError, match="sang as"):
        measured(legitimate_differences=[same], **fit).check_leakage()


LINE = '{"input": "%s", "outputs": [" home"]}\n'
SOURCE = """
from countergen_edit.data.sources import templates as of_templates

def sung(request, *, templates):
    return of_templates(request, templates=templates, outputs=[" a song"])
"""
PARAPHRASES = {"fit": "{name} sat on", "validation": "{name} stood by", "test": "{name} ran to"}


def unnamed(split):
    outputs = [" a chair", " a door"]
    return {"source": "templates", "templates": [PARAPHRASES[split]], "outputs": outputs}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """`mine/` with an axis, data, prompts, texts and code; the tests stand beside it."""
    place = tmp_path / "mine"
    (place / "deep").mkdir(parents=True)
    (place / "deep/prompts.jsonl").write_text(LINE % "She left the")
    (place / "sung.py").write_text(SOURCE)
    (place / "about_nobody.txt").write_text("\n".join(f"It rained on day {i}." for i in range(20)))
    data = {
        **{split: [unnamed(split)] for split in ("fit", "validation")},
        "test": [
            unnamed("test"),
            {"source": "jsonl", "path": "deep/prompts.jsonl"},
            {"source": "sung.py:sung", "templates": ["{name} sings"], "name": "sung"},
        ],
        "neutral": "about_nobody.txt",
    }
    (place / "asked.yaml").write_text(yaml.safe_dump(data))
    gender = config_of("axis", "gender") | {"name": "mine", "data": "asked.yaml"}
    (place / "axis.yaml").write_text(yaml.safe_dump(gender))
    monkeypatch.chdir(tmp_path)
    return place


def sets(task):
    return {s: [data.name for data in task.sets(s)] for s in ("fit", "validation", "test")}


@pytest.mark.parametrize("where", [".", "mine", "mine/deep", "/"])
def test_paths_in_a_file_are_relative_to_it(where, folder, monkeypatch):
    start = (folder.parent / where).resolve()
    monkeypatch.chdir(start)
    axis = Path("/".join([".."] * (len(start.parts) - 1) or ["."])) / str(folder)[1:] / "axis.yaml"
    for path in (axis, folder / "axis.yaml"):
        task = Task.from_config(str(path), names={"fit": 2, "validation": 2, "test": 2})
        assert sets(task)["test"] == ["asked_test", "prompts", "sung"]
        assert sum(map(len, task.neutral.values())) == 20


def test_sets_that_nobody_named_are_called_after_their_file_and_told_apart(folder):
    task = Task.from_config("gender", "mine/asked.yaml", names=None)
    fitting = {split: [f"asked_{split}"] for split in ("fit", "validation")}
    assert sets(task) == fitting | {"test": ["asked_test", "prompts", "sung"]}
    content = config_of("data", "mine/asked.yaml")
    content["keep"] = [{**unnamed("fit"), "templates": ["{name} keeps"]}]
    content["legitimate_differences"] = [{**unnamed("fit"), "templates": ["{name} knows"]}]
    task = Task.from_config("gender", content)
    assert [data.name for data in task.keep] == ["asked_keep"]
    [legitimate] = task.legitimate_differences["test"]
    assert legitimate.name == "asked_legitimate_differences"
    alone = Task.from_config("gender", {"name": "mine", "test": [unnamed("test")]})
    assert sets(alone)["test"] == ["mine"]
