"""The FairPair section and figures show what the rows say, and nothing where there are none."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from pathlib import Path

from rich.console import Console

from countergen_edit.metrics.rows import Row
from countergen_edit.reports.fairpair_section import fairpair_section
from countergen_edit.reports.results import Results
from countergen_edit.reports.run import Run
from countergen_edit.reports.sections.fairpair import fairpair

TERM = {"text": "her hobby", "share_pg": 0.1, "share_gp": 0.4, "log_odds": 1.8, "p": 0.001}


def rows(edit: str, f: float | None, model: str = "testbed") -> list[Row]:
    about = {"group_a": "female", "group_b": "male", "edit": edit, "split": "test", "n": 2}
    phi = about | {"dataset": "common_sents/jaccard"}
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
            **phi,
        ),
        Row("fairpair_bias", 0.8, detail={"by_samples": [[10, 0.8, 0.7, 0.7, 1.1]]}, **phi),
        Row("fairpair_v_gp", 0.7, **phi),
        Row("fairpair_v_pg", 0.75, **phi),
        Row("fairpair_energy", 0.15, lo=0.1, hi=0.2, **phi),
        Row(
            "fairpair_perturbed",
            0.98,
            dataset="common_sents",
            detail={"left_out": {"start": 3}, "empty_continuations": 5, "examples": []},
            **about,
        ),
        Row(
            "fairpair_ngrams",
            1.0,
            dataset="common_sents",
            detail={"terms": [TERM]} | sides,
            **about,
        ),
    ]


def printed(found: list[Row], width: int = 200) -> str:
    out = StringIO()
    fairpair_section(Results(found), Console(file=out, width=width, highlight=False))
    return out.getvalue()


def test_nothing_is_printed_where_nothing_was_measured() -> None:
    assert printed([Row("r", 0.1)]) == ""


def test_every_figure_stands_in_the_table() -> None:
    change = Row(
        "fairpair_f_change",
        -0.1,
        lo=-0.2,
        hi=-0.05,
        dataset="common_sents/jaccard",
        group_a="female",
        group_b="male",
        edit="leace@3",
        split="test",
    )
    text = printed([*rows("none", 1.11), *rows("leace@3", 1.01), change], width=140)
    for figure in ("0.750", "0.700", "0.800", "1.11", "1.01", "-0.10", "+0.150", "0.008"):
        assert figure in text
    assert "1.01 to 1.21" in text
    assert "By jaccard, the two sides before any edit differ; after leace@3 differ." in text
    assert "Of 2 perturbations 98.0 %, 98.0 % passed" in text
    assert "her hobby" in text
    assert "published" not in text


def test_published_figures_stand_beside_those_of_the_same_model() -> None:
    text = printed(rows("none", 1.11, "openai-community/gpt2"))
    assert "0.853" in text
    assert "published 99.6 %" in text


def test_the_spread_over_wordings_stands_in_the_sentence() -> None:
    spread = Row(
        "fairpair_f_over_wordings",
        1.2,
        dataset="common_sents/jaccard",
        group_a="female",
        group_b="male",
        edit="none",
        split="test",
        n=4,
        detail={"sd": 0.1, "range": [1.02, 1.41], "differ": 3, "flip_rate": 0.5},
    )
    text = printed([*rows("none", 1.11), spread])
    assert "before any edit differ, on 3 of 4 wordings (F 1.02 to 1.41)." in text


def test_the_section_fits_a_terminal() -> None:
    name = "preserving-12@resid_post.2"
    change = replace(rows(name, -0.49)[0], metric="fairpair_f_change", lo=-1.09, hi=0.01)
    text = printed([*rows("none", 1.11), *rows(name, 1.01), change], width=80)
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    for figure in ("-1.09 to +0.01", "1.01 to 1.21", "0.750", "+0.150", "0.008"):
        assert figure in text


def test_an_undefined_f_is_said_to_be_undefined() -> None:
    assert "F is undefined (V = 0: all texts of one side are alike)" in printed(rows("none", None))


def test_figures_hold_the_rows_and_no_panel_of_what_was_not_varied() -> None:
    section = fairpair(Run(Path(), Results(rows("none", 1.1))))
    assert section is not None
    figures = {figure.name: figure for figure in section.figures()}
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
    [phrases] = figures["fairpair_phrases"].panels
    assert [(s.x, s.y) for s in phrases.series] == [(("her hobby",), (1.8,)), ((), ())]
