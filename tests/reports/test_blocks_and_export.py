"""Pages and files hold the rows' figures, digit for digit, and texts stay texts."""

import csv

import pytest

from countergen_edit.metrics.rows import Row
from countergen_edit.reports.blocks import Number, Section, Table, Tokens, Words
from countergen_edit.reports.render import as_csv, as_latex, export
from countergen_edit.reports.render.html import render_page
from countergen_edit.reports.sections import CHANGED, ORDER, OTHERS, sections
from countergen_edit.runs.run import open_run
from tests.reports.runs import LEACE, in_memory, make_run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("run") / "audit", outputs=3)


def test_every_digit_is_in_the_csv():
    rows = ("jobs", Number(1 / 3, 0.1, 0.4)), ("all", Number(None))
    lines = [*csv.reader(as_csv(Table("t", "T", ("set", "R"), rows)).splitlines())]
    assert lines[0] == ["set", "R", "R from", "R to"]
    assert float(lines[1][1]) == 1 / 3
    assert lines[2] == ["all", "", "", ""]


def test_latex_is_not_led_astray():
    text = as_latex(Table("t", "50 % & more", ("a_b",), ((r"$x^2$ \input{~}#",),)))
    body = text.split("\\midrule\n")[1].splitlines()[0]
    assert body == (r"\$x\textasciicircum{}2\$ \textbackslash{}input\{\textasciitilde{}\}\# \\")
    assert r"\caption{50 \% \& more}" in text


def test_all_figures_and_tables_become_files_that_the_same_rows_repeat(run, tmp_path):
    chosen = [s for s in sections(open_run(run)) if s.name in ("overview", "fairpair")]
    kinds = {"svg": b"<?xml", "pdf": b"%PDF", "csv": b"", "latex": b""}
    first, second = (export(chosen, tmp_path / name, [*kinds]) for name in "ab")
    assert len(first) == len(set(first)) >= 10
    for path, again in zip(first, second, strict=True):
        assert path.read_bytes() == again.read_bytes()
        assert path.read_bytes().startswith(kinds.get(path.suffix[1:], b""))


def test_every_section_and_table_has_a_name_of_its_own(run):
    whole = sections(open_run(run))
    assert [s.name for s in whole] == [name for name in ORDER if name not in (OTHERS, CHANGED)]
    names = [t.name for s in whole for t in s.tables()]
    assert len(set(names)) == len(names)
    bare = in_memory([Row("kl", 0.1, dataset="neutral", split="test", **LEACE)])
    assert [s.name for s in sections(bare)] == ["terms", "run"]


def test_the_page_is_small_and_asks_for_nothing(run):
    path = open_run(run).report()
    text = path.read_text("utf-8")
    assert path.stat().st_size < 5_000_000
    assert "https://" not in text
    assert "src=" not in text.replace("src=x", "").replace('src="data:image/svg+xml', "")
    assert not path.with_name("report.html.tmp").exists()


def test_a_page_escapes_every_text_and_may_be_empty():
    assert "<title>empty</title>" in render_page([], title="empty", kind="", about=[])
    harm = 'my tab"/><script>'
    section = Section(harm, harm, (Words((harm,)),))
    page = render_page([section], title=harm, kind=harm, about=[harm])
    assert page.count("<script>") == 1
    assert 'id="my-tab-script-"' in page


def test_tokens_are_shaded_on_the_page_and_texts_in_files():
    cell = Tokens((" good", " bad", "\n"), (0.3, -0.1, 0.0), "0.02")
    table = Table("t", "T", ("text",), ((cell,),))
    page = render_page([Section("s", "S", (table,))], title="", kind="", about=[])
    assert '<span class="up" style="--share: 100%" title="+0.300"> good</span>' in page
    assert '<span class="down" style="--share: 40%" title="-0.100"> bad</span>' in page
    assert "good bad" in as_csv(table)
    assert "good bad 0.02" in as_latex(table)
