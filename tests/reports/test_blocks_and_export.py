"""Files for papers hold the rows' figures, digit for digit, and what LaTeX would trip over."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from countergen_edit.errors import UserError
from countergen_edit.metrics.rows import Row
from countergen_edit.reports.blocks import Figure, Number, Table, Words
from countergen_edit.reports.export import as_csv, as_latex, export
from countergen_edit.reports.figures.panels import Panel, Series, colours, markers
from countergen_edit.reports.figures.svg import inline_svg
from countergen_edit.reports.html import render, write_report
from countergen_edit.reports.html.page import in_numbers, legend
from countergen_edit.reports.run import open_run
from countergen_edit.reports.sections import SECTIONS, sections
from countergen_edit.reports.sections.layers import by_layer
from tests.reports.runs import HARM, LEACE, RANDOM, audit_rows, make_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("run") / "audit", outputs=3)


def test_every_digit_is_in_the_csv() -> None:
    table = Table(
        "t", "T", ("set", "R"), (("jobs", Number(1 / 3, 0.1, 0.4)), ("all", Number(None)))
    )
    lines = [*csv.reader(as_csv(table).splitlines())]
    assert lines[0] == ["set", "R", "R from", "R to"]
    assert float(lines[1][1]) == 1 / 3
    assert lines[2] == ["all", "", "", ""]


def test_texts_with_commas_and_quotes_come_back_from_the_csv() -> None:
    text = 'one, "two"\nthree'
    [_, [back]] = [*csv.reader(as_csv(Table("t", "T", ("x",), ((text,),))).splitlines(True))]
    assert back == text


def test_latex_is_not_led_astray() -> None:
    text = as_latex(Table("t", "50 % & more", ("a_b",), ((r"$x^2$ \input{~}#",),)))
    body = text.split("\\midrule\n")[1].splitlines()[0]
    assert body == (r"\$x\textasciicircum{}2\$ \textbackslash{}input\{\textasciitilde{}\}\# \\")
    assert r"\caption{50 \% \& more}" in text


def test_all_figures_and_tables_become_files(run: Path, tmp_path: Path) -> None:
    chosen = [s for s in sections(open_run(run)) if s.name in ("overview", "fairpair")]
    written = export(chosen, tmp_path / "paper", ["svg", "pdf"], ["csv", "latex"])
    assert len(written) == len(set(written)) > 10
    for path in written:
        content = path.read_bytes()
        starts = {".pdf": b"%PDF", ".svg": b"<?xml"}.get(path.suffix, b"")
        assert content.startswith(starts), path
        assert content, path


def test_the_same_rows_give_the_same_files(run: Path, tmp_path: Path) -> None:
    [overview] = [s for s in sections(open_run(run)) if s.name == "overview"]
    first, second = (
        export([overview], tmp_path / name, ["svg", "pdf"], []) for name in ("one", "two")
    )
    assert [p.read_bytes() for p in first] == [p.read_bytes() for p in second]


def test_an_unknown_form_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="svg"):
        export([], tmp_path / "paper", ["svgg"], [])
    assert not (tmp_path / "paper").exists()


def test_a_drawing_keeps_texts_as_texts() -> None:
    series = Series(HARM, (f"{HARM} $x$", "\x00b"), (1.0, 2.0), kind="bars")
    panel = Panel(HARM, HARM, "", (series,), downwards=True)
    svg = inline_svg(panel, "k", colours([panel]), markers([panel]))
    assert "<script" not in svg
    assert "<img" not in svg
    assert 'role="img"' in svg


def test_a_figure_is_there_in_numbers_too(run: Path) -> None:
    figures = [f for s in sections(open_run(run)) for f in s.figures()]
    assert len(figures) > 5
    for figure in figures:
        points = sum(len(s.y) for panel in figure.panels for s in panel.series)
        assert len(in_numbers(figure).rows) == points > 0


def test_a_run_without_its_rows_has_no_section(tmp_path: Path) -> None:
    path = make_run(tmp_path / "bare", [Row("kl", 0.1, dataset="neutral", split="test", **LEACE)])
    for kind in ("fairpair", "cid", "r"):
        for file in (path / "store" / kind).rglob("*.jsonl"):
            file.unlink()
    assert [s.name for s in sections(open_run(path))] == ["run"]


def test_every_section_has_a_name_of_its_own(run: Path) -> None:
    found = sections(open_run(run))
    assert len({s.name for s in found}) == len(found) == len(SECTIONS)
    names = [t.name for s in found for t in s.tables()]
    assert len(set(names)) == len(names)


def test_the_page_is_small_and_asks_for_nothing(run: Path) -> None:
    path = write_report(open_run(run))
    text = path.read_text("utf-8")
    assert path.stat().st_size < 5_000_000
    assert "https://" not in text
    assert "src=" not in text.replace("src=x", "")
    assert not path.with_name("report.html.tmp").exists()


def test_a_sweep_of_many_edits_is_not_listed_edit_by_edit(tmp_path: Path) -> None:
    rows = audit_rows()
    for i in range(40):
        of_cell = LEACE | {"edit": f"leace-1@resid_post.{i}", "layer": i}
        about = {"dataset": "jobs_test", "axis": "gender", "group_a": "female", "group_b": "male"}
        rows.append(Row("mean_abs_r", 0.2, split="test", **about, **of_cell))
        rows.append(Row("abs_r_reduction", 0.7, split="test", **about, **of_cell))
    overview = sections(open_run(make_run(tmp_path / "sweep", rows)))[0]
    assert len(overview.blocks[0].sentences) <= 4  # type: ignore[union-attr]


def test_a_legend_names_an_edit_once(run: Path) -> None:
    for section in sections(open_run(run)):
        for figure in section.figures():
            names = [entry.name.partition("@")[0] for entry in legend(figure)]
            assert len(set(names)) == len(names), figure.name


def test_an_audit_after_a_search_shows_the_edit_that_it_is_about(tmp_path: Path) -> None:
    """`debias` searches under the names of single edits and audits under that of both."""
    searched = LEACE | {"edit": "leace-1@resid_post.2 + leace-1@resid_post.3"}
    marks = {"removed": 0.5, "removed_test": 0.4, "cost_test": 0.7, "front": True, "chosen": True}
    marks |= {"agreement_lost_test": 0.01, "perplexity_ratio_test": 1.01}
    cost = Row("cost", 0.5, detail=marks, dataset="jobs", split="validation", **searched)
    found = open_run(make_run(tmp_path / "debias", [*audit_rows(), cost]))
    [table] = sections(found)[0].tables()
    assert [row[0] for row in table.rows] == ["no edit", RANDOM["edit"], LEACE["edit"]]


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_what_is_nowhere_biased_is_said_and_not_drawn(share: float, tmp_path: Path) -> None:
    about = {"dataset": "cid, λ=10", "group_a": "female", "split": "test", "n": 4}
    row = Row("cid_biased_fraction", share, lo=0.0, hi=share, detail={"lambda": 10.0}, **about)
    found = sections(open_run(make_run(tmp_path / "cid", [*audit_rows(), row])))
    [section] = [s for s in found if s.name == "cid"]
    [block] = section.blocks
    assert isinstance(block, Figure if share else Words)


def test_one_line_for_an_eraser_whose_rank_differs_by_layer() -> None:
    about = {"split": "validation", "eraser": "preserving", "unit": "layers/preserving"}
    rows = [Row("mean_abs_r", 0.1, layer=i, rank=k, **about) for i, k in enumerate((6, 4, 6))]
    [series] = by_layer(rows)
    assert series.name == "preserving-4…6"
    assert series.x == (0, 1, 2)


def test_wordings_of_fairpair_stand_beside_its_figures(tmp_path: Path) -> None:
    about = {"dataset": "reworded/sentiment", "group_a": "a", "group_b": "b", "split": "test"}
    prompts = [[f"prompt {i}", 0.3, 0.2, 0.2, 1.1, 0.5] for i in range(4)]
    spread = {"sd": 0.1, "range": [1.0, 1.2], "differ": 1, "flip_rate": 1.0}
    rows = [
        Row("fairpair_f", 1.1, detail={"prompts": prompts}, **about),
        Row("fairpair_f_over_wordings", 1.1, n=2, detail=spread, **about),
        *(
            Row("fairpair_f_of_wording", 1.0 + k, detail={"wording": w, "p_adjusted": p}, **about)
            for k, (w, p) in enumerate((("one", 0.01), ("two", 0.9)))
        ),
    ]
    found = sections(open_run(make_run(tmp_path / "fairpair", rows)))
    tables = {t.name: t for s in found for t in s.tables()}
    assert tables["fairpair_wordings"].rows[0][6] == "1 of 2"
    of_wording = [(row[1], row[2].text) for row in tables["fairpair_by_wording"].rows]  # type: ignore[union-attr]
    assert of_wording == [("one", "1.000*"), ("two", "2.000")]
    assert [row[2] for row in tables["fairpair_prompts"].rows] == ["one", "one", "two", "two"]


def test_of_a_small_sweep_the_chosen_edit_is_the_headline_and_not_the_strongest(
    tmp_path: Path,
) -> None:
    rows = audit_rows()
    dear = LEACE | {"edit": "dear-1@resid_post.1", "eraser": "dear", "layer": 1}
    about = {"dataset": "jobs_test", "axis": "gender", "group_a": "female", "group_b": "male"}
    rows.append(Row("mean_abs_r", 0.01, split="test", **about, **dear))
    rows.append(Row("abs_r_reduction", 0.98, split="test", **about, **dear))
    for edit, chosen in ((LEACE, True), (dear, False)):
        names = ("removed", "cost", "agreement_lost", "perplexity_ratio")
        detail: dict[str, object] = dict.fromkeys(names, 0.5)
        detail |= {f"{name}_test": 0.5 for name in names}
        detail |= {"front": True, "chosen": chosen}
        rows.append(Row("cost", 0.5, split="validation", detail=detail, **about, **edit))
    overview = sections(open_run(make_run(tmp_path / "sweep", rows)))[0]
    said = " ".join(overview.blocks[0].sentences)  # type: ignore[union-attr]
    assert "leace (rank 1)" in said
    assert "dear" not in said


def test_nothing_to_show_is_still_a_page() -> None:
    assert "<title>empty</title>" in render([], title="empty", kind="", about=[])
