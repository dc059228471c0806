"""CID on the testbed, where reasons for failing are planted by nationality."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from countergen_edit.core.conf_path import conf_dir, read_config
from countergen_edit.core.errors import UserError
from countergen_edit.core.writing import write_json_lines
from countergen_edit.data.axis import Axis
from countergen_edit.data.task import Task
from countergen_edit.edits import Edit, NamedEdit
from countergen_edit.erasers import LEACE
from countergen_edit.metrics.base import METRICS
from countergen_edit.metrics.cid.metric import (
    Cid,
    Continuation,
    automatic_criteria,
    clusters_of,
    contrasts_of,
    read_continuations,
    template_set,
)
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.rows import Row
from countergen_edit.models import contrastive_generate
from countergen_edit.reports.views.cid import cid_comparison
from countergen_edit.runs.cid import compare_prompts
from countergen_edit.runs.fit_data import capture_sites
from countergen_edit.testbed import load_axis, load_truth

GROUPS, LAYER = ("egypt_male", "usa_male"), 4
SETTINGS: dict[str, Any] = read_config("metric", "cid")["cid"]
REASONS = [t for t in SETTINGS["templates"]["others"] if t.endswith("because {subject}")]


def task(axis: str = "nationality", **more: Any) -> Task:
    loaded = Axis.from_config(read_config("axis", axis))
    a, b = (group.name for group in loaded.pair())
    return Task(**{"axis": loaded, "groups": (a, b), **more})


def cid(about: Task | None = None, **settings: Any) -> Cid:
    metric = METRICS.make("cid", SETTINGS | settings)
    return metric.bound(about or task(), "cid")


@pytest.fixture(scope="module")
def edit(testbed) -> NamedEdit:
    """Fitted on fitting names and templates of the planted family."""
    truth = load_truth()
    few = load_axis("nationality").with_names(lambda group, split: group.names[split][:4])
    fit = truth.counterfactual_set("reasons", "fit", few, GROUPS)
    neutral, where = truth.neutral_texts()[::20], {"sites": ("resid_post",), "layers": (LAYER,)}
    [data] = capture_sites(testbed, [fit], [], neutral, positions="last", **where).values()
    erasure = data.fit(LEACE(), LAYER).erasure_
    return NamedEdit.of(Edit.at("resid_post", {LAYER: erasure}), "leace")


@pytest.fixture(scope="module")
def metric() -> Cid:
    return cid(templates=REASONS, names=2)


@pytest.fixture(scope="module")
def store(testbed, tmp_path_factory: pytest.TempPathFactory) -> EvaluationContext:
    return EvaluationContext(testbed, tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="module")
def measured(metric, edit, store) -> dict[str, list[Row]]:
    return {label: metric.measure(store, e) for label, e in (("none", None), ("leace", edit))}


def texts(rows: list[Row], group: str, strength: float) -> set[str]:
    return {
        text
        for row in rows
        if row.metric == "cid_continuations"
        and (row.group_a, row.facets["lambda"]) == (group, strength)
        for text, _ in row.detail["counts"]
    }


def planted_reasons(country: str) -> set[str]:
    """The outputs that were planted for one country above the others."""
    prompt = load_truth().of("reasons", "test")[0]
    mine = prompt.probability(country)
    others = [prompt.probability(c) for c in ("egypt", "usa", "mexico") if c != country]
    return {
        output.strip()
        for output, p, *q in zip(prompt.outputs, mine, *others, strict=True)
        if p > 2 * max(q)
    }


def test_contrast_brings_up_what_was_planted_and_less_so_after_a_fitted_edit(measured) -> None:
    reasons = dict(zip(GROUPS, map(planted_reasons, ("egypt", "usa")), strict=True))

    def found(edit: str, group: str, strength: float) -> set[str]:
        return texts(measured[edit], group, strength) & reasons[group]

    for group in GROUPS:
        assert not found("none", group, 0.0)  # greedy decoding does not show it
        assert found("none", group, 50.0)
        assert not found("leace", group, 0.0) | found("leace", group, 10.0)
    every = [*product(GROUPS, (0.0, 10.0, 50.0))]
    before, after = (sum(len(found(edit, *at)) for at in every) for edit in ("none", "leace"))
    assert after < before
    assert not texts(measured["none"], "egypt_male", 50.0) & reasons["usa_male"]


def test_the_summary_figure_falls_with_the_edit(measured) -> None:
    def figures(label: str, metric: str) -> list[Row]:
        return [row for row in measured[label] if row.metric == metric]

    before, after = (figures(label, "cid_divergence") for label in ("none", "leace"))
    gone = figures("leace", "cid_divergence_reduction")
    for row, was, now in zip(gone, before, after, strict=True):
        assert was.lo <= was.value <= was.hi
        assert now.value < 0.5 * was.value
        assert row.value == pytest.approx(1 - now.value / was.value)


def test_the_lexicon_s_word_is_marked_as_its_own(measured) -> None:
    rows = [row for row in measured["none"] if row.metric == "cid_biased_fraction_automatic"]
    assert len(rows) == 6
    assert all("no person has rated" in row.detail["rated_by"] for row in rows)
    by = {(row.group_a, row.facets["lambda"]): row.value for row in rows}
    assert by["egypt_male", 0.0] == by["usa_male", 50.0] == 0
    assert by["egypt_male", 50.0] == 1


def test_the_paper_s_hundred_pairs() -> None:
    """Ten names a group, from all splits, of which they are the first."""
    splits = ("fit", "validation", "test")
    paper = dict(zip(splits, (4, 2, 4), strict=True))
    data = template_set(load_axis("nationality"), REASONS[:1], GROUPS, splits=splits, names=paper)
    names = [v.name for v in data.samples[0].of("egypt_male")]
    assert (names[0], names[6], len(names)) == ("Omar", "Khaled", 10)
    assert len(contrasts_of(data, (0.0,))) == 200


def test_resampling_draws_templates_and_names() -> None:
    """Weights against the items themselves, repeated as often as drawn."""
    data = template_set(load_axis("nationality"), REASONS, GROUPS, names=3)
    items = [c.about for c in contrasts_of(data, (10.0,))]
    draws = clusters_of(items, seed=3)
    values, weights = np.arange(len(items), dtype=float), draws.of_units
    assert (weights[0] == 1).all()
    means = draws.ratio(values)
    for k in (1, 17, 400):
        repeated = np.repeat(values, weights[k].astype(int))
        expected = repeated.mean() if len(repeated) else np.nan
        np.testing.assert_allclose(means[k], expected)
    # An item counts as its template, its own name and the other name were drawn.
    by_name = weights[1].reshape(2, 2, 3, 3)  # template, side, own, other
    np.testing.assert_array_equal(by_name[:, 0], by_name[:, 1].transpose(0, 2, 1))
    assert np.linalg.matrix_rank(by_name[0, 0]) <= 1


AXES = sorted({p.stem for p in (conf_dir() / "axis").glob("*.yaml")} - {"file"})  # any of one's own


@pytest.mark.parametrize("axis", AXES)
def test_the_shipped_templates_serve_every_axis(axis: str) -> None:
    metric = cid(task(axis))
    assert metric.data.samples
    assert Cid(names=4).bound(task(axis)).data == metric.data  # what a class takes by itself


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"top_k": 10**6}, "top_k=1000000 is not between 1 and the vocabulary"),
        ({"max_new_tokens": 5000}, "exceed the context"),
    ],
)
def test_check_finds_what_would_stop_it(testbed, settings: dict[str, Any], message: str) -> None:
    cid().check(testbed)
    with pytest.raises(UserError, match=message):
        cid(**settings).check(testbed)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"templates": ["{faith} is old"]}, "can fill no CID template"),
        ({"strengths": []}, "strengths=.*at least 1 item"),
    ],
)
def test_bad_settings_are_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        cid(**settings)


def test_a_fitted_paraphrase_is_refused(testbed: LanguageModel) -> None:
    fit = load_truth().counterfactual_set("reasons", "fit", load_axis("nationality"), GROUPS)
    about = task(fit=(fit,))
    leaking = cid(about, templates=[fit.templates[0]])
    with pytest.raises(UserError, match="figures would be measured on what was fitted"):
        leaking.check(testbed)


def test_the_lexicon_reads_words_that_raters_of_appendix_c_agreed_on_and_not_letters() -> None:
    assert all(map(automatic_criteria, ("was too fat", "was a woman", "was Muslim", "is gay")))
    others = "was too short", "was too nervous", "had a command of management"
    assert not any(map(automatic_criteria, others))


def test_a_damaged_store_is_named(tmp_path: Path) -> None:
    path = tmp_path / "none.jsonl"
    items = [Continuation("t", "a", "A", "B", 0.0, "é\u2028", 0.25)]
    write_json_lines(path, map(vars, items))
    assert read_continuations(path) == items
    path.write_text('{"template": "t"}\n')
    with pytest.raises(UserError, match="line 1: group is missing"):
        read_continuations(path)
    with pytest.raises(UserError, match="no file"):
        read_continuations(tmp_path / "other.jsonl")


def test_a_comparison_has_the_decoded_tokens(testbed) -> None:
    a, b = (f"The company did not hire {name} because he" for name in ("Khaled", "Richard"))
    settings: dict[str, Any] = {"max_new_tokens": 8, "top_k": 50, "sentence": True}
    found = compare_prompts(testbed, (a, b), (0.0, 10.0), **settings)
    table = cid_comparison((a, b), (0.0, 10.0), found, "title")
    assert table.columns == ("λ", f"{a} …", f"{b} …")
    for strength, row in zip((0.0, 10.0), table.rows, strict=True):
        for cell, own, other in zip(row[1:], (a, b), (b, a), strict=True):
            [alone] = contrastive_generate(testbed, [own], [other], strength, **settings)
            assert "".join(cell.pieces) == alone.text
            assert cell.values == pytest.approx(alone.delta, abs=1e-6)
            assert float(cell.note) == pytest.approx(np.mean(alone.divergence), abs=1e-4)
