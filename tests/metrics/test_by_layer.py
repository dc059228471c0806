"""Figures over layers: one line for each eraser as it was asked for, single edits alone."""

from dataclasses import replace

from countergen_edit.data.task import Task
from countergen_edit.edits import EditRecord, Place
from countergen_edit.erasers import Certificate
from countergen_edit.metrics.fits import certificate_rows
from countergen_edit.metrics.r.metric import R
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import Row
from countergen_edit.reports.views.by_layer import widest_split
from countergen_edit.reports.views.probes import GuardednessView
from countergen_edit.reports.views.r import RView
from countergen_edit.testbed import load_axis
from tests.metrics.small import set_of


def at(*layers, rank=2, site="resid_post"):
    return tuple(Place(site, layer, rank) for layer in layers)


RECORDS = [
    EditRecord("a1", "own", {"rank": "cv"}, at(1, rank=3)),
    EditRecord("a0", "own", {"rank": "cv"}, at(0, rank=6)),
    EditRecord("b0", "own", {}, at(0)),
    EditRecord("b1", "own", {}, at(1)),
    EditRecord("both", "own", {}, at(0, 1)),
    EditRecord("m0", "own", {}, at(0, site="mlp_out")),
    EditRecord("m1", "own", {}, at(1, site="mlp_out")),
    EditRecord("c0", "random", {}, at(0), baseline=True),
]
GROUPS = {"dataset": "work_test", "group_a": "female", "group_b": "male"}


def results_of(split, records=RECORDS):
    columns = [{}, *(e.columns for e in records)]
    rows = [
        Row("group_effect", i / 10, split=split, **GROUPS, **of_edit)
        for i, of_edit in enumerate(columns)
    ]
    return Results(rows, {e.id: e for e in records})


def test_one_line_for_each_eraser_as_asked():
    [section] = [s for s in RView(R, "r").sections(results_of("test")) if s.name == "layers"]
    figures = section.figures()
    assert [figure.name for figure in figures] == ["layers_resid_post", "layers_mlp_out"]
    [only] = figures[0].panels
    assert only.title == "work"
    before, *lines = only.series
    assert (before.kind, before.y) == ("level", (0.0,))
    assert {s.name: (s.x, s.y, s.baseline) for s in lines} == {
        "own-3…6": ((0, 1), (0.2, 0.1), False),
        "own-2": ((0, 1), (0.3, 0.4), False),
        "random-2": ((0,), (0.8,), True),
    }
    assert [(s.name, s.x) for s in figures[1].panels[0].series[1:]] == [("own-2", (0, 1))]
    single = results_of("test", [RECORDS[0], RECORDS[3], RECORDS[4]])
    assert [s for s in RView(R, "r").sections(single) if s.name == "layers"] == []


def test_the_split_is_that_on_which_every_layer_was_measured():
    validated, tested = results_of("validation"), results_of("test", [RECORDS[1]])
    both = Results([*validated.rows, *tested.rows], validated.records)
    assert widest_split(both, "group_effect") == "validation"
    assert widest_split(results_of("test"), "group_effect") == "test"
    everything = Results([*validated.rows, *results_of("test").rows], validated.records)
    assert widest_split(everything, "group_effect") == "test"
    assert "(validation data)" in RView(R, "r").sections(both)[-1].figures()[0].title


def test_certificates_are_shown():
    data = set_of("work_fit", ["{}"], [[" x"]])
    task = Task(load_axis("gender"), ("female", "male"), fit=(data,))
    probes = [0.9, 0.5, 0.95, 0.6]
    unknown = float("nan")
    certificate = Certificate(1, 0.69, 0.69, 0, *probes, 10, 0.5, unknown, True, "means coincide")
    rows = [
        replace(row, split="validation", **e.columns)
        for e in RECORDS[:4]
        for row in certificate_rows(certificate, task, n=12)
    ]
    assert {(r.dataset, r.n) for r in rows} == {("work_fit", 12)}
    assert {r.value for r in rows if r.metric == "variance_removed"} == {None}
    # The edit that is shown was measured on test data.
    tested = [Row("group_effect", 0.1, split="test", **RECORDS[0].columns)]
    results = Results([*rows, *tested], {e.id: e for e in RECORDS})
    [section] = GuardednessView().sections(results)
    figures = section.figures()
    for figure, kind in zip(figures, ("linear", "non-linear"), strict=True):
        assert figure.title.startswith(f"{kind} probe under an edit at each layer, resid_post (val")
    assert [s.name for s in figures[0].panels[0].series] == ["own-3…6", "own-2"]
    [table] = section.tables()
    *figures, guarantee = table.rows
    assert [cell.value for _, cell in figures] == [*probes, 0.5, None]
    assert [*guarantee] == ["no linear probe can do better than chance on the fitted data", "yes"]
    assert GuardednessView().sections(Results([])) == []
