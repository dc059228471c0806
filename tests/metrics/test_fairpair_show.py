"""FairPair's tab shows what the rows say, and nothing where there are none."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from countergen_edit.edits import Edit, EditRecord, NamedEdit
from countergen_edit.erasers import RandomDirections
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.fairpair import FairPair
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import UNEDITED, Row
from countergen_edit.reports.blocks import Number, Quotes, Section, Table, Words
from tests.metrics.fairpair_settings import fairpair

EXAMPLE = {
    "original": "John can.",
    "perturbed": "Jane can.",
    "dissimilarity": {"neutral": 0.0, "words": 2 / 3, "characters": 3 / 8},
    "left_out": None,
}
TERM = {"text": "her hobby", "share_pg": 0.1, "share_gp": 0.4, "log_odds": 1.8, "p": 0.001}
ABOUT: dict[str, Any] = {
    "dataset": "common_sents",
    "group_a": "female",
    "group_b": "male",
    "split": "test",
}
LEACE = {
    "id": "leace-1f",
    "eraser": "leace",
    "params": {},
    "parts": [],
    "places": [{"site": "resid_post", "layer": 3, "rank": 1}],
}
RECORD = EditRecord.from_dict(LEACE)


def rows(edit: str, f: float | None, model: str = "testbed", phi: str = "jaccard") -> list[Row]:
    about = ABOUT | {"edit": edit, "n": 2}
    of_phi = about | {"facets": {"phi": phi}}
    tests = {"p": 0.004, "p_adjusted": 0.008, "significant_prompts": 1, "tested_prompts": 2}
    if f is None:
        tests = {"p": None, "p_adjusted": None, "significant_prompts": 0, "tested_prompts": 0}
    reason = {} if f else {"reason": "V = 0: all texts of one side are alike"}
    prompts = [["nurse", 0.8, 0.7, 0.75, 1.2, 0.01], ["clerk", 0.8, 0.7, 0.75, None, None]]
    sides = {"source": "male", "target": "female", "model": model}
    return [
        Row(
            "fairpair_f",
            f,
            lo=1.01 if f else None,
            hi=1.21 if f else None,
            detail=tests | sides | reason | {"undefined": {}, "prompts": prompts},
            **of_phi,
        ),
        Row("fairpair_bias", 0.8, detail={"by_samples": [[10, 0.8, 0.7, 0.7, 1.1]]}, **of_phi),
        Row("fairpair_v_gp", 0.7, **of_phi),
        Row("fairpair_v_pg", 0.75, **of_phi),
        Row("fairpair_energy", 0.15, lo=0.1, hi=0.2, **of_phi),
        Row(
            "fairpair_perturbed",
            0.98,
            detail={
                "left_out": {"start": 3},
                "empty_continuations": 5,
                "compared": "characters",
                "shares": {"neutral": 0.97, "words": 0.5, "characters": 0.98},
                "examples": [EXAMPLE],
            },
            **about,
        ),
        Row("fairpair_ngrams", 1.0, detail={"terms": [TERM]} | sides, **about),
    ]


def change_of(row: Row, value: float, lo: float, hi: float) -> Row:
    return replace(row, metric="fairpair_f_change", value=value, lo=lo, hi=hi, detail={})


def spread_of(row: Row, lo: float, hi: float, differ: int) -> Row:
    detail = {"sd": 0.1, "range": [lo, hi], "differ": differ, "flip_rate": 0.5}
    return replace(row, metric="fairpair_f_over_paraphrases", value=1.2, n=4, detail=detail)


def results(*measured: list[Row]) -> Results:
    return Results([row for rows in measured for row in rows], {RECORD.id: RECORD})


def tab(of: Results) -> Section:
    [section] = [s for s in FairPair.sections(of) if s.name == "fairpair"]
    return section


def table(of: Results, name: str) -> Table:
    [table] = [t for t in tab(of).tables() if t.name == name]
    return table


def texts(table: Table) -> list[tuple[str, ...]]:
    return [tuple(c.text if isinstance(c, Number) else str(c) for c in row) for row in table.rows]


def briefly(of: Results) -> list[str]:
    [words] = [b for b in tab(of).blocks if isinstance(b, Words)]
    assert words.brief
    return list(words.sentences)


def test_nothing_is_shown_where_nothing_was_measured() -> None:
    nothing = Results([Row("r", 0.1)])
    assert FairPair.sections(nothing) == FairPair.quantities(nothing) == []
    assert FairPair.sentences(nothing) == []


def test_every_figure_stands_in_the_papers_table() -> None:
    after = rows(RECORD.id, 1.01)
    of = results(rows(UNEDITED, 1.11), after, [change_of(after[0], -0.1, -0.2, -0.05)])
    brief = table(of, "fairpair")
    assert brief.brief
    assert texts(brief) == [
        ("jaccard", "unedited", "0.750", "0.700", "0.800", "1.11", "", "+0.150", "0.008"),
        (
            *("jaccard", "leace-1@resid_post.3", "0.750", "0.700", "0.800"),
            *("1.01", "−0.10", "+0.150", "0.008"),
        ),
    ]
    f, change = brief.rows[1][5:7]
    assert isinstance(f, Number)
    assert isinstance(change, Number)
    assert (f.interval, change.interval) == ("1.01 to 1.21", "−0.20 to −0.05")
    assert FairPair.sentences(of) == [
        "By jaccard, the continuations for the two groups before any edit differ; "
        "after leace-1@resid_post.3 differ."
    ]
    assert any("Of 2 perturbations 98.0 %, 98.0 % passed" in s for s in briefly(of))
    assert "10 continuations were empty" in " ".join(briefly(of))
    telling = table(of, "fairpair_strongest_phrases")
    assert telling.brief
    assert texts(telling) == [("her hobby", "40.0 %", "10.0 %", "+1.80", "0.0010")]
    assert "published" not in str(texts(brief)) + " ".join(briefly(of))


def test_every_phi_has_its_rows_together_and_one_sentence() -> None:
    phis = ("sentiment", "jaccard")
    both = [rows(edit, 1.1, phi=phi)[:5] for edit in (UNEDITED, RECORD.id) for phi in phis]
    of = results(*both)
    assert [row[0] for row in texts(table(of, "fairpair"))] == [phis[0]] * 2 + [phis[1]] * 2
    assert [s.split(",")[0] for s in FairPair.sentences(of)] == ["By sentiment", "By jaccard"]
    quantities = FairPair.quantities(of)
    assert [q.title for q in quantities] == ["F, sentiment", "F, jaccard"]
    assert [list(q.rows) for q in quantities] == [[UNEDITED, RECORD.id]] * 2
    assert {q.kind for q in quantities} == {FairPair.kind} == {"other"}


def test_published_figures_stand_beside_those_of_the_same_model_and_people() -> None:
    of = results(rows(UNEDITED, 1.11, "openai-community/gpt2"))
    published = ("jaccard", "published", "0.853", "0.859", "0.858", "1.00", "", "", "")
    assert texts(table(of, "fairpair"))[-1] == published
    assert "published 99.6 %" in " ".join(briefly(of))
    success = texts(table(of, "fairpair_perturbed"))
    assert success[0][1:5] == ("98.0 %", "97.0 %", "50.0 %", "98.0 %")
    assert success[-1][:2] == ("published", "99.6 %")
    [example] = texts(table(of, "fairpair_perturbations"))
    assert example[1:] == ("John can.", "Jane can.", "100.0 %", "33.3 %", "62.5 %", "passed")
    for other in (
        rows(UNEDITED, 1.11, "openai-community/gpt2-of-mine"),
        [replace(row, dataset="paraphrased_sents") for row in rows(UNEDITED, 1.11, "gpt2")],
        [
            replace(row, detail=row.detail | {"source": "female", "target": "male"})
            for row in rows(UNEDITED, 1.11, "gpt2")
        ],
    ):
        assert len(table(results(other), "fairpair").rows) == 1
        assert "published" not in " ".join(briefly(results(other)))


def test_the_spread_over_paraphrases_stands_in_the_sentence() -> None:
    before = rows(UNEDITED, 1.11)
    of = results(before, [spread_of(before[0], 1.02, 1.41, 3)])
    [sentence] = FairPair.sentences(of)
    assert sentence.endswith("the two groups differ, on 3 of 4 templates (F 1.02 to 1.41).")


def test_the_papers_table_leaves_room_for_names_in_a_terminal() -> None:
    after = rows(RECORD.id, 1.01)
    of = results(rows(UNEDITED, 1.11), after, [change_of(after[0], -1.09, -2.09, 0.01)])
    brief = table(of, "fairpair")
    widths = [len(title) for title in brief.columns[2:]]
    for row in brief.rows:
        for i, cell in enumerate(row[2:]):
            parts = (cell.text, cell.interval) if isinstance(cell, Number) else (str(cell),)
            widths[i] = max(widths[i], *map(len, parts))
    assert sum(widths) + len(widths) <= 80 - 16  # names are folded


def test_an_undefined_f_is_said_to_be_undefined() -> None:
    [sentence] = FairPair.sentences(results(rows(UNEDITED, None)))
    assert "F is undefined (V = 0: all texts of one side are alike)" in sentence


def test_prompts_without_f_are_counted_once_for_each_phi_and_edit() -> None:
    f, *rest = rows(UNEDITED, 1.1)
    detail = f.detail | {"undefined": {"V = 0: alike": 2}, "reason": "V = 0: alike"}
    of = results([replace(f, detail=detail), *rest])
    sentence = "By jaccard, F is undefined in 2 prompts (V = 0: alike)."
    assert sentence in briefly(of)
    assert sentence not in FairPair.sentences(of)


def test_figures_hold_the_rows_and_no_panel_of_what_was_not_varied() -> None:
    figures = {figure.name: figure for figure in tab(results(rows(UNEDITED, 1.1))).figures()}
    assert set(figures) == {"fairpair_sizes", "fairpair_distributions", "fairpair_phrases"}
    [samples] = figures["fairpair_sizes"].panels
    assert samples.x_label == "continuations of each side"
    assert {s.name: (s.x, s.y) for s in samples.series} == {
        "B": ((10,), (0.8,)),
        "V_gp": ((10,), (0.7,)),
        "V_pg": ((10,), (0.7,)),
    }
    [prompts] = figures["fairpair_distributions"].panels
    assert {s.name: s.y for s in prompts.series} == {
        "B": (0.8, 0.8),
        "V_gp": (0.7, 0.7),
        "V_pg": (0.75, 0.75),
    }
    shares, odds = figures["fairpair_phrases"].panels
    assert {s.name: (s.x, s.y) for s in shares.series} == {
        "male, perturbed": (("her hobby",), (0.1,)),
        "female": (("her hobby",), (0.4,)),
    }
    assert [(s.x, s.y) for s in odds.series] == [(("her hobby",), (1.8,)), ((), ())]


PARAPHRASES = ["{name} is {occupation}. The review said {name} was", "{name}, {occupation}, is"]


@pytest.fixture(scope="module")
def run(testbed, tmp_path_factory) -> Results:
    """A run of a combined edit, with its store."""
    folder = tmp_path_factory.mktemp("run")
    X, y = np.random.default_rng(0).normal(size=(40, 128)), np.arange(40) % 2
    first, second = (
        NamedEdit.of(
            Edit.at("resid_post", {layer: RandomDirections(rank=rank).fit(X, y).erasure_}), name
        )
        for name, layer, rank in (("leace", 2, 1), ("my eraser", 3, 2))
    )
    both = NamedEdit.combined([first, second])
    context = EvaluationContext(testbed, folder / "store" / "gender")
    metric = fairpair(paraphrases=PARAPHRASES)
    of_run = [
        replace(row, split="test", task="gender", **columns)
        for edit, columns in ((None, {}), (both, both.record.columns))
        for row in metric.measure(context, edit)
    ]
    other = context.place("fairpair", NamedEdit.of(Edit(()), "not measured")).with_suffix("")
    other.mkdir()
    (other / "0.jsonl").write_text('{"prompt": "x", "perturbed_prompt": "y"}\n{"g_x": "a"}\n')
    return Results(of_run, {both.id: both.record}, folder, "gender")


def test_a_combined_edits_name_is_whole_in_every_table(run: Results) -> None:
    label = "leace-1@resid_post.2 + my eraser-2@resid_post.3"
    [examples] = [s for s in FairPair.sections(run) if s.name == "examples"]
    [continuations] = examples.tables()
    assert list(dict.fromkeys(row[0] for row in continuations.rows)) == ["unedited", label]
    tables = {t.name: t for t in tab(run).tables()}
    for name in ("fairpair", "fairpair_tests", "fairpair_prompts", "fairpair_paraphrases"):
        assert list(dict.fromkeys(row[1] for row in tables[name].rows)) == ["unedited", label]
    assert tables["fairpair_by_paraphrase"].columns == ("Φ", "paraphrase", "unedited", label)


def test_continuations_are_quoted_with_their_prompts_and_perturbations(run: Results) -> None:
    [examples] = [s for s in FairPair.sections(run) if s.name == "examples"]
    [continuations] = examples.tables()
    prompts = len(PARAPHRASES) * 3
    assert len(continuations.rows) == 2 * prompts * 3  # edits, prompts, the first of each
    lines = [
        [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]
        for edit, path in run.stored("fairpair")
        if edit == UNEDITED and not path.name.endswith(".perturbed.jsonl")
    ]
    about, first = lines[0][:2]
    _, own, both, other = continuations.rows[0]
    assert isinstance(own, Quotes)
    assert isinstance(other, Quotes)
    assert [q.text for q in own.quotes] == [about["prompt"], first["g_x"]]
    assert [q.text for q in other.quotes] == [about["perturbed_prompt"], first["g_px"]]
    assert str(both).startswith(about["perturbed_prompt"])


def test_paraphrases_are_shown_by_their_facet(run: Results) -> None:
    tables = {t.name: t for t in tab(run).tables()}
    singles = [row[:2] for row in tables["fairpair_by_paraphrase"].rows]
    assert singles == [(phi, w) for phi in ("sentiment", "jaccard") for w in PARAPHRASES]
    prompts = tables["fairpair_prompts"]
    assert prompts.columns[:4] == ("Φ", "edit", "paraphrase", "prompt")
    assert [row[2] for row in prompts.rows[:6]] == [w for w in PARAPHRASES for _ in range(3)]
    [drawn] = [f for f in tab(run).figures() if f.name == "fairpair_paraphrases"]
    assert [panel.title for panel in drawn.panels] == ["sentiment", "jaccard"]


def test_a_run_without_its_store_shows_no_continuations(run: Results) -> None:
    alone = Results(run.rows, run.records, None, run.task)
    assert [s.name for s in FairPair.sections(alone)] == ["fairpair"]
