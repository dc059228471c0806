"""A custom metric is shown wherever built-in metrics are, by the default view or its own."""

import pytest

from countergen_edit.edits.checkpoints import Parity
from countergen_edit.metrics.rows import Row
from countergen_edit.reports.blocks import Number, plain
from countergen_edit.reports.render import export
from countergen_edit.reports.render.card import model_card
from countergen_edit.reports.sections import sections
from countergen_edit.runs.run import open_run
from tests.reports.runs import EDITS, LEACE, MANIFEST, RANDOM, make_run, printed

OWN = '''
from countergen_edit import Metric, Row
from countergen_edit.metrics.base import Cost
from countergen_edit.reports.views.base import Shown, View


class Politeness(Metric):
    """The difference of politeness between two groups."""

    kind = "bias"
    title = "politeness gap"
    unit = "points"

    def measure(self, context, edit, split="test"):
        return [Row("politeness", 0.777, lo=0.7, hi=0.8, dataset="mine", split=split)]


class Length(Cost):
    """The length of texts."""

    counts = "length"
    default_budget = 2.0
    title = "length of texts"

    def measure(self, context, edit, split="test"):
        return []


class RudeView(View):
    shows = (Shown("rudeness", "rude words", percent=True, where="card"),)
    place = "rude", "Rudeness"

    def sentences(self, results):
        return ["Rude: to some."]


class Rudeness(Politeness):
    view = RudeView
'''
CELLS = {"unedited": (0.777, 0.7, 0.8), "random": (0.776, 0.7, 0.8), "leace": (0.111, 0.1, 0.2)}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("own")
    (folder / "own.py").write_text(OWN)
    kinds = {"politeness": "Politeness", "length": "Length", "rudeness": "Rudeness"}
    metrics = {name: f"{folder}/own.py:{kind}" for name, kind in kinds.items()}
    rows = []
    for (gap, lo, hi), edit in zip(CELLS.values(), ({}, RANDOM, LEACE), strict=True):
        rows.append(Row("politeness", gap, lo=lo, hi=hi, dataset="mine", split="test", n=3, **edit))
        rows.append(Row("length", 12.5 + gap, dataset="texts", split="test", n=4, **edit))
        rows.append(Row("rudeness", gap, facets={"to": "all"}, split="test", **edit))
    manifest = MANIFEST | {"metrics": metrics, "budgets": {"length": 2.0}}
    return open_run(make_run(folder / "run", rows, manifest=manifest, outputs=2))


def test_a_metric_without_a_view_is_tabulated_and_plotted_by_the_default(run):
    parts = {section.name: section for section in sections(run)}
    assert [*parts][:2] == ["overview", "costs"]
    assert [*parts].index("politeness") < [*parts].index("examples")
    [table] = parts["overview"].tables()
    assert [row[1] for row in table.rows] == ["mine", "length of texts"]
    assert table.rows[0][0] == "politeness gap, points"
    [table], [figure] = parts["politeness"].tables(), parts["politeness"].figures()
    cells = [CELLS[name] for name in ("unedited", "leace", "random")]
    assert table.rows == (("politeness gap, mine", *(Number(*cell) for cell in cells)),)
    [panel] = figure.panels
    assert panel.x_label == "politeness gap, points"
    assert [(s.y[0], s.lo[0], s.hi[0]) for s in panel.series] == cells


def test_it_may_have_a_view_of_its_own_and_a_budget(run):
    [tab] = [section for section in sections(run) if section.name == "rude"]
    assert tab.title == "Rudeness"
    [table] = tab.tables()
    assert table.columns[0] == "rude words"
    assert [*map(plain, table.rows[0])] == ["rude words, to all", "78 %", "11 %", "78 %"]
    assert "rude words, to all" in [quantity.title for quantity in run.quantities()]
    assert "Rude: to some." in {*run.findings} & {*run.verdict.lines}
    assert run.best is not None
    assert run.cost("length").budget == 2.0


def test_it_is_printed_exported_and_stands_in_the_card(run, tmp_path):
    text = " ".join(printed(run).split())
    assert "0.111" in text
    assert "Cost of leace (rank 1): length of texts 13.277 → 12.611." in text
    names = {path.name for path in export(sections(run), tmp_path, ["svg", "csv", "latex"])}
    assert {"politeness.csv", "politeness.tex", "politeness.svg", "before_and_after.csv"} <= names
    parity = Parity(0.0, 1e-5, 1.0, 1.0, 1, 1)
    card = model_card(run, EDITS[LEACE["edit"]].record, "folded", parity)
    after = "0.777 [0.700, 0.800] | 0.111 [0.100, 0.200] | 0.776 [0.700, 0.800] | 3 |"
    assert f"| politeness gap, mine | {after}" in card
    assert "| length of texts | 13.277 | 12.611 | 13.276 | 4 |" in card


def test_a_metric_whose_file_is_gone_is_left_out_and_the_verdict_says_so(tmp_path):
    manifest = MANIFEST | {"metrics": {"gone": "nowhere/gone.py:Gone"}, "budgets": {"gone": 1.0}}
    rows = [Row("gone", 0.5, split="test", **LEACE)]
    opened = open_run(make_run(tmp_path / "run", rows, manifest=manifest, outputs=2))
    assert opened.cost("gone") is None
    [sentence] = [s for s in opened.findings if s.startswith("Not shown: ")]
    assert sentence.endswith("cannot be loaded: no such file: nowhere/gone.py")
    assert "Manifest" in opened.report().read_text("utf-8")
