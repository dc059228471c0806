"""Files for papers hold the rows' figures, digit for digit, and what LaTeX would trip over."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import pytest

from countergen_edit.core.errors import UserError
from countergen_edit.metrics.rows import Row
from countergen_edit.reports.blocks import Number, Section, Table, Tokens, Words
from countergen_edit.reports.panels import Panel, Series
from countergen_edit.reports.render import export
from countergen_edit.reports.render.csv import as_csv
from countergen_edit.reports.render.figures import Styles, inline_svg
from countergen_edit.reports.render.html import in_numbers, render
from countergen_edit.reports.render.latex import as_latex
from countergen_edit.reports.run import open_run
from countergen_edit.reports.sections import CHANGED, ORDER, OTHERS, sections
from tests.reports.runs import (
    HARMFUL,
    LABELS,
    LEACE,
    audit_rows,
    choice_detail,
    columns,
    in_memory,
    make_run,
)


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
    series = Series(HARMFUL, (f"{HARMFUL} $x$", "\x00b"), (1.0, 2.0), kind="bars")
    panel = Panel(HARMFUL, HARMFUL, "", (series,), downwards=True)
    svg = inline_svg(panel, "k", Styles([[panel]]).figure([panel]))
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
    shutil.rmtree(path / "store")
    assert [s.name for s in sections(open_run(path))] == ["run"]


def test_every_section_has_a_name_of_its_own(run: Path) -> None:
    found = sections(open_run(run))
    assert [s.name for s in found] == [name for name in ORDER if name not in (OTHERS, CHANGED)]
    names = [t.name for s in found for t in s.tables()]
    assert len(set(names)) == len(names)


def test_the_page_is_small_and_asks_for_nothing(run: Path) -> None:
    path = open_run(run).report()
    text = path.read_text("utf-8")
    assert path.stat().st_size < 5_000_000
    assert "https://" not in text
    assert "src=" not in text.replace("src=x", "")
    assert not path.with_name("report.html.tmp").exists()


def test_where_the_chosen_edit_has_no_test_figures_those_that_have_are_shown() -> None:
    other = columns("leace", 2, 3)
    cost = Row("cost", 0.5, detail=choice_detail(), dataset="jobs", split="validation", **other)
    overview = sections(in_memory([*audit_rows(), cost]))[0]
    [table] = overview.tables()
    short = [LABELS[name].partition("@")[0] for name in ("leace", "random")]
    assert table.columns[2:] == ("planted", "unedited", *short)


def test_nothing_to_show_is_still_a_page() -> None:
    assert "<title>empty</title>" in render([], title="empty", kind="", about=[])


def test_a_section_of_a_user_may_be_called_anything() -> None:
    degradation = 'my tab"/><script>'
    parts = [Section(degradation, degradation, (Words((degradation,)),))]
    page = render(parts, title="", kind="", about=[])
    assert page.count("<script>") == 1
    assert 'id="my-tab-script-"' in page


def test_tokens_are_shaded_on_the_page_and_texts_in_files() -> None:
    cell = Tokens((" good", " bad", "\n"), (0.3, -0.1, 0.0), "0.02")
    table = Table("t", "T", ("text",), ((cell,),))
    page = render([Section("s", "S", (table,))], title="", kind="", about=[])
    assert '<span class="up" style="--share: 100%" title="+0.300"> good</span>' in page
    assert '<span class="down" style="--share: 40%" title="-0.100"> bad</span>' in page
    assert "good bad" in as_csv(table)
    assert "good bad 0.02" in as_latex(table)
