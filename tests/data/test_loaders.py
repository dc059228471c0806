"""Every source gives the same shape, and a mistake in a file is named with its place."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from countergen_edit.core.conf_path import read_config
from countergen_edit.core.errors import UserError
from countergen_edit.data.counterfactual import CounterfactualSet
from countergen_edit.data.sources import fingerprint, load_set
from countergen_edit.data.sources.files import COUNTERGEN_SETS
from tests.gender import GENDER, SWAP


def load(**config: object) -> CounterfactualSet:
    return load_set(config, GENDER, SWAP, "test")


def texts(data: CounterfactualSet, group: str) -> list[str]:
    return [v.text for sample in data.samples for v in sample.of(group)]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_jsonl(*rows: object) -> None:
    Path("pairs.jsonl").write_text("\n".join(json.dumps(row) for row in rows), "utf-8")


def test_a_line_without_variations_is_paired_by_substitution(folder):
    write_jsonl({"input": "Jane lost her job.", "outputs": [" Good.", " Bad."]})
    (sample,) = load(source="jsonl", path="pairs.jsonl").samples
    assert sample.outputs == (" Good.", " Bad.")
    assert [(v.group, v.text, v.name) for v in sample.variations] == [
        ("female", "Jane lost her job.", "Jane"),
        ("male", "John lost his job.", "John"),
    ]
    assert sample.template == "{name} lost her job."


def test_variations_of_a_line_are_not_changed(folder):
    variations = [
        {"text": "A: the nun", "categories": ["female"]},
        {"text": "A: the monk", "categories": ["male", "old"]},
        {"text": "A: the cat", "categories": ["neuter"]},
    ]
    write_jsonl({"input": "A: the nun", "outputs": " x", "variations": variations})
    (sample,) = load(source="jsonl", path="pairs.jsonl").samples
    assert [(v.group, v.text, v.start) for v in sample.variations] == [
        ("female", "A: the nun", 7),
        ("male", "A: the monk", 7),
    ]


GOOD = {"input": "She left", "outputs": [" home"]}
BAD_LINES = [  # more in tests/cli/bad_inputs.yaml
    (GOOD | {"variation": []}, "did you mean 'variations'"),
    (GOOD | {"variations": [{"text": "A", "categories": ["c"]}]}, "variations of ['c'], but ['fem"),
    (GOOD | {"variations": [{"text": "A", "categories": ["female", "male"]}]}, "changes nothing"),
]


@pytest.mark.parametrize(("row", "message"), BAD_LINES)
def test_a_wrong_line_is_named(row, message, folder):
    write_jsonl(GOOD, row)
    with pytest.raises(UserError) as caught:
        load(source="jsonl", path="pairs.jsonl")
    assert str(caught.value).startswith("pairs.jsonl, line 2: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_without_the_papers_package_the_extra_is_named(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install 'countergen-edit\[papers\]'"):
        load(source="countergen", set="female_stereotypes")


@pytest.mark.skipif(find_spec("countergen") is None, reason="the papers extra is not installed")
@pytest.mark.parametrize("name", COUNTERGEN_SETS)
def test_the_papers_sets_are_complete(name):
    data = load(source="countergen", set=name)
    assert (data.name, len(data.samples)) == (name, 30 if name == "male_stereotypes" else 9)
    for female, male in zip(texts(data, "female"), texts(data, "male"), strict=True):
        assert not {"he", "him", "his", "himself", "john"} & set(female.lower().split())
        assert not {"she", "her", "hers", "herself", "jane"} & set(male.lower().split())
        assert len(female.split()) == len(male.split())


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"source": "jsonl"}, "needs 'path'"),
        ({"source": "countergen", "set": "female_stereotype"}, "did you mean 'female_stereotypes'"),
    ],
)
def test_a_wrong_config_gets_the_nearest_right_one(config, message):
    with pytest.raises(UserError, match=message):
        load(**config)


def test_the_fingerprint_depends_on_content_alone():
    config = read_config("dataset", "appendix_a")
    fit, test = (load_set(config, GENDER, SWAP, split) for split in ("fit", "test"))
    again = load_set(dict(reversed(config.items())), GENDER, SWAP, "fit")
    assert fingerprint([fit, test]) == fingerprint([test, again])
    assert len({fingerprint(s) for s in ([fit], [test], [fit, test], [fit, fit])}) == 4
    renamed = load_set(config | {"name": "other"}, GENDER, SWAP, "fit")
    assert fingerprint([renamed]) != fingerprint([fit])
