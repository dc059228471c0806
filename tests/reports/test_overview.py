"""The overview: what stands side by side, in which order."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from countergen_edit.decisions.judgement import JUDGEMENT, RECOMMENDED
from countergen_edit.metrics.rows import UNEDITED, Row
from countergen_edit.reports.blocks import Figure, Table, Words
from countergen_edit.reports.overview import as_tested, overview
from countergen_edit.reports.panels import Panel
from countergen_edit.reports.run import Run, open_run
from countergen_edit.reports.sections import sections
from countergen_edit.runs.folder import ORIGINAL
from tests.reports.runs import (
    LABELS,
    LEACE,
    audit_rows,
    columns,
    in_memory,
    make_run,
    text_rows,
)


def unedited(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row.edit == UNEDITED]


def glance(run: Run) -> Figure:
    section = overview(run)
    assert section is not None
    return next(block for block in section.blocks if isinstance(block, Figure))


def test_it_begins_with_the_verdict_and_one_figure_of_every_test_set() -> None:
    section = overview(in_memory(audit_rows()))
    first, figure, table, *_ = section.blocks
    assert isinstance(first, Words)
    assert first.sentences == in_memory(audit_rows()).verdict.lines
    assert isinstance(figure, Figure)
    bias, agreement = figure.panels
    assert bias.categories == ["jobs", "traits", "hobbies"]
    before, after = bias.series
    assert (before.name, after.name) == ("unedited", LABELS["leace"])
    assert before.y == pytest.approx((0.6, 0.61, 0.62))
    assert after.y == pytest.approx((0.3, 0.31, 0.32))
    assert (bias.x_label, bias.covers) == ("group effect, nats", (0.0, 0.1))
    assert [s.y for s in agreement.series] == [(0.9, 0.9), (0.9, 0.9)]
    assert isinstance(table, Table)
    short = [LABELS[name].partition("@")[0] for name in ("leace", "random")]
    assert table.columns == ("", "set", "planted", "unedited", *short)


def test_it_draws_the_measure_that_the_verdict_judges_by_with_its_significance() -> None:
    tests = {
        "jobs": {"p_adjusted": 0.01, "least_p_adjusted": 0.001},
        "traits": {"p_adjusted": 0.14, "least_p_adjusted": 0.001},
        "hobbies": {"p_adjusted": 0.8, "least_p_adjusted": 0.4, "names_to_test": 7},
    }
    rows = [
        replace(row, detail=row.detail | tests[row.dataset.removesuffix("_test")])
        if row.metric == "group_effect" and row.split == "test"
        else replace(row, value=9.0)
        if row.metric == "mean_abs_r"
        else row
        for row in unedited(audit_rows())
    ]
    bias, *_ = glance(in_memory(rows)).panels
    assert bias.categories == ["jobs", "traits (P 0.14)", "hobbies (cannot be tested)"]
    assert bias.series[0].y == pytest.approx((0.6, 0.61, 0.62))


def test_panels_of_one_measure_share_an_axis_from_zero() -> None:
    run = in_memory(audit_rows())
    [tab] = [section for section in sections(run) if section.name == "bias"]
    [figure] = [block for block in tab.blocks if isinstance(block, Figure)]
    ends = [panel.limits for panel in figure.panels]
    assert len(ends) == 3
    assert ends == [(0.0, pytest.approx(0.7035))] * 3


def test_of_several_edits_the_one_that_is_named_is_drawn() -> None:
    inlp = columns("inlp", 1)
    rows = [replace(r, **inlp) for r in audit_rows() if r.edit == LEACE["edit"]]
    detail = {
        "word": RECOMMENDED,
        "sets": {},
        "degradations": {},
        "budgets": {},
        "over": [],
        "maybe": [],
    }
    judged = [
        Row(JUDGEMENT, 0.1, split="test", detail=detail | {"named": edit is inlp}, **edit)
        for edit in (LEACE, inlp)
    ]
    named = glance(in_memory([*audit_rows(), *rows, *judged])).panels[0]
    assert [s.name for s in named.dots] == ["inlp-1@resid_post.1"]
    none = glance(in_memory([*audit_rows(), *rows])).panels[0]
    assert [s.name for s in none.dots] == [LABELS["leace"], "inlp-1@resid_post.1"]


def test_a_run_without_an_edit_has_one_dot_for_each_set() -> None:
    bias, *_ = glance(in_memory(unedited(audit_rows()))).panels
    assert [s.name for s in bias.dots] == ["unedited"]


def test_texts_alone_make_an_overview() -> None:
    panel, contrasts = glance(in_memory(unedited(text_rows()))).panels
    assert contrasts.title.startswith("Contrastive decoding")
    assert panel.categories == ["sentiment"]
    assert panel.series[0].y == (1.05,)


def test_a_checkpoint_stands_beside_the_model_that_it_was_made_of(tmp_path: Path) -> None:
    path = make_run(tmp_path / "audit", unedited(audit_rows()))
    less = [replace(r, value=(r.value or 0) - 0.3) for r in unedited(audit_rows())]
    make_run(path / ORIGINAL, less)
    run = open_run(path)
    bias, *_ = glance(run).panels
    assert [s.name for s in bias.series[:2]] == ["original", "this checkpoint"]
    assert bias.series[0].y == pytest.approx((0.3, 0.31, 0.32))
    assert bias.series[1].y == pytest.approx((0.6, 0.61, 0.62))
    assert [s.title for s in sections(run)][:2] == ["Overview", "Against its original"]


def test_an_eraser_has_one_place_in_the_figures_of_both_splits() -> None:
    """On validation data leace was tried first; of test data rlace is the first."""
    tried = [("leace", 2), ("rlace", 2), ("leace", 3), ("rlace", 3)]
    rows = [Row("kl", 0.1, split="validation", **columns(*cell)) for cell in tried]
    rows += [Row("kl", 0.1, split="test", **columns(*cell)) for cell in [tried[3], tried[0]]]
    ids = dict.fromkeys(row.edit for row in rows)
    results = in_memory(rows).results
    listed = [record.eraser for record in as_tested(results) if record.id in ids]
    assert listed == ["rlace", "rlace", "leace", "leace"]


def of_each(metric: str, values: dict[str, float], **more: object) -> list[Row]:
    """A row of the unedited model and of an edit, that 0.1 less, for each value of a facet."""
    rows = []
    for shift, edit in ((0.0, {}), (0.1, LEACE)):
        for name, value in values.items():
            own = {key: of(name) if callable(of) else of for key, of in more.items()}
            rows.append(Row(metric, value - shift, split="test", **own, **edit))  # type: ignore[arg-type]
    return rows


def test_hiring_and_contrasts_have_a_line_each() -> None:
    hiring = of_each(
        "hiring_gap", {"m": 0.3}, group_a="female", group_b="male", facets={"scale": "probability"}
    )
    contrasts = of_each(
        "cid_divergence", {"0": 0.2, "50": 0.5}, facets=lambda name: {"lambda": float(name)}
    )
    for rows, lines in (
        (hiring, {"female less male": (0.3, 0.2)}),
        (contrasts, {"λ = 0": (0.2, 0.1), "λ = 50": (0.5, 0.4)}),
    ):
        [panel] = glance(in_memory(rows)).panels
        assert points(panel) == lines


def points(panel: Panel) -> dict[str, tuple[float, float]]:
    """What a panel draws of the unedited model and of an edit, by category."""
    before, after, *beside = panel.series
    assert all(series.x == before.x for series in (after, *beside))
    pairs = zip(before.y, after.y, strict=True)
    return {str(x): (round(a, 9), round(b, 9)) for x, (a, b) in zip(before.x, pairs, strict=True)}


def test_shares_and_differences_of_one_benchmark_have_an_axis_each() -> None:
    about = {"benchmark": "stereoset", "part": "intrasentence"}
    fair = {"ss": 0.5, "ss_by_groups": 0.0}

    def of_type(bias_type: str) -> list[Row]:
        return of_each(
            "benchmark",
            {"ss": 0.6, "ss_by_groups": 0.2},
            dataset="stereoset",
            facets=lambda name: about | {"bias_type": bias_type, "figure": name},
            detail=lambda name: {
                "fair": fair[name],
                "title": name.replace("_", " "),
                "signed": name != "ss",
                "clusters": 4,
            },
        )

    shares, differences = glance(in_memory(of_type("gender"))).panels
    assert points(shares) == {"stereoset ss, intrasentence": (0.6, 0.5)}
    assert points(differences) == {"stereoset ss by groups, intrasentence": (0.2, 0.1)}
    assert (shares.series[-1].y, differences.series[-1].y) == ((0.5,), (0.0,))
    shares, _ = glance(in_memory([*of_type("gender"), *of_type("race")])).panels
    assert {*points(shares)} == {
        f"stereoset ss, intrasentence, {bias_type}" for bias_type in ("gender", "race")
    }
