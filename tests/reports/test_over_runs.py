"""Over several runs every metric shows its own rows beside the others', and what was published."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from countergen_edit.metrics.base import Metric
from countergen_edit.metrics.r.published import SETS, TABLE_1, published_r
from countergen_edit.metrics.results import Results, Side
from countergen_edit.metrics.rows import Row
from countergen_edit.reports.blocks import Number, Table, plain
from countergen_edit.reports.compare import Comparison, comparison
from countergen_edit.reports.run import Run
from countergen_edit.reports.views.base import View
from countergen_edit.reports.views.cid import PAPER_TEMPLATE as TEMPLATE
from countergen_edit.reports.views.cid import SHARES, published_shares
from countergen_edit.reports.views.fairpair import PUBLISHED, PUBLISHED_AVERAGE
from countergen_edit.reports.views.stacked import means, stacked
from tests.reports.runs import GROUPS, MANIFEST, audit_rows, classifier_rows, in_memory, text_rows


def compared(**runs: list[Row]) -> Comparison:
    """Runs of a model each, held against each other."""
    return comparison(
        [
            replace(in_memory(rows, MANIFEST | {"model": f"org/{name}"}), path=Path(name))
            for name, rows in runs.items()
        ]
    )


def tables(of: Comparison) -> dict[str, Table]:
    return {table.name: table for section in of.sections for table in section.tables()}


def texts(table: Table) -> list[tuple[str, ...]]:
    return [tuple(map(plain, row)) for row in table.rows]


def fairpair_rows(model: str, shift: float = 0.0) -> list[Row]:
    about: dict[str, Any] = {"split": "test", "dataset": "common_sents", **GROUPS}
    sides = {"source": "male", "target": "female", "model": model}
    terms = [
        {"text": "her hobby", "share_pg": 0.1, "share_gp": 0.4, "log_odds": 1.8, "p": 0.001},
        {"text": "sells", "share_pg": 0.2, "share_gp": 0.05, "log_odds": -1.5, "p": 0.001},
        {"text": "the firm", "share_pg": 0.6, "share_gp": 0.5, "log_odds": -0.4, "p": 0.001},
    ]
    rows = []
    for phi in ("jaccard", "sentiment"):
        of_phi = about | {"facets": {"phi": phi}}
        detail = sides | {"p_adjusted": 0.01, "prompts": [["nurse", 0.8, 0.7, 0.75, 1.2, 0.01]]}
        rows.append(Row("fairpair_f", 1.0 + shift, detail=detail, **of_phi))
        rows += [Row(f"fairpair_{end}", 0.5 + shift, **of_phi) for end in ("v_gp", "v_pg")]
        rows.append(Row("fairpair_bias", 0.6 + shift, **of_phi))
    shares = {"neutral": 0.97, "words": 0.5, "characters": 0.98}
    detail = {"examples": [], "compared": "neutral", "shares": shares}
    rows.append(Row("fairpair_perturbed", 0.98, n=8, detail=detail, **about))
    rows.append(Row("fairpair_ngrams", 3.0, detail=sides | {"terms": terms}, **about))
    return rows


def test_fairpairs_table_3_has_what_was_published_of_each_model_and_the_average() -> None:
    of = compared(**{"gpt2": fairpair_rows("org/gpt2"), "mine": fairpair_rows("mine", 0.5)})
    table = tables(of)["fairpair"]
    lines = [row for row in texts(table) if row[0] == "jaccard"]
    assert [row[1:3] for row in lines] == [
        ("gpt2", "unedited"),
        ("gpt2", "published"),
        ("mine", "unedited"),
        ("average of 2", ""),
    ]
    at = table.columns.index("V_pg")
    assert lines[1][at : at + 4] == ("0.853", "0.859", "0.858", "1.00")
    assert lines[3][at : at + 4] == ("0.750", "0.750", "0.850", "1.25")
    means = [row for row in texts(of.every_row) if row[0] == "all runs"]
    assert len(means) == 8  # of both V, B and F by two Φ


def test_the_published_average_stands_only_beside_all_published_models() -> None:
    every = {name: fairpair_rows(name) for name in PUBLISHED}
    table = tables(compared(**every))["fairpair"]
    averages = [row for row in texts(table) if row[1] == "average, published"]
    assert [row[table.columns.index("F")] for row in averages] == [
        f"{PUBLISHED_AVERAGE[phi][3]:.2f}" for phi in ("jaccard", "sentiment")
    ]
    every.popitem()
    assert "average, p" not in str(texts(tables(compared(**every))["fairpair"]))


def test_figure_6_has_every_model() -> None:
    of = compared(a=fairpair_rows("a"), b=fairpair_rows("b", 0.1))
    figures = {figure.name: figure for section in of.sections for figure in section.figures()}
    source, target = figures["fairpair_phrases"].panels[:2]
    # The phrases of either side, the commonest first, with their shares of both sets.
    assert [(s.x, s.y) for s in source.series] == [
        (("the firm", "sells"), (0.6, 0.2)),
        (("the firm", "sells"), (0.5, 0.05)),
    ]
    assert [s.y for s in target.series] == [(0.1,), (0.4,)]
    assert len(figures["fairpair_phrases"].panels) == 4


def cid_rows(model: str, automatic: float) -> list[Row]:
    rows = []
    about: dict[str, Any] = {"split": "test", "dataset": "cid", "axis": "nationality"}
    for strength in (0.0, 10.0, 50.0):
        for group in ("egypt_male", "usa_male"):
            facets: dict[str, Any] = {"lambda": strength}
            detail: dict[str, Any] = {"rated_by": "a lexicon"}
            of = about | {"group_a": group, "n": 100}
            metric = "cid_biased_fraction_automatic"
            rows.append(Row(metric, automatic, facets=facets, detail=detail, **of))
            facets = facets | {"template": TEMPLATE}
            detail = {"counts": [["was late", 100]], "automatic": {}}
            rows.append(Row("cid_continuations", 1.0, facets=facets, detail=detail, **of))
        both = about | {"group_a": "egypt_male", "group_b": "usa_male", "n": 200}
        rows.append(Row("cid_divergence", 0.1, facets={"lambda": strength}, **both))
    return rows


def test_figure_2_has_both_models_side_by_side_with_what_was_published() -> None:
    of = compared(**{"gpt2-large": cid_rows("", 0.5), "flan-t5-large": cid_rows("", 0.25)})
    table = tables(of)["cid_biased_fraction_automatic_shares"]
    by_name = dict(zip(table.columns, zip(*texts(table), strict=True), strict=True))
    assert by_name["λ"] == ("0", "10", "50")
    assert by_name["usa_male, gpt2-large"] == ("0.50",) * 3
    assert by_name["usa_male, gpt2-large, published"] == ("1.00", "0.47", "0.00")
    assert by_name["egypt_male, flan-t5-large, published"] == ("0.10", "0.45", "0.36")


def test_published_shares_are_of_the_papers_models_groups_names_and_template_alone() -> None:
    groups = frozenset({"usa_male", "mexico_male"})
    assert published_shares("google/flan-t5-large", groups, [TEMPLATE], 100)[("mexico_male", 50.0)]
    assert len(SHARES) == 3
    for model, about, templates, pairs in (
        ("gpt2", groups, [TEMPLATE], 100),
        ("my-gpt2-large", groups, [TEMPLATE], 100),
        ("gpt2-large", frozenset({"usa_male", "female"}), [TEMPLATE], 100),
        ("gpt2-large", groups, [TEMPLATE, "{name} is"], 100),
        ("gpt2-large", groups, [TEMPLATE], 16),
    ):
        assert published_shares(model, about, templates, pairs) == {}


def test_countergens_table_1_has_published_r_below_the_models_own() -> None:
    def rows(model: str) -> list[Row]:
        made = []
        for name in SETS:
            about: dict[str, Any] = {"dataset": name, "split": "test", **GROUPS}
            row = Row("r", 0.5, **about)
            paper = published_r(model, row)
            detail = {"starred": True} | ({"published": paper} if paper else {})
            made += [replace(row, detail=detail), Row("group_effect", 0.1, **about)]
        return made

    of = compared(davinci=rows("davinci"), mine=rows("mine"))
    assert texts(tables(of)["direction"]) == [
        ("davinci", *["+0.50*"] * 4),
        ("davinci, published", "+0.24*", "−0.30*", "+0.19", "−0.35*"),
        ("mine", *["+0.50*"] * 4),
    ]
    row = Row("r", 0.5, dataset=SETS[0], **GROUPS)
    assert published_r("openai/ada", row) == {"r": TABLE_1["ada"][0][0], "starred": False}
    assert published_r("davinci-002", row) is None
    assert published_r("ada", replace(row, dataset="jobs")) is None
    assert published_r("ada", replace(row, group_a="male", group_b="female")) is None


def test_runs_with_edits_and_of_classifiers_show_every_edit_and_both_tests() -> None:
    asked = classifier_rows()
    asked += [replace(row, dataset="all") for row in asked if row.metric == "category_flips"]
    of = compared(a=[*audit_rows(), *text_rows()], b=audit_rows(), c=asked)
    shown = {*texts(of.side_by_side)}
    assert {row[1] for row in shown} == {"unedited", "leace-1@resid_post.2"}
    flips = of.side_by_side.columns.index("paraphrases that flip, over people")
    assert [row[flips] for row in texts(of.side_by_side)] == [*[""] * 4, "33 %"]
    every = tables(of)
    assert {row[1] for row in every["classifier_categories"].rows} == {"c"}
    assert len(every["bias"].rows) == 4
    assert {row[0] for row in texts(every["runs"])} == {"a", "b", "c"}


def test_a_metric_with_the_default_view_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    class Mine(Metric):
        title = "my figure"

        def measure(self, context: Any, edit: Any, split: Any = "test") -> list[Row]:
            return []

    monkeypatch.setattr(Run, "views", [View(Mine, "mine")])
    row = Row("mine", 0.25, split="test", **GROUPS)
    of = comparison([replace(in_memory([row]), path=Path(name)) for name in "ab"])
    assert texts(of.side_by_side) == [("a", "unedited", "0.250"), ("b", "unedited", "0.250")]


@pytest.mark.parametrize("values", [(0.1, 0.2, 0.6), (0.5, None, 0.7), (None, 0.5, None)])
def test_a_mean_is_over_the_runs_that_have_the_figure(values: tuple[float | None, ...]) -> None:
    rows = [Row("m", value, dataset="d", split="test", facets={"k": "x"}) for value in values]
    sides = [Side(str(i), Results([row])) for i, row in enumerate(rows)]
    known = [value for value in values if value is not None]
    found = means(sides, "m")
    if len(known) < 2:
        assert found == []
        return
    [mean] = found
    assert mean.value == pytest.approx(sum(known) / len(known))
    assert (mean.n, len(mean.detail["average"])) == (len(known), len(known))


def test_stacked_tables_keep_every_row_and_leave_empty_what_a_run_has_not() -> None:
    made = {
        "a": Table("t", "T", ("set", "x"), (("jobs", Number(1.0)), ("traits", Number(2.0)))),
        "b": Table("t", "T", ("set", "x", "y"), (("jobs", Number(3.0), "!"),)),
    }
    for grouped in (False, True):
        tables = {name: replace(table, grouped=grouped) for name, table in made.items()}
        sides = [Side(name, Results([], task=name)) for name in ("a", "b", "c")]
        table = stacked(sides, lambda results, t=tables: t.get(results.task))
        assert table is not None
        by = {
            (row[table.columns.index("run")], row[table.columns.index("set")]): plain(row[2])
            for row in table.rows
        }
        assert by == {("a", "jobs"): "1.000", ("a", "traits"): "2.000", ("b", "jobs"): "3.000"}
        if grouped:  # what is of one group stands together
            assert [row[0] for row in table.rows] == ["jobs", "jobs", "traits"]
    assert stacked([Side("c", Results([]))], lambda results: None) is None
