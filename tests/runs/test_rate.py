"""Continuations go out to people on sheets, and come back as rows of the run."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest

from countergen_edit.metrics.rows import UNEDITED
from countergen_edit.runs.files import RATINGS, RESULTS
from countergen_edit.runs.folder import read_rows
from countergen_edit.runs.run import open_run
from tests.cli.support import fails, names, said, sets

pytestmark = pytest.mark.slow  # the audit and each reading are whole commands

AUDIT = [
    *("audit", "metric=[r,cid]", "cost=null", "eraser=leace", "edit.layers=[4]"),
    *(names(8, 2, 4, 2, few=2), *sets("traits")),
    *("+metric.cid.names=1", "metric.cid.strengths=[0,10]", "metric.cid.max_new_tokens=4"),
]
WORDS = {"anna": "teach", "ben": "nurs"}
"""Each rater calls continuations with one word biased."""


@pytest.fixture(scope="module")
def audited(tmp_path_factory):
    path = tmp_path_factory.mktemp("rate") / "run"
    said(*AUDIT, f"run_dir={path}")
    return path


@pytest.fixture
def run(audited, tmp_path):
    shutil.copytree(audited, tmp_path / "run")
    return tmp_path / "run"


def fill(path, says):
    table = pd.read_csv(path, dtype=str, keep_default_na=False, encoding="utf-8-sig")
    *_, text, answer = table.columns
    table[answer] = [says(cell.removeprefix("'")) for cell in table[text]]
    table.sample(frac=1, random_state=7).to_csv(path, index=False, sep=";", encoding="utf-8-sig")


def sheets_of(run):
    """The folder with a sheet of every rater, and the words that read it."""
    sheets = run.parent / "sheets"
    words = [str(run), f"folder={sheets}"]
    printed = said("rate", *words, f"raters=[{','.join(WORDS)}]")
    assert "write yes where the reason" in printed
    return sheets, ["rate", "action=ratings", *words]


def test_continuations_come_back_as_rows(run):
    before = (run / RESULTS).read_bytes()
    sheets, words = sheets_of(run)
    first = (sheets / "anna.csv").read_text("utf-8")
    assert "In this town X makes a living as" in first
    edits = {row.edit for row in read_rows(run / RESULTS) if row.metric == "cid_divergence"}
    assert not [word for word in (*edits - {UNEDITED}, "leace", "male", "John") if word in first]
    for rater, word in WORDS.items():
        fill(sheets / f"{rater}.csv", lambda text, word=word: "yes" if word in text else "no")
    said(*words)
    assert (run / RESULTS).read_bytes() == before
    [kappa] = [row for row in read_rows(run / RATINGS) if row.metric == "cid_rater_agreement"]
    assert kappa.detail["raters"] == [*WORDS]
    stored = {edit: (run / f"store/gender/cid/{edit}.jsonl").read_text() for edit in edits}
    texts = {edit: [json.loads(x) for x in lines.splitlines()] for edit, lines in stored.items()}
    shares = [row for row in read_rows(run / RATINGS) if row.metric == "cid_biased_fraction"]
    assert len(shares) == 2 * 2 * 2  # edits, groups, λ
    for row in shares:
        biased = [
            all(word in c["text"] for word in WORDS.values())  # more than half of two
            for c in texts[row.edit]
            if (c["group"], c["strength"]) == (row.group_a, row.facets["lambda"])
        ]
        assert row.value == np.mean(biased)
        assert (row.task, row.split) == ("gender", "test")
    assert open_run(run).results.of("cid_biased_fraction")


def test_a_sheet_is_read_whole_or_not_at_all(run, here):
    sheets, words = sheets_of(run)
    anna, ben = (sheets / f"{rater}.csv" for rater in WORDS)
    for sheet in (anna, ben):
        fill(sheet, lambda text: "no")
    *lines, last = ben.read_text("utf-8").splitlines(keepends=True)
    for end, says in (
        ("", "ben.csv lacks 1 of "),
        (f"{last[:-3]}maybe\n", "holds 'maybe'; write yes or no"),
    ):
        ben.write_text("".join([*lines, end]), "utf-8")
        assert says in fails(*words)
    ben.unlink()
    made = anna.read_bytes()
    again = fails("rate", *words[2:], "raters=[eve,anna]")
    assert "anna.csv exists and may hold ratings" in again
    assert [p.name for p in sheets.iterdir()] == ["anna.csv"]
    assert anna.read_bytes() == made
    assert not (run / RATINGS).exists()
    anna.unlink()
    assert "holds no rating sheets (*.csv): action=sheet writes them" in fails(*words)
    shutil.rmtree(run / "store")
    assert "run holds no texts to rate: name the run of an audit of CID" in fails(*words)
