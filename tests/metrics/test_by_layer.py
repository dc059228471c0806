"""Figures over layers: one line for each eraser as it was asked for, single edits alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from matplotlib.figure import Figure as Drawing

from countergen_edit.data.counterfactual import CounterfactualSet, Sample, Variation
from countergen_edit.data.task import Task
from countergen_edit.edits import EditRecord, Place
from countergen_edit.erasers import Certificate
from countergen_edit.metrics.base import Metric
from countergen_edit.metrics.costs.agreement import Agreement
from countergen_edit.metrics.guardedness import certificate_rows
from countergen_edit.metrics.r import R
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import Row
from countergen_edit.reports.axes import on_shared_axes
from countergen_edit.reports.blocks import Figure
from countergen_edit.reports.render.drawing import UP, draw_panel
from countergen_edit.reports.render.html.page import legend
from countergen_edit.reports.render.styles import Styles
from countergen_edit.reports.views.base import view_of
from countergen_edit.reports.views.by_layer import widest_split
from countergen_edit.reports.views.guardedness import GuardednessView
from countergen_edit.testbed import load_axis


def record(
    name: str, eraser: str, layers: list[int], rank: int = 1, site: str = "resid_post", **more: Any
) -> EditRecord:
    places = tuple(Place(site, layer, rank) for layer in layers)
    return EditRecord(name, eraser, more.pop("params", {}), places, **more)


RECORDS = [
    record("a1", "own", [1], rank=3, params={"rank": "cv"}),
    record("a0", "own", [0], rank=6, params={"rank": "cv"}),
    record("b0", "own", [0], rank=2),
    record("b1", "own", [1], rank=2),
    record("both", "own", [0, 1], rank=2),
    record("m0", "own", [0], rank=2, site="mlp_out"),
    record("m1", "own", [1], rank=2, site="mlp_out"),
    record("c0", "random", [0], rank=2, baseline=True),
]


def results_of(split: str, records: list[EditRecord] = RECORDS) -> Results:
    rows = []
    for i, e in enumerate([None, *records]):
        columns = e.columns if e else {}
        for metric, dataset, pair in (
            ("group_effect", "work_test", ("female", "male")),
            ("agreement", "agreement", ("female", "male")),
            ("agreement", "agreement", ("female", "")),
        ):
            groups = {"group_a": pair[0], "group_b": pair[1]}
            value = i / 10
            rows.append(Row(metric, value, dataset=dataset, split=split, **groups, **columns))
    return Results(rows, {e.id: e for e in records})


@pytest.mark.parametrize(
    ("metric", "names", "panel"),
    [
        (R, ["layers_resid_post", "layers_mlp_out"], "work"),
        (
            Agreement,
            ["layers_agreement_resid_post", "layers_agreement_mlp_out"],
            "agreement, both groups",
        ),
    ],
)
def test_one_line_for_each_eraser_as_asked(
    metric: type[Metric], names: list[str], panel: str
) -> None:
    sections = view_of(metric, metric.__name__.lower()).sections(results_of("test"))
    [section] = [s for s in sections if s.name == "layers"]
    figures = section.figures()
    assert [figure.name for figure in figures] == names
    [only] = figures[0].panels
    assert only.title == panel
    before, *lines = only.series
    assert (before.kind, before.y) == ("level", (0.0,))
    assert {s.name: (s.x, s.y, s.baseline) for s in lines} == {
        "own-3…6": ((0, 1), (0.2, 0.1), False),
        "own-2": ((0, 1), (0.3, 0.4), False),
        "random-2": ((0,), (0.8,), True),
    }
    assert [(s.name, s.x) for s in figures[1].panels[0].series[1:]] == [("own-2", (0, 1))]


def test_a_single_layer_is_no_figure() -> None:
    results = results_of("test", [RECORDS[0], RECORDS[3], RECORDS[4]])
    assert [s for s in view_of(R, "r").sections(results) if s.name == "layers"] == []


def test_the_split_is_that_on_which_every_layer_was_measured() -> None:
    validated, tested = results_of("validation"), results_of("test", [RECORDS[1]])
    both = Results([*validated.rows, *tested.rows], validated.records)
    assert widest_split(both, "group_effect") == "validation"
    assert widest_split(results_of("test"), "group_effect") == "test"
    everything = Results([*validated.rows, *results_of("test").rows], validated.records)
    assert widest_split(everything, "group_effect") == "test"
    assert "(validation data)" in view_of(R, "r").sections(both)[-1].figures()[0].title


def screened(values: dict[str, float], high: float = 9.0) -> list[Row]:
    """Rows of the first rung, with intervals up to `high`, of edits that fell away."""
    groups = {"dataset": "work_validation", "group_a": "female", "group_b": "male"}
    return [
        Row(
            "group_effect",
            value,
            lo=0.0,
            hi=high,
            split="screening",
            facets={"rung": 1.0},
            **groups,
            **next(e for e in RECORDS if e.id == name).columns,
        )
        for name, value in values.items()
    ]


def layer_axes(results: Results) -> tuple[Any, Figure]:
    """The panel of the layer figure as a report draws it, and the figure."""
    parts = on_shared_axes(view_of(R, "r").sections(results))
    [figure] = [f for s in parts for f in s.figures() if f.name == "layers_resid_post"]
    assert [panel.title for panel in figure.panels] == ["work"]
    ax = Drawing().subplots()
    draw_panel(ax, figure.panels[0], Styles([figure.panels], ["own"]).figure(figure.panels))
    return ax, figure


def test_what_few_names_said_is_not_joined_and_widens_no_axis() -> None:
    everything = results_of("test", [e for e in RECORDS if e.id in ("a1", "b0", "b1")])
    all_rows = [*everything.rows, *screened({"a0": 0.0})]
    ax, figure = layer_axes(Results(all_rows, {e.id: e for e in RECORDS}))
    dotted = [line for line in ax.lines if line.get_marker() != UP]
    joined = [tuple(line.get_xdata()) for line in dotted if line.get_linestyle() == "-"]
    joined = [x for x in joined if len(x) > 1]
    assert joined == [(0.0, 1.0)], "only own-2 was measured in full at two layers"
    low, high = ax.get_ylim()
    assert (low, high) == (0.0, pytest.approx(0.3 * 1.05))
    hollow = [line for line in dotted if line.get_markerfacecolor() == "none"]
    assert [[*line.get_xdata()] for line in hollow] == [[0]]
    full = [line for line in ax.lines if line.get_linestyle() == "-" and line not in hollow]
    assert hollow[0].get_markersize() < min(line.get_markersize() for line in full)
    beyond = [
        line for line in ax.lines if line.get_marker() == UP and [*line.get_ydata()] == [high]
    ]
    assert [[*line.get_xdata()] for line in beyond] == [[0]]
    ends = [y for path in ax.collections[0].get_paths() for _, y in path.vertices]
    assert max(ends) <= high
    last = legend(figure, Styles([figure.panels]))[-1]
    assert (last.name, last.glyph) == ("screening (few names)", "○")
    assert [entry.name for entry in legend(figure, Styles([figure.panels]))].count("own-3…6") == 1


CERTIFICATE = Certificate(
    rank=1,
    probe_loss=0.69,
    label_entropy=0.69,
    class_mean_gap=0.0,
    linear_accuracy_before=0.9,
    linear_accuracy_after=0.5,
    nonlinear_accuracy_before=0.95,
    nonlinear_accuracy_after=0.6,
    nonlinear_rows=10,
    majority_rate=0.5,
    variance_removed=float("nan"),
    guaranteed=True,
    reason="class means coincide",
)


def test_certificates_are_shown() -> None:
    data = CounterfactualSet(
        "work_fit",
        "gender",
        ("female", "male"),
        (Sample("t", (" x",), (Variation("female", "she"), Variation("male", "he"))),),
    )
    task = Task(load_axis("gender"), ("female", "male"), fit=(data,))
    rows = [
        replace(row, **e.columns)
        for e in RECORDS[:4]
        for row in certificate_rows(CERTIFICATE, task, n=12, seed=3)
    ]
    assert {(r.dataset, r.split, r.n, r.seed) for r in rows} == {("work_fit", "validation", 12, 3)}
    assert {r.value for r in rows if r.metric == "variance_removed"} == {None}
    # The edit that is shown was measured on test data.
    tested = [Row("group_effect", 0.1, split="test", **RECORDS[0].columns)]
    results = Results([*rows, *tested], {e.id: e for e in RECORDS})
    [section] = GuardednessView().sections(results)
    assert section.name == "layers"
    [figure] = section.figures()
    assert [panel.title for panel in figure.panels] == ["linear probe", "non-linear probe"]
    before, *lines = figure.panels[0].series
    assert (before.name, before.x, before.y) == ("before", (0, 1), (0.9, 0.9))
    assert [s.name for s in lines] == ["own-3…6", "own-2"]
    brief, whole = section.tables()
    assert brief.brief
    assert [[getattr(c, "value", c) for c in line] for line in brief.rows] == [
        [RECORDS[0].label, 0.9, 0.5, 0.95, 0.6, 0.5]
    ]
    assert len(whole.rows) == 4
    assert whole.rows[0][-1] == "yes"
    assert GuardednessView().sections(Results([])) == []
