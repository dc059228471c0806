"""The view of FairPair shows the rows of a run."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from countergen_edit.edits import Edit, EditRecord, NamedEdit
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.fairpair import FairPair
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import UNEDITED, Row
from countergen_edit.reports.blocks import Number, Quotes, Section, Table, Words
from countergen_edit.reports.views.fairpair import FairPairView
from tests.metrics.fairpair_settings import fairpair

VIEW = FairPairView(FairPair, "fairpair")
EXAMPLE = {
    "original": "John can.",
    "perturbed": "Jane can.",
    "dissimilarity": {"neutral": 0.0, "words": 2 / 3, "characters": 3 / 8},
    "left_out": None,
}
TERM = {"text": "her hobby", "share_pg": 0.1, "share_gp": 0.4, "log_odds": 1.8, "p": 0.001}
LEACE = {
    "id": "leace-1f",
    "eraser": "leace",
    "params": {},
    "parts": [],
    "places": [{"site": "resid_post", "layer": 3, "rank": 1}],
}
RECORD = EditRecord.from_dict(LEACE)


def rows(edit: str, f: float | None, model: str = "testbed", phi: str = "jaccard") -> list[Row]:
    about: dict[str, Any] = {
        "dataset": "common_sents",
        "group_a": "female",
        "group_b": "male",
        "split": "test",
        "edit": edit,
        "n": 2,
    }
    of_phi = about | {"facets": {"phi": phi}}
    reason = {} if f else {"reason": "V = 0: all texts of one side are alike"}
    prompts = [["nurse", 0.8, 0.7, 0.75, 1.2, 0.01], ["clerk", 0.8, 0.7, 0.75, None, None]]
    sides = {"source": "male", "target": "female", "model": model}
    tests = {"p_adjusted": 0.008 if f else None, "undefined": {}, "prompts": prompts}
    lo, hi = (1.01, 1.21) if f else (None, None)
    passed = {
        "left_out": {"start": 3},
        "empty_continuations": 5,
        "compared": "characters",
        "shares": {"neutral": 0.97, "words": 0.5, "characters": 0.98},
        "examples": [EXAMPLE],
    }
    lengths = about | {"metric": "fairpair_length_difference"}
    return [
        Row("fairpair_f", f, lo=lo, hi=hi, detail=tests | sides | reason, **of_phi),
        Row("fairpair_bias", 0.8, **of_phi),
        Row("fairpair_v_gp", 0.7, **of_phi),
        Row("fairpair_v_pg", 0.75, **of_phi),
        Row("fairpair_energy", 0.15, lo=0.1, hi=0.2, **of_phi),
        Row("fairpair_perturbed", 0.98, detail=passed, **about),
        Row("fairpair_ngrams", 1.0, detail={"terms": [TERM]} | sides, **about),
        *(Row("fairpair_length", 9.0, facets={"side": s}, **about) for s in ("p(g(x))", "g(p(x))")),
        Row(value=1.0, facets={"test": "prompts"}, detail={"p": 0.001}, **lengths),
        Row(value=0.5, facets={"test": "continuations"}, detail={"p": 0.7}, **lengths),
    ]


def change_of(row: Row, value: float, lo: float, hi: float) -> Row:
    return replace(row, metric="fairpair_f_change", value=value, lo=lo, hi=hi, detail={})


def results(*measured: list[Row]) -> Results:
    return Results([row for rows in measured for row in rows], {RECORD.id: RECORD})


def tab(of: Results) -> Section:
    [section] = [s for s in VIEW.sections(of) if s.name == "fairpair"]
    return section


def texts(of: Results, name: str) -> list[tuple[str, ...]]:
    [table] = [t for t in tab(of).tables() if t.name == name]
    return [tuple(c.text if isinstance(c, Number) else str(c) for c in row) for row in table.rows]


def briefly(of: Results) -> list[str]:
    [words] = [b for b in tab(of).blocks if isinstance(b, Words)]
    return list(words.sentences)


def test_without_rows_nothing_is_shown() -> None:
    nothing = Results([Row("r", 0.1)])
    assert VIEW.sections(nothing) == VIEW.quantities(nothing) == VIEW.sentences(nothing) == []


def test_table_3_has_every_row() -> None:
    after = rows(RECORD.id, 1.01)
    of = results(rows(UNEDITED, 1.11), after, [change_of(after[0], -0.1, -0.2, -0.05)])
    label = "leace-1@resid_post.3"
    ends = ("0.750", "0.700", "0.800")
    assert texts(of, "fairpair") == [
        ("jaccard", "unedited", *ends, "1.11", "", "+0.150", "0.008"),
        ("jaccard", label, *ends, "1.01", "−0.10", "+0.150", "0.008"),
    ]
    assert VIEW.sentences(of) == [
        "By jaccard, the continuations for the two groups before any edit differ; "
        f"after {label} differ."
    ]
    assert VIEW.remaining(of, RECORD) == ["texts differ by jaccard"]
    assert "Of 2 perturbations 98.0 %, 98.0 % passed" in " ".join(briefly(of))
    assert "10 continuations were empty" in " ".join(briefly(of))
    assert texts(of, "fairpair_lengths")[0] == (
        *("unedited", "9.0", "9.0", "+1.00", "0.0010", "+0.50", "0.7000"),
    )


def test_published_values_are_shown_for_the_same_model_and_groups_alone() -> None:
    of = results(rows(UNEDITED, 1.11, "openai-community/gpt2"))
    published = ("jaccard", "published", "0.853", "0.859", "0.858", "1.00", "", "", "")
    assert texts(of, "fairpair")[-1] == published
    success = texts(of, "fairpair_perturbed")
    assert success[0][1:5] == ("98.0 %", "97.0 %", "50.0 %", "98.0 %")
    assert success[-1][:2] == ("published", "99.6 %")
    [example] = texts(of, "fairpair_perturbations")
    assert example[1:] == ("John can.", "Jane can.", "100.0 %", "33.3 %", "62.5 %", "passed")
    gpt2 = rows(UNEDITED, 1.11, "gpt2")
    for other in (
        rows(UNEDITED, 1.11, "openai-community/gpt2-of-mine"),
        [replace(row, dataset="reworded_sents") for row in gpt2],
        [replace(row, detail=row.detail | {"source": "female", "target": "male"}) for row in gpt2],
    ):
        assert len(texts(results(other), "fairpair")) == 1


def test_the_spread_over_templates_is_in_the_sentence() -> None:
    before = rows(UNEDITED, 1.11)
    detail = {"sd": 0.1, "range": [1.02, 1.41], "differ": 3, "flip_rate": 0.5}
    spread = replace(before[0], metric="fairpair_f_over_paraphrases", value=1.2, n=4, detail=detail)
    of = results(before, [spread])
    [sentence] = VIEW.sentences(of)
    assert sentence.endswith("the two groups differ, on 3 of 4 templates (F 1.02 to 1.41).")
    [line] = texts(of, "fairpair_paraphrases")
    assert line[2:] == ("1.200", "0.100", "1.020", "1.410", "3 of 4", "50 %")


def test_an_undefined_f_is_reported() -> None:
    [sentence] = VIEW.sentences(results(rows(UNEDITED, None)))
    assert "F is undefined (V = 0: all texts of one side are alike)" in sentence
    f, *rest = rows(UNEDITED, 1.1)
    detail = f.detail | {"undefined": {"V = 0: alike": 2}, "reason": "V = 0: alike"}
    of = results([replace(f, detail=detail), *rest])
    assert "By jaccard, F is undefined in 2 prompts (V = 0: alike)." in briefly(of)


def test_figures_have_the_rows() -> None:
    figures = {figure.name: figure for figure in tab(results(rows(UNEDITED, 1.1))).figures()}
    assert set(figures) == {"fairpair_distributions", "fairpair_phrases"}
    [prompts] = figures["fairpair_distributions"].panels
    assert {s.name: s.y for s in prompts.series} == {
        "B": (0.8, 0.8),
        "V_gp": (0.7, 0.7),
        "V_pg": (0.75, 0.75),
    }
    [shares] = figures["fairpair_phrases"].panels
    assert {s.name: (s.x, s.y) for s in shares.series} == {
        "male, perturbed": (("her hobby",), (0.1,)),
        "female": (("her hobby",), (0.4,)),
    }


@pytest.fixture(scope="module")
def run(testbed, tmp_path_factory) -> Results:
    """A run of an edit that changes nothing, with its store."""
    folder = tmp_path_factory.mktemp("run")
    edit = NamedEdit.of(Edit(()), "nothing")
    context = EvaluationContext(testbed, folder / "store" / "gender")
    of_run = [
        replace(row, split="test", task="gender", **columns)
        for e, columns in ((None, {}), (edit, edit.record.columns))
        for row in fairpair().measure(context, e)
    ]
    other = folder / "store" / "gender" / "fairpair" / "not_measured"
    other.mkdir()
    (other / "0.jsonl").write_text('{"prompt": "x", "perturbed_prompt": "y"}\n{"g_x": "a"}\n')
    return Results(of_run, {edit.id: edit.record}, folder, "gender")


def test_continuations_are_quoted_with_their_prompts_and_perturbations(run: Results) -> None:
    [examples] = [s for s in VIEW.sections(run) if s.name == "examples"]
    [continuations] = examples.blocks
    assert isinstance(continuations, Table)
    assert len(continuations.rows) == 2 * 3 * 3  # edits, prompts, the first of each
    path = next(p for edit, p in run.stored("fairpair") if edit == UNEDITED)
    about, first = [json.loads(line) for line in path.read_text("utf-8").split("\n")[:2]]
    _, own, both, other = continuations.rows[0]
    assert isinstance(own, Quotes)
    assert isinstance(other, Quotes)
    assert [q.text for q in own.quotes] == [about["prompt"], first["g_x"]]
    assert [q.text for q in other.quotes] == [about["perturbed_prompt"], first["g_px"]]
    assert str(both).startswith(about["perturbed_prompt"])
    alone = Results(run.rows, run.records, None, run.task)
    assert [s.name for s in VIEW.sections(alone)] == ["fairpair"]
