"""A metric from outside, bias or cost, stands wherever ours do: reports know none by name."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from countergen_edit import reports
from countergen_edit.edits.checkpoints import Parity
from countergen_edit.metrics.base import METRICS
from countergen_edit.metrics.rows import Row
from countergen_edit.reports.render.card import model_card
from countergen_edit.reports.render.export import export
from countergen_edit.reports.render.terminal import print_run
from countergen_edit.reports.run import Run, open_run
from countergen_edit.reports.sections import sections
from tests.reports.runs import EDITS, LEACE, MANIFEST, RANDOM, make_run

OWN = '''
from countergen_edit.metrics.base import Cost, Metric
from countergen_edit.reports.views.base import Quantity, alike
from countergen_edit.reports.blocks import Figure, Number, Section, Table, Words
from countergen_edit.reports.panels import Panel, edit_dots


class Politeness(Metric):
    """How polite the model is."""

    kind = "bias"

    def measure(self, context, edit, split="test"):
        return []

    @classmethod
    def quantities(cls, results, split="test"):
        rows = results.unedited("politeness_gap", split)
        return [Quantity("politeness gap", alike(results, row), "bias") for row in rows]

    @classmethod
    def sections(cls, results):
        row = results.unedited("politeness_gap")[0]
        panel = Panel("gap", "gap", "", tuple(edit_dots(results, row)), downwards=True)
        table = Table("gaps", "Gaps", ("gap",), ((Number.of(row),),), brief=True)
        figure = Figure("gap", "Gap", (panel,), "Less is better.")
        return [Section("politeness", "Politeness", (Words(("A gap.",)), table, figure))]

    @classmethod
    def sentences(cls, results):
        return ["Impolite: to some."]

    @classmethod
    def outcome(cls, results, edit):
        return f"Politer: {edit.name_in_text}."


class Length(Cost):
    """How long texts become."""

    counts = "length"
    default_budget = 2.0
    title = "length of texts"

    def measure(self, context, edit, split="test"):
        return []
'''


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("own")
    (folder / "own.py").write_text(OWN)
    metrics = {"politeness": f"{folder}/own.py:Politeness", "length": f"{folder}/own.py:Length"}
    rows = []
    for edit, gap in (({}, 0.777), (RANDOM, 0.776), (LEACE, 0.111)):
        rows.append(Row("politeness_gap", gap, dataset="mine", split="test", n=3, **edit))
        rows.append(Row("length", 12.5 + gap, dataset="texts", split="test", n=4, **edit))
    manifest = MANIFEST | {"metrics": metrics, "budgets": {"length": 2.0}}
    return open_run(make_run(folder / "run", rows, manifest=manifest, outputs=2))


def test_it_stands_in_every_overview_and_has_a_tab_before_the_examples(run: Run) -> None:
    parts = sections(run)
    names = [section.name for section in parts]
    assert names[:2] == ["overview", "costs"]
    assert names.index("politeness") < names.index("examples")
    [table] = parts[0].tables()
    assert [row[1] for row in table.rows] == ["politeness gap", "length of texts"]
    assert {figure.name for figure in parts[0].figures()} == {"pareto"}
    page = run.report().read_text("utf-8")
    for word in ("Politeness", "politeness gap", "length of texts", "0.111"):
        assert word in page, word


def test_it_is_printed_and_said(run: Run) -> None:
    console = Console(width=80, file=io.StringIO())
    print_run(run, console)
    text = " ".join(console.file.getvalue().split())  # type: ignore[attr-defined]
    assert "Impolite: to some." in text
    assert "Politer: leace (rank 1)." in text
    assert "Cost of leace (rank 1): length of texts 13.277 → 12.611." in text
    assert "politeness gap" in text
    assert "A gap." not in text  # not brief


def test_its_tables_and_figures_become_files_and_its_figures_stand_in_the_card(
    run: Run, tmp_path: Path
) -> None:
    names = {path.name for path in export(sections(run), tmp_path, ["svg"], ["csv", "latex"])}
    assert {"gaps.csv", "gaps.tex", "gap.svg", "before_and_after.csv"} <= names
    parity = Parity(0.0, 1e-5, 1.0, 1.0, 1, 1)
    card = model_card(run, EDITS[LEACE["edit"]].record, "folded", parity)
    assert "| politeness gap | 0.777 | 0.111 | 0.776 | 3 |" in card
    assert "| length of texts | 13.277 | 12.611 | 13.276 | 4 |" in card


def test_its_budget_decides_what_is_best(run: Run) -> None:
    assert run.best is not None
    assert run.cost("length").budget == 2.0  # type: ignore[union-attr]


def test_a_metric_whose_file_is_gone_is_left_out_and_the_verdict_says_so(tmp_path: Path) -> None:
    manifest = MANIFEST | {"metrics": {"gone": "nowhere/gone.py:Gone"}, "budgets": {"gone": 1.0}}
    rows = [Row("gone", 0.5, split="test", **LEACE)]
    opened = open_run(make_run(tmp_path / "run", rows, manifest=manifest, outputs=2))
    assert opened.cost("gone") is None
    [sentence] = [s for s in opened.findings if s.startswith("Not shown: ")]
    assert sentence == (
        "Not shown: nowhere/gone.py:Gone, as its class is not at hand: "
        "no such file: nowhere/gone.py"
    )
    assert "Every row of the run" in opened.report().read_text("utf-8")


def test_no_file_of_reports_names_a_metric() -> None:
    """But for the names of tabs, whose order is one list."""
    package = Path(reports.__file__).parent
    names = [name for name in METRICS if len(name) > 1]
    modules = {METRICS.get(name).__module__ for name in METRICS}
    rows = ["mean_abs_r", "abs_r_reduction", "perplexity_ratio", "probe_accuracy", "_holding"]
    for path in package.rglob("*.py"):
        text = path.read_text("utf-8")
        order = re.search(r"ORDER = \(.*?\)", text, re.DOTALL)
        text = text.replace(order[0], "") if order else text
        assert not [name for name in names if re.search(rf"\b{name}\b", text)], path
        assert not [module for module in modules if f"from {module} " in text], path
        assert not [row for row in rows if row in text], path
