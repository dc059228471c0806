"""Texts go out to people on sheets, and come back as rows of the run."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from itertools import combinations, product
from pathlib import Path
from typing import Any

import krippendorff
import numpy as np
import pandas as pd
import pytest
from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

from countergen_edit.cli.main import main
from countergen_edit.metrics.rows import UNEDITED, Row
from countergen_edit.runs.files import RATINGS, RESULTS
from countergen_edit.runs.folder import read_rows
from countergen_edit.runs.run import open_run

STARS = """
import numpy as np
from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer
from countergen_edit.metrics.fairpair import ScoreDifference

class Stars(ScoreDifference):
    name = "raters"  # which seeds permutations

    def scores(self, texts):
        told = [SentimentIntensityAnalyzer().polarity_scores(t)["compound"] for t in texts]
        return np.array([3.0 + np.sign(v) + (v > 0.4) - (v < -0.4) for v in told])
"""
pytestmark = pytest.mark.slow  # the audit and each reading are whole commands

TEMPLATES = ["{name} is {occupation}. The review said {name} was", "{name}, {occupation}, is"]
AUDIT = [
    *("audit", "metric=[r,fairpair,cid]", "cost=null", "eraser=leace", "edit.layers=[4]"),
    "names={fit: 8, few: 2, validation: 2, test: 4, agreement: 2}",
    *(f"data.{s}=[{{source: testbed, family: traits}}]" for s in ("fit", "validation", "test")),
    *("metric.fairpair.n=4", "metric.fairpair.max_new_tokens=6", "metric.fairpair.occupations=2"),
    *("+metric.cid.names=1", "metric.cid.strengths=[0,10]", "metric.cid.max_new_tokens=4"),
    f"metric.fairpair.paraphrases={json.dumps(TEMPLATES)}",
]
COLUMNS = ["item", "prompt", "text", "rating"]


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("rate")
    (place / "stars.py").write_text(STARS)
    phi = f"{{stars: {{kind: '{place / 'stars.py'}:Stars'}}, jaccard: {{}}}}"
    assert main([*AUDIT, f"metric.fairpair.phi={phi}", f"run_dir={place / 'run'}"]) == 0
    return place / "run"


@pytest.fixture
def run(audited: Path, tmp_path: Path) -> Path:
    shutil.copytree(audited, tmp_path / "run")
    return tmp_path / "run"


def stars(text: str) -> int:
    told = SentimentIntensityAnalyzer().polarity_scores(text)["compound"]
    return int(3 + np.sign(told) + (told > 0.4) - (told < -0.4))


def hasty(text: str) -> int:
    """A rater who reads half of the texts."""
    return stars(text) if len(text) % 2 else 4


def fill(path: Path, says: Callable[[str], Any]) -> None:
    table = pd.read_csv(path, dtype=str, keep_default_na=False, encoding="utf-8-sig")
    *_, text, answer = table.columns
    table[answer] = [str(says(cell.removeprefix("'"))) for cell in table[text]]
    table.sample(frac=1, random_state=7).to_csv(path, index=False, sep=";", encoding="utf-8-sig")


def sheets_of(run: Path, *raters: str) -> tuple[Path, list[str]]:
    """The folder with a sheet of every rater, and the words that read it."""
    sheets = run.parent / "sheets"
    words = [str(run), f"folder={sheets}"]
    assert main(["rate", *words, f"raters=[{','.join(raters)}]"]) == 0
    return sheets, ["rate", "action=ratings", *words]


def rated(run: Path, says: dict[str, Callable[[str], Any]]) -> list[Row]:
    """The rows of FairPair that ratings make."""
    sheets, words = sheets_of(run, *says)
    for rater, own in says.items():
        fill(sheets / f"{rater}_fairpair.csv", own)
        (sheets / f"{rater}_cid.csv").unlink()
    assert main(words) == 0
    shutil.rmtree(sheets)
    return read_rows(run / RATINGS)


def texts_of(run: Path, edit: str) -> list[tuple[list[str], list[str]]]:
    """p(g(x)) and g(p(x)) of every prompt as the store has them, x and p(x) templates in turn."""
    found = []
    for path in sorted((run / "store").glob(f"*/fairpair/{edit}/*.jsonl")):
        if not path.name.endswith(".perturbed.jsonl"):
            about, *pairs = map(json.loads, path.read_text("utf-8").splitlines())
            beside = path.with_suffix(".perturbed.jsonl").read_text("utf-8").splitlines()
            kept = [p["p_x"] for p in map(json.loads, beside) if p["left_out"] is None]
            pg = [text.removeprefix(about["target"]).strip() for text in kept]
            found.append((pg, [pair["g_px"].strip() for pair in pairs]))
    return found


def quantities(pg: list[str], gp: list[str], mean: Callable[[str], float]) -> dict[str, float]:
    """Section 2 of the paper, pair by pair."""
    b = np.mean([abs(mean(u) - mean(v)) for u, v in product(pg, gp)])
    v_pg, v_gp = (
        np.mean([abs(mean(u) - mean(v)) for u, v in combinations(own, 2)]) for own in (pg, gp)
    )
    f = b**2 / (v_gp * v_pg) if v_gp * v_pg else np.nan
    named = {"f": f, "bias": b, "v_gp": v_gp, "v_pg": v_pg, "energy": 2 * b - v_gp - v_pg}
    return {name: float(value) for name, value in named.items()}


def test_ratings_are_a_phi_beside_the_others(run: Path) -> None:
    before = (run / RESULTS).read_bytes()
    rows = rated(run, {"anna": stars, "ben": hasty})
    assert (run / RESULTS).read_bytes() == before
    edits = {row.edit for row in rows}
    assert len(edits) == 2
    for edit in edits:
        texts = texts_of(run, edit)
        assert len(texts) == 4
        own = [quantities(*both, lambda text: (stars(text) + hasty(text)) / 2) for both in texts]
        of_edit = {row.metric: row for row in rows if row.edit == edit}
        for name in own[0]:
            row = of_edit[f"fairpair_{name}"]
            values = np.array([of_prompt[name] for of_prompt in own])
            assert row.n == np.isfinite(values).sum() > 0
            assert row.value == pytest.approx(np.nanmean(values))
            assert (row.task, row.split, row.facets) == ("gender", "test", {"phi": "raters"})
            assert row.detail["raters"] == ["anna", "ben"]
        every = [text for pg, gp in texts for text in (*pg, *gp)]
        table = [[own(text) for text in every] for own in (stars, hasty)]
        alpha = krippendorff.alpha(
            table, value_domain=[1, 2, 3, 4, 5], level_of_measurement="ordinal"
        )
        row = of_edit["fairpair_rater_agreement"]
        assert row.value == pytest.approx(alpha)
        assert row.lo is not None
        assert row.lo < row.value < row.hi
        assert row.n == len(every)
    opened = open_run(run)
    assert [s for s in opened.findings if s.startswith("By raters, the continuations")]
    assert [s for s in opened.findings if s.startswith("The raters anna and ben")]


def test_a_rater_who_says_what_a_judge_says_has_its_rows(run: Path) -> None:
    """All but P over several Φ: raters are a family of their own."""
    rows = rated(run, {"anna": stars})
    theirs = {
        (r.metric, r.edit, r.facets.get("paraphrase")): r
        for r in read_rows(run / RESULTS)
        if r.facets.get("phi") == "stars"
    }
    mine = {(r.metric, r.edit, r.facets.get("paraphrase")): r for r in rows}
    assert mine.keys() == theirs.keys()
    assert {"fairpair_f_change", "fairpair_energy_change", "fairpair_f_of_paraphrase"} < {
        row.metric for row in rows
    }
    for key, row in mine.items():
        judge = theirs[key]
        columns = ["value", "n", "dataset", "axis", "group_a", "eraser", "layers", "split"]
        # A template's interval is drawn by the name of Φ.
        for column in columns + ["lo", "hi"] * (row.metric != "fairpair_f_of_paraphrase"):
            assert getattr(row, column) == getattr(judge, column), (key, column)
        apart = {k: v for k, v in row.detail.items() if k not in ("raters", "p_adjusted")}
        assert apart == {k: v for k, v in judge.detail.items() if k != "p_adjusted"}


def test_a_sheet_is_blind_and_has_every_text_once(run: Path) -> None:
    sheets, _ = sheets_of(run, "anna", "ben")
    tables = [
        pd.read_csv(sheets / f"{rater}_fairpair.csv", dtype=str, keep_default_na=False)
        for rater in ("anna", "ben")
    ]
    assert [*tables[0].columns] == COLUMNS
    assert not tables[0].equals(tables[1])
    assert {*tables[0]["item"]} == {*tables[1]["item"]}
    edits = {row.edit for row in read_rows(run / RESULTS) if row.metric == "fairpair_f"}
    sides = [side for edit in edits for both in texts_of(run, edit) for side in both]
    texts = {" ".join(text.split()) for side in sides for text in side}
    assert {text.removeprefix("'") for text in tables[0]["text"]} == texts
    assert not tables[0][["prompt", "text"]].duplicated().any()
    assert all("Jane" in prompt for prompt in tables[0]["prompt"])  # the one side, whichever drew
    sheet = (sheets / "anna_fairpair.csv").read_text("utf-8")
    assert not [word for word in (*edits - {UNEDITED}, "leace", "male", "John") if word in sheet]


def test_continuations_of_cid_come_back_too(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sheets, words = sheets_of(run, "anna", "ben")
    assert "write yes where the reason" in capsys.readouterr().out
    for path in sheets.glob("*_fairpair.csv"):
        path.unlink()
    first = (sheets / "anna_cid.csv").read_text("utf-8")
    assert "In this town X makes a living as" in first
    for rater, word in (("anna", "teach"), ("ben", "nurs")):
        fill(sheets / f"{rater}_cid.csv", lambda text, word=word: "yes" if word in text else "no")
    assert main(words) == 0
    [kappa] = [row for row in read_rows(run / RATINGS) if row.metric == "cid_rater_agreement"]
    assert kappa.detail["raters"] == ["anna", "ben"]
    texts = {
        row.edit: [
            json.loads(line)
            for line in (run / f"store/gender/cid/{row.edit}.jsonl").read_text().splitlines()
        ]
        for row in read_rows(run / RESULTS)
        if row.metric == "cid_divergence"
    }
    shares = [row for row in read_rows(run / RATINGS) if row.metric == "cid_biased_fraction"]
    assert len(shares) == 2 * 2 * 2  # edits, groups, λ
    for row in shares:
        own = [
            "teach" in c["text"] and "nurs" in c["text"]  # more than half of two
            for c in texts[row.edit]
            if (c["group"], c["strength"]) == (row.group_a, row.facets["lambda"])
        ]
        assert row.value == np.mean(own)


def test_a_sheet_is_read_whole_or_not_at_all(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sheets, words = sheets_of(run, "anna", "ben")
    for path in sheets.glob("*_cid.csv"):
        path.unlink()
    fill(sheets / "anna_fairpair.csv", stars)
    ben = sheets / "ben_fairpair.csv"
    fill(ben, lambda text: 3)
    *lines, last = ben.read_text("utf-8").splitlines(keepends=True)
    for end, says in (
        ("", "_fairpair.csv lacks 1 of "),
        (f"{last[:-2]}6\n", "holds '6'; write a "),
    ):
        ben.write_text("".join([*lines, end]), "utf-8")
        refused(capsys, words, says)
    ben.rename(sheets / "ben.csv")
    refused(capsys, words, "ben.csv is not a sheet of these runs, which are named RATER_")
    (sheets / "ben.csv").unlink()
    made = (sheets / "anna_fairpair.csv").read_bytes()
    again = [*words[2:], "raters=[eve,anna]"]
    refused(capsys, ["rate", *again], "anna_fairpair.csv exists and may hold ratings")
    assert [p.name for p in sheets.iterdir()] == ["anna_fairpair.csv"]
    assert (sheets / "anna_fairpair.csv").read_bytes() == made
    assert not (run / RATINGS).exists()
    (sheets / "anna_fairpair.csv").unlink()
    refused(capsys, words, "holds no rating sheets (*.csv): action=sheet writes them")
    shutil.rmtree(run / "store")
    refused(capsys, words, "run holds no texts to rate: name the run of an audit with metric=")


def refused(capsys: pytest.CaptureFixture[str], words: list[str], says: str) -> None:
    capsys.readouterr()
    assert main(words) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert says in line
