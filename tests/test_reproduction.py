"""The reproduction guide: every experiment is in it, and every figure of it is a row's."""

import re
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml

import countergen_edit
from countergen_edit.cli.composing import composed
from countergen_edit.cli.overrides import overrides_of
from countergen_edit.core.errors import UserError
from countergen_edit.metrics.rows import Row
from countergen_edit.runs.folder import read_rows
from tests.cli.support import STUDIES
from tests.models.test_gguf import script
from tests.papers.source import PAPERS as TEXTS

pytestmark = pytest.mark.slow  # every test is of whole runs

ROOT = Path(countergen_edit.__file__).parent.parent
entries, runs, page = (script(f"guide.{name}") for name in ("entries", "runs", "page"))
guide = script("reproduction")
PAPERS = entries.read_papers()
ENTRIES = {name: entry for paper in PAPERS for name, entry in paper.entries.items()}
RECORDS = runs.read_records()
NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d+)?")


def test_every_experiment_has_an_entry_of_its_name():
    for path in STUDIES:
        command = f"{path.parent.name} experiment={path.stem}"
        assert ENTRIES[path.stem].command.startswith(command)


@pytest.mark.parametrize("entry", [e for e in ENTRIES.values() if e.command], ids=lambda e: e.name)
def test_every_command_composes_at_the_papers_size_and_short(entry):
    for words in (shlex.split(entry.command), *map(entry.words, entry.short)):
        assert composed(words[0], overrides_of(words[0], words[1:]))


def test_the_curves_of_the_formula_are_the_papers_alpha():
    """At Δ = 0 nothing is scaled, at 1 by exp(λ), at -1 by its inverse; λ = 0 scales nothing."""
    curves = script("guide.scaling")
    for strength in curves.STRENGTHS:
        below, none, above = curves.scaling(strength)[[0, 20, 40]]
        assert (none, above * below) == pytest.approx((1, 1))
        assert np.log(above) == pytest.approx(strength)
    svg = (ROOT / "docs/cid_figure_5.svg").read_text("utf-8")
    assert all(f"λ={strength:g}" in svg for strength in curves.STRENGTHS)


def test_every_record_is_of_its_entrys_command_and_rows():
    for (name, column), record in RECORDS.items():
        assert runs.is_current(record, ENTRIES[name], column), f"{name} on {column}: run it again"


def test_the_page_is_what_the_records_say():
    written = (ROOT / "docs" / "reproduction.md").read_text("utf-8")
    assert written == page.page(PAPERS, RECORDS), "run python scripts/reproduction.py"


def test_every_figure_of_the_page_is_a_rows():
    written = (ROOT / "docs" / "reproduction.md").read_text("utf-8")
    for (name, column), record in RECORDS.items():
        section = written.partition(f'<a id="{name.replace("_", "-")}"></a>')[2].partition("<a id")
        for figure, rows in zip(ENTRIES[name].figures, record.shown, strict=True):
            what = figure.what.replace("|", "\\|")
            line = next(x for x in section[0].splitlines() if f"| {what} |" in x)
            cells = re.split(r"(?<!\\)\|", line)
            shown = [float(x) for x in NUMBER.findall(cells[3 + [*entries.MODELS].index(column)])]
            for row in rows if not figure.field else ():
                if row.value is not None:
                    ours = row.value * figure.times
                    assert any(abs(ours - x) <= 0.0006 + 0.006 * abs(ours) for x in shown)


@pytest.mark.skipif(not TEXTS.is_dir(), reason="the papers' texts are not here")
@pytest.mark.parametrize("paper", PAPERS, ids=lambda p: p.text)
def test_every_published_figure_stands_in_the_papers_text(paper):
    if not (TEXTS / f"{paper.text}.txt").is_file():
        assert not any(f.published for e in paper.entries.values() for f in e.figures)
        return
    known = set(NUMBER.findall((TEXTS / f"{paper.text}.txt").read_text("utf-8").replace("/", " ")))
    for entry in paper.entries.values():
        for figure in entry.figures:
            text = re.sub(r"[A-Za-z][\w-]*", "", figure.published)  # GPT-2 is no figure
            for number in NUMBER.findall(text):
                assert number in known, f"{entry.name}, {figure.what}: {number}"


ENTRY = {
    "item": "Figure 0",
    "shows": "what a test can run",
    "command": "cid action=audit",
    "short": {"testbed": ["names=1", "max_new_tokens=2", "lambda=[0]"]},
    "figures": [{"what": "divergence", "rows": {"metric": "cid_divergence"}, "by": ["lambda"]}],
}


def test_what_is_run_is_recorded_shown_and_not_run_again(tmp_path, monkeypatch):
    monkeypatch.setattr(entries, "ENTRIES", tmp_path)
    entry = entries.entry_of("tiny", ENTRY)
    record = runs.run(entry, "testbed", entries.MODELS, tmp_path / "runs")
    [folder] = (tmp_path / "runs" / "testbed").glob("tiny-*/")
    rows = read_rows(folder / "results.jsonl")
    expected = [replace(row, detail={}) for row in rows if row.metric == "cid_divergence"]
    assert record.shown == [expected]
    assert record.seconds > 0
    assert record.command.startswith("countergen-edit cid action=audit model=testbed names=1")
    runs.write_records({("tiny", "testbed"): record}, tmp_path / "runs.jsonl")
    assert runs.read_records(tmp_path / "runs.jsonl") == {("tiny", "testbed"): record}
    assert runs.is_current(record, entry, "testbed")
    for change in ({"command": "cid action=audit seed=1"}, {"figures": ENTRY["figures"] * 2}):
        assert not runs.is_current(record, entries.entry_of("tiny", ENTRY | change), "testbed")
    before = (folder / "results.jsonl").read_bytes()
    again = runs.run(entry, "testbed", entries.MODELS, tmp_path / "runs")
    assert again.shown == record.shown
    assert again.seconds > record.seconds  # of all processes that worked on the run
    assert (folder / "results.jsonl").read_bytes() == before


MISTAKES = {
    "unknown key": ({"items": "x"}, "unknown key of the entry tiny 'items': did you mean 'item'"),
    "unknown column": ({"short": {"testbd": []}}, "did you mean 'testbed'"),
    "unknown key of a figure": ({"figures": [{"row": {}}]}, "did you mean 'rows'"),
    "nothing shown": ({"figures": []}, "is run but shows nothing"),
    "no command": ({"command": "", "short": {}}, "has no command: say under `apart`"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_wrong_entry_is_refused_in_one_line(mistake):
    change, hint = MISTAKES[mistake]
    with pytest.raises(UserError, match=rf"(?m)\A.*{re.escape(hint)}.*\Z"):
        entries.entry_of("tiny", ENTRY | change)


def test_a_name_twice_an_unknown_word_and_a_command_that_fails_are_refused(tmp_path):
    for name in ("a", "b"):
        content = {"title": name, "entries": {"tiny": ENTRY}}
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(content), "utf-8")
    with pytest.raises(UserError, match="two entries are called 'tiny'"):
        entries.read_papers(tmp_path)
    with pytest.raises(UserError, match="did you mean 'cid_figure_9'"):
        guide.main(["cid_figure_09"])
    failing = entries.entry_of("tiny", ENTRY | {"command": "cid action=adit"})
    with pytest.raises(UserError, match=r"action=adit .*ended with 2"):
        runs.run(failing, "testbed", entries.MODELS, tmp_path)


OF_LAYER = Row("m", 0.25, eraser="inlp", layers=(2,))
BY_LAYER = {"by": ["eraser", "layers"]}
TERMS = [{"text": "a"}, {"text": "b"}]
CURVE = [[10, 0.5], [20, 0.75]]
CELLS = [
    ({}, [Row("m", 0.95, lo=0.85, hi=1.05)], "0.950 [0.850, 1.050]"),
    ({"times": 100}, [Row("m", 0.858)], "85.8"),
    (BY_LAYER, [Row("m", 0.5), OF_LAYER], "unedited: 0.500; inlp layer 2: 0.250"),
    ({"by": ["lambda"]}, [Row("m", None, facets={"lambda": 10})], "10: undefined"),
    ({"field": "counts"}, [Row("m", 0.0, detail={"counts": [3, 0, 2]})], "3 / 0 / 2"),
    ({"field": "f", "at": 1}, [Row("m", 0.0, detail={"f": CURVE})], "10: 0.500; 20: 0.750"),
    ({"field": "f", "at": 1}, [Row("m", 0.0, detail={"f": []})], "none"),
    ({"field": "f", "at": "text"}, [Row("m", 0.0, detail={"f": TERMS})], "a; b"),
]


@pytest.mark.parametrize(("how", "rows", "text"), CELLS)
def test_a_cell_shows_a_row_as_the_entry_says(how, rows, text):
    assert page.cell(entries.Shown("it", {"metric": "m"}, **how), rows) == text
