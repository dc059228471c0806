"""The overview: what stands side by side, in which order."""

from dataclasses import replace

import pytest

from countergen_edit.reports.blocks import Figure, Words
from countergen_edit.reports.sections import overview, sections
from countergen_edit.runs.files import ORIGINAL
from countergen_edit.runs.run import open_run
from tests.reports.runs import LABELS, audit_rows, in_memory, make_run, text_rows, unedited


def glance(run):
    [section] = overview(run)
    return next(block for block in section.blocks if isinstance(block, Figure))


def test_it_begins_with_the_verdict_and_one_figure_of_every_test_set():
    [section] = overview(in_memory(audit_rows()))
    first, figure, table, *_ = section.blocks
    assert first == Words(in_memory(audit_rows()).verdict.lines, brief=True)
    bias, agreement = figure.panels
    assert bias.categories == ["jobs", "traits", "hobbies"]
    before, after = bias.series
    assert (before.name, after.name) == ("unedited", LABELS["leace"])
    assert before.y == pytest.approx((0.6, 0.61, 0.62))
    assert after.y == pytest.approx((0.3, 0.31, 0.32))
    assert (bias.x_label, bias.limits) == ("group effect, nats", (0.0, 0.1))
    assert [s.y for s in agreement.series] == [(0.9, 0.9), (0.9, 0.9), (0.89, 0.89)]
    short = [LABELS[name].partition("@")[0] for name in ("leace", "random")]
    assert table.columns == ("", "set", "planted", "unedited", *short)


def test_it_draws_the_measure_that_the_verdict_judges_by_with_its_significance():
    tests = {
        "jobs": {"p_adjusted": 0.01, "least_p_adjusted": 0.001},
        "traits": {"p_adjusted": 0.14, "least_p_adjusted": 0.001},
        "hobbies": {"p_adjusted": 0.8, "least_p_adjusted": 0.4, "names_to_test": 7},
    }
    rows = [replace(r, value=9.0) if r.metric == "mean_abs_r" else r for r in unedited()]
    for i, row in enumerate(rows):
        if (row.metric, row.split) == ("group_effect", "test"):
            rows[i] = replace(row, detail=row.detail | tests[row.dataset.removesuffix("_test")])
    bias, *_ = glance(in_memory(rows)).panels
    assert bias.categories == ["jobs", "traits (P 0.14)", "hobbies (cannot be tested)"]
    assert bias.series[0].y == pytest.approx((0.6, 0.61, 0.62))


def test_texts_or_a_model_without_edits_make_an_overview():
    bias, *_ = glance(in_memory(unedited())).panels
    assert [s.name for s in bias.dots] == ["unedited"]
    panel, contrasts = glance(in_memory(unedited(text_rows()))).panels
    assert contrasts.title.startswith("Contrastive decoding")
    assert (panel.categories, panel.series[0].y) == (["sentiment"], (1.05,))


def test_a_checkpoint_stands_beside_the_model_that_it_was_made_of(tmp_path):
    path = make_run(tmp_path / "audit", unedited())
    less = [replace(r, value=(r.value or 0) - 0.3) for r in unedited()]
    make_run(path / ORIGINAL, less)
    run = open_run(path)
    bias, *_ = glance(run).panels
    assert [s.name for s in bias.series[:2]] == ["original", "this checkpoint"]
    assert bias.series[0].y == pytest.approx((0.3, 0.31, 0.32))
    assert bias.series[1].y == pytest.approx((0.6, 0.61, 0.62))
    assert [s.title for s in sections(run)][:2] == ["Overview", "Against its original"]
