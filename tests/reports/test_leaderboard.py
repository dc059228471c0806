"""The table that papers print holds the rows' figures, says why it has dashes, and compiles."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from countergen_edit.cli.main import main
from countergen_edit.core.errors import UserError
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import Row
from countergen_edit.reports.comparison import comparison
from countergen_edit.reports.leaderboard import Leaderboard, leaderboards, leaderboards_over
from countergen_edit.reports.render.latex import SPECIAL
from countergen_edit.reports.render.leaderboard import MOST, as_latex, as_markdown, panels_of
from countergen_edit.reports.run import Run, open_run
from tests.reports.runs import GROUPS, LABELS, LEACE, MANIFEST, RANDOM, in_memory, make_run

READ = {"StereoSet": "stereoset", "CrowS-Pairs": "crows_pairs", "WinoBias": "winobias"}
FIGURES = {
    ("StereoSet", "SS"): ("stereoset", "ss", "intrasentence", 0.5),
    ("StereoSet", "LMS"): ("stereoset", "lms", "intrasentence", None),
    ("StereoSet", "ICAT"): ("stereoset", "icat", "intrasentence", None),
    ("CrowS-Pairs", "score"): ("crows_pairs", "score", "", 0.5),
}


def source(title: str, name: str, items: int = 60, every: int = 60) -> Row:
    detail: dict[str, Any] = {
        "title": title,
        "all_items": every,
        "clusters": "targets",
        "first_token": True,
    }
    detail |= dict.fromkeys(("asks", "flaws", "licence", "citation", "url"), "said")
    detail["figures"] = {"SS": "stereotypes preferred"}
    facets: dict[str, str | float] = {"benchmark": name}
    return Row("benchmark_source", items, facets=facets, split="test", n=items, detail=detail)


def rows(edits: tuple[dict[str, Any], ...] = ({}, RANDOM, LEACE), **shift: float) -> list[Row]:
    """What an audit records of two benchmarks, agreement and perplexity."""
    found = [source("StereoSet", "stereoset"), source("CrowS-Pairs", "crows_pairs", 60, 262)]
    for k, edit in enumerate(edits):
        for i, (name, figure, part, fair) in enumerate(FIGURES.values()):
            for bias_type in ("gender", "race", "all"):
                facets: dict[str, str | float] = {"benchmark": name, "figure": figure}
                facets |= {"part": part} if part else {}
                facets["bias_type"] = bias_type
                value = 0.5 + i / 100 + k / 10 + (0.001 if bias_type == "all" else 0.0)
                detail = {"title": figure, "fair": fair, "signed": False, "clusters": 12}
                about: dict[str, Any] = {"facets": facets, "split": "test", "n": 30, **edit}
                found.append(
                    Row("benchmark", value, lo=value - 0.1, hi=value + 0.1, detail=detail, **about)
                )
                if edit:
                    p = 0.01 if figure == "ss" and k == 2 else 0.9
                    own = detail | {"smallest": 0.1, "p_adjusted": p}
                    found.append(Row("benchmark_change", k / 10, detail=own, **about))
        about = {"split": "test", **edit}
        of_both = GROUPS | {"dataset": "agreement", "n": 40}
        found.append(Row("agreement", 0.9 - k / 100, lo=0.8, hi=0.95, **of_both, **about))
        found.append(Row("perplexity", 12.345, lo=12.0, hi=13.0, dataset="neutral", n=9, **about))
    return found


def board(*more: Row, of: list[Row] | None = None) -> Leaderboard:
    [made] = leaderboards(in_memory([*(rows() if of is None else of), *more]))
    return made


def test_each_cell_is_the_figure_of_a_row_over_all_bias_types() -> None:
    made, given = board(), rows()
    assert [line.stubs for line in made.lines] == [
        ("unedited",),
        (LABELS["leace"],),
        (LABELS["random"],),
    ]
    for k, edit in enumerate(("none", LEACE["edit"], RANDOM["edit"])):
        for (of, title, unit), cell in zip(made.heads, made.lines[k].cells, strict=True):
            if (of, title) not in FIGURES:
                continue
            name, figure, _, _ = FIGURES[of, title]
            [row] = [
                row
                for row in given
                if (row.metric, row.edit) == ("benchmark", edit)
                and row.facets["benchmark"] == name
                and (row.facets["figure"], row.facets["bias_type"]) == (figure, "all")
            ]
            assert unit == "%"
            wanted = [100 * end for end in (row.value, row.lo, row.hi) if end is not None]
            assert [cell.value, cell.lo, cell.hi] == pytest.approx(wanted)
    costs = {
        title: cell.text
        for (_, title, _), cell in zip(made.heads, made.lines[1].cells, strict=True)
    }
    assert (costs["P(right form)"], costs["perplexity"]) == ("0.880", "12.35")


def test_a_star_is_where_the_adjusted_p_is_small() -> None:
    starred = {
        (line.stubs[0], title)
        for line in board().lines
        for (_, title, _), cell in zip(board().heads, line.cells, strict=True)
        if cell.starred
    }
    assert starred == {(LABELS["leace"], "SS")}
    notes = board().notes
    assert any("P ≤ 0.05" in note for note in notes)
    assert "Not tested for a change: P(right form), perplexity." in notes


def test_the_caption_says_what_was_asked_of_whom() -> None:
    made = board()
    assert made.caption == (
        "testbed, before and after edits: StereoSet (gender, race; intrasentence: 30 items of 12 "
        "targets), CrowS-Pairs (gender, race: 30 items of 12 targets), P(right form), perplexity. "
        "95 % intervals in brackets."
    )
    assert "Items are drawn evenly, by seed 0: CrowS-Pairs 60 of 262." in made.notes
    assert "Texts begin with a beginning-of-text token." in made.notes
    assert "Perplexity is of 9 texts about nobody, which are drawn." in made.notes


def test_every_dash_is_explained() -> None:
    unmeasured = [r for r in rows() if not (r.edit == RANDOM["edit"] and "figure" in r.facets)]
    gone = {"value": None, "lo": None, "hi": None}
    undefined = [
        replace(r, **gone, detail=r.detail | {"reason": "no item by which it is defined"})
        if (r.edit, r.facets.get("figure")) == (LEACE["edit"], "icat")
        else r
        for r in unmeasured
    ]
    made = board(of=undefined)
    dashes = {
        (line.stubs[0], f"{of} {title}")
        for line in made.lines
        for (of, title, _), cell in zip(made.heads, line.cells, strict=True)
        if cell.text == "–"
    }
    assert (LABELS["leace"], "StereoSet ICAT") in dashes
    assert {label for label, name in dashes if name == "BBQ s_AMB"} == {
        "unedited",
        *LABELS.values(),
    }
    assert "WinoBias" not in {of for of, _, _ in made.heads}  # nobody misses it
    for said in (
        "A dash in every line is what was not measured: BBQ (metric=benchmarks "
        "metric.benchmarks.of=bbq).",
        f"A dash of {LABELS['random']} is what was not measured: StereoSet SS, StereoSet LMS, "
        "StereoSet ICAT, CrowS-Pairs score.",
        f"A dash of {LABELS['leace']} is no item by which it is defined: StereoSet ICAT.",
    ):
        assert said in made.notes, made.notes


def test_a_run_that_measured_none_of_it_is_refused() -> None:
    with pytest.raises(UserError, match=r"none of StereoSet, CrowS-Pairs, BBQ, .* metric=bench"):
        leaderboards(in_memory([Row("mean_abs_r", 0.3, split="test", **GROUPS)]))


def test_several_runs_and_several_tasks_have_a_line_and_a_table_each() -> None:
    runs = [
        Run(Path(name), Results(rows(edits=({},))), MANIFEST | {"model": f"/models/{name}"})
        for name in ("one", "two")
    ]
    [made] = leaderboards_over(runs, ["one", "two"])
    assert (made.stubs, [line.stubs for line in made.lines]) == (
        ("run", "edit"),
        [("one", "unedited"), ("two", "unedited")],
    )
    assert made.caption.startswith("one, two, unedited: StereoSet")
    assert comparison(runs).leaderboards == (made,)
    tasks = [replace(row, task=task) for task in ("age", "race") for row in rows()]
    assert [one.name for one in leaderboards(in_memory(tasks))] == [
        "leaderboard_age",
        "leaderboard_race",
    ]
    nothing = [Run(Path(n), Results([Row("r", 0.1, split="test")]), {}) for n in "ab"]
    assert leaderboards_over(nothing, ["a", "b"]) == []


def test_edits_that_have_no_line_are_counted() -> None:
    from tests.reports.runs import columns

    many = ({}, *(columns("leace", layer) for layer in range(2, 11)))
    made = board(of=rows(edits=many))
    assert len(made.lines) == 7
    assert "3 more edits were measured and have no line here." in made.notes


# --- what is written ------------------------------------------------------------------------

ODD = "50 % of a_b & #1 {x} $y$ ~ ^ \\ < ≤ − λ"


def odd() -> Leaderboard:
    made = board()
    return replace(made, caption=ODD, notes=(ODD,), stubs=(ODD,))


def test_latex_is_one_table_whose_lines_have_as_many_cells_as_columns() -> None:
    made = odd()
    text = as_latex(made)
    assert text.count(r"\begin{table}") == text.count(r"\end{table}") == 1
    assert [len(panel) <= MOST for panel in panels_of(made)] == [True, True]
    assert sorted(i for panel in panels_of(made) for i in panel) == [*range(len(made.heads))]
    for alignment, body in re.findall(
        r"\\begin\{tabular\}\{([lc]+)\}\n(.*?)\\end\{tabular\}", text, re.DOTALL
    ):
        lines = [line for line in body.splitlines() if line.endswith(r"\\")]
        measured = "[" in body  # an interval stands in a line of its own
        assert len(lines) == 2 + (2 if measured else 1) * len(made.lines)
        for line in lines:
            spanned = [int(n) - 1 for n in re.findall(r"\\multicolumn\{(\d+)\}", line)]
            cells = len(re.findall(r"(?<!\\)&", line)) + 1
            assert cells + sum(spanned) == len(alignment), line
    plain = re.sub(r"\\[{}]", "", text)
    assert plain.count("{") == plain.count("}")
    assert not {*text} & {c for c in SPECIAL if not c.isascii()}
    assert "[60.0, 80.0]" not in text  # of one bias type alone
    assert "70.1*" in text


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex")
def test_latex_compiles(tmp_path: Path) -> None:
    page = (
        r"\documentclass{article}\usepackage{booktabs,graphicx}\begin{document}"
        rf"{as_latex(odd())}\end{{document}}"
    )
    (tmp_path / "page.tex").write_text(page, "utf-8")
    words = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "page.tex"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout[-800:]
    assert b"Overfull" not in done.stdout


def test_markdown_has_a_cell_for_each_column() -> None:
    text = as_markdown(board(of=rows()))
    table = [line for line in text.splitlines() if line.startswith("|")]
    counts = {len(re.findall(r"(?<!\\)\|", line)) for line in table}
    assert counts == {len(board().heads) + 2}
    assert r"| StereoSet SS (%) |" in table[0]
    assert r"70.1\* (60.1 to 80.1)" in table[-2]


def test_the_command_writes_both_forms_beside_other_tables(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run(tmp_path / "run", rows(), outputs=1)
    assert main(["report", str(run), "card=true"]) == 0
    assert "2 files in" in capsys.readouterr().out
    folder = run / "paper"
    assert sorted(path.name for path in folder.iterdir()) == ["leaderboard.md", "leaderboard.tex"]
    [made] = leaderboards(open_run(run))
    assert (folder / "leaderboard.tex").read_text("utf-8") == as_latex(made)
    assert main(["report", str(run), "card=true", "tables=csv", f"folder={tmp_path}/all"]) == 0
    assert (tmp_path / "all" / "leaderboard.md").is_file()
    assert (tmp_path / "all" / "costs.csv").is_file()


def test_nothing_is_written_where_there_is_nothing_to_show(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [Row("mean_abs_r", 0.3, split="test", **GROUPS)], outputs=1)
    assert main(["report", str(run), "card=true"]) == 2
    assert not (run / "report.html").exists()
    assert not (run / "paper").exists()
