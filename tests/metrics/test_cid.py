"""CID on the testbed, where reasons for failing are planted by nationality."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from countergen_edit.conf_path import conf_dir, read_config
from countergen_edit.data.axis import Axis
from countergen_edit.edits import Edit
from countergen_edit.erasers import LEACE
from countergen_edit.errors import UserError
from countergen_edit.experiments.fit_data import capture_fit_data
from countergen_edit.metrics import Subject, make_metric
from countergen_edit.metrics import cid as cid_module
from countergen_edit.metrics.cid.metric import (
    Cid,
    Continuation,
    Resampling,
    automatic_criteria,
    commonest,
    continuations,
    read_continuations,
    template_set,
    write_continuations,
)
from countergen_edit.testbed import load_axis, load_truth

GROUPS = ("egypt_male", "usa_male")
SETTINGS: dict[str, Any] = read_config("metric", "cid")["cid"]
REASONS = [t for t in SETTINGS["templates"]["others"] if t.endswith("because {subject}")]


def subject(axis: str = "nationality", **more: Any) -> Subject:
    loaded = Axis.from_config(read_config("axis", axis))
    a, b = (group.name for group in loaded.pair())
    return Subject(**{"axis": loaded, "groups": (a, b), "seed": 0, **more})


@pytest.fixture(scope="module")
def edit(testbed) -> Edit:
    """Fitted on fitting names and wordings of the planted family, its layer chosen on others."""
    axis, truth = load_axis("nationality"), load_truth()
    fit = truth.counterfactual_set("reasons", "fit", axis, GROUPS)
    neutral = truth.neutral_texts()[::20]
    data = capture_fit_data(
        testbed, [fit], [], neutral, site="resid_post", layers=None, positions="last"
    )
    wordings = [p.template for p in truth.of("reasons", "validation")]
    held = template_set(axis, wordings, GROUPS, splits=("validation",))
    left = {}
    for layer in range(testbed.n_layers):
        candidate = Edit.at("resid_post", {layer: data.fit(LEACE(), layer).erasure_})
        with cid_module.applied(testbed, candidate):
            found = continuations(testbed, held, (50.0,), max_new_tokens=12, top_k=50)
        left[layer] = np.mean([c.divergence for c in found])
    best = min(left, key=lambda layer: left[layer])
    return Edit.at("resid_post", {best: data.fit(LEACE(), best).erasure_})


@pytest.fixture(scope="module")
def metric() -> Cid:
    made = make_metric("cid", subject(), **SETTINGS | {"templates": REASONS, "names": 2})
    assert isinstance(made, Cid)
    return made


@pytest.fixture(scope="module")
def measured(testbed, metric, edit, tmp_path_factory) -> dict[str, list]:
    store = tmp_path_factory.mktemp("store")
    return {
        label: metric.rows(testbed, e, label, store)
        for label, e in (("none", None), ("leace", edit))
    }


def texts(rows: list, group: str, strength: float) -> set[str]:
    return {
        text
        for row in rows
        if row.metric == "cid_continuations"
        and (row.group_a, row.detail["lambda"]) == (group, strength)
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


def test_greedy_decoding_does_not_show_what_was_planted(measured) -> None:
    for group, country in zip(GROUPS, ("egypt", "usa"), strict=True):
        assert not texts(measured["none"], group, 0.0) & planted_reasons(country)


def test_contrast_brings_up_the_reason_planted_for_the_group(measured) -> None:
    assert texts(measured["none"], "egypt_male", 50.0) <= planted_reasons("egypt")
    assert texts(measured["none"], "usa_male", 50.0) & planted_reasons("usa")
    for strength in (10.0, 50.0):
        assert not texts(measured["none"], "egypt_male", strength) & planted_reasons("usa")


def test_after_a_fitted_edit_it_no_longer_does(measured) -> None:
    for group, country in zip(GROUPS, ("egypt", "usa"), strict=True):
        for strength in (0.0, 10.0, 50.0):
            assert not texts(measured["leace"], group, strength) & planted_reasons(country)


def test_the_summary_figure_falls_with_the_edit(measured) -> None:
    def of(label: str, metric: str) -> list:
        return [row for row in measured[label] if row.metric == metric]

    for before, after in zip(*(of(e, "cid_divergence") for e in ("none", "leace")), strict=True):
        assert before.lo <= before.value <= before.hi
        assert after.value < 0.5 * before.value
    gone = of("leace", "cid_divergence_reduction")
    for row, before, after in zip(
        gone, of("none", "cid_divergence"), of("leace", "cid_divergence"), strict=True
    ):
        assert row.value == pytest.approx(1 - after.value / before.value)


def test_the_lexicon_s_word_is_marked_as_its_own(measured) -> None:
    rows = [row for row in measured["none"] if row.metric == "cid_biased_fraction_automatic"]
    assert len(rows) == 6
    assert all("no person has rated" in row.detail["rated_by"] for row in rows)
    by = {(row.group_a, row.detail["lambda"]): row.value for row in rows}
    assert by["egypt_male", 0.0] == by["usa_male", 50.0] == 0
    assert by["egypt_male", 50.0] == 1


def test_an_edit_is_paired_with_the_model_as_it_came_even_without_its_store(
    testbed, metric, edit, measured, tmp_path: Path
) -> None:
    assert metric.rows(testbed, edit, "leace", tmp_path) == measured["leace"]


def test_what_was_decoded_is_not_decoded_again(
    testbed, metric, measured, tmp_path: Path, monkeypatch
) -> None:
    first = metric.rows(testbed, None, "none", tmp_path)
    monkeypatch.setattr(cid_module, "continuations", lambda *_, **__: pytest.fail("decoded again"))
    assert metric.rows(testbed, None, "none", tmp_path) == first
    assert not list(tmp_path.glob("*.tmp"))


def test_all_pairs_are_decoded_both_ways() -> None:
    data = template_set(load_axis("nationality"), REASONS[:1], GROUPS, names=3)
    found = [c.about for c in cid_module.contrasts_of(data, (0.0, 10.0))]
    assert len(found) == 3 * 3 * 2 * 2
    assert len({(c.group, c.own, c.other, c.strength) for c in found}) == len(found)


def test_the_paper_s_hundred_pairs() -> None:
    """Ten names a group, from all splits."""
    data = template_set(
        load_axis("nationality"), REASONS[:1], GROUPS, splits=("fit", "validation", "test")
    )
    assert len(cid_module.contrasts_of(data, (0.0,))) == 200
    [sample] = data.samples
    assert {v.text.split()[-1] for v in sample.variations} == {"he"}


def test_resampling_draws_templates_and_names() -> None:
    """Weights against the items themselves, repeated as often as drawn."""
    data = template_set(load_axis("nationality"), REASONS, GROUPS, names=3)
    items = [c.about for c in cid_module.contrasts_of(data, (10.0,))]
    draws = Resampling(items, seed=3)
    values = np.arange(len(items), dtype=float)
    weights = draws.weights(items)
    assert (weights[0] == 1).all()
    means = draws.means(items, list(values))
    for k in (1, 17, 400):
        repeated = np.repeat(values, weights[k].astype(int))
        expected = repeated.mean() if len(repeated) else np.nan
        np.testing.assert_allclose(means[k], expected)
    # An item counts as its template, its own name and the other name were drawn.
    by_name = weights[1].reshape(2, 2, 3, 3)  # template, side, own, other
    np.testing.assert_array_equal(by_name[:, 0], by_name[:, 1].transpose(0, 2, 1))
    assert np.linalg.matrix_rank(by_name[0, 0]) <= 1


def test_one_pair_has_no_interval() -> None:
    items = [
        Continuation("t", group, own, other, 0.0, "x", 0.5)
        for group, own, other in (("a", "A", "B"), ("b", "B", "A"))
    ]
    assert Resampling(items, 0).means(items, [1.0, 3.0]).tolist() == [2.0]


@pytest.mark.parametrize("axis", sorted(p.stem for p in (conf_dir() / "axis").glob("*.yaml")))
def test_the_shipped_templates_serve_every_axis(axis: str) -> None:
    metric = make_metric("cid", subject(axis), **SETTINGS)
    assert isinstance(metric, Cid)
    assert metric.data.samples


def test_check_finds_what_would_stop_it(testbed) -> None:
    make_metric("cid", subject(), **SETTINGS).check(testbed)
    for settings, message in (
        ({"top_k": 10**6}, "top_k=1000000 is not between 1 and the vocabulary"),
        ({"strengths": [0, -1]}, "lambda=-1"),
        ({"max_new_tokens": 5000}, "exceed the context"),
    ):
        with pytest.raises(UserError, match=message):
            make_metric("cid", subject(), **SETTINGS | settings).check(testbed)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"templates": ["{faith} is old"]}, "can fill none of the CID templates; its slots are"),
        ({"strengths": []}, "names no lambda"),
        ({"names": 0}, "metric.cid.names=0"),
        ({"splits": ["tset"]}, "did you mean 'test'"),
        ({"tau": 1}, "setting of metric cid 'tau'"),
    ],
)
def test_bad_settings_are_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        make_metric("cid", subject(), **SETTINGS | settings)


def test_a_fitted_wording_is_refused() -> None:
    fit = load_truth().counterfactual_set("reasons", "fit", load_axis("nationality"), GROUPS)
    about = subject(measured=(("fit", [fit]),))
    make_metric("cid", about, **SETTINGS)
    with pytest.raises(UserError, match="figures would be measured on what was fitted"):
        make_metric("cid", about, **SETTINGS | {"templates": [fit.templates[0]]})


@pytest.mark.parametrize(
    ("text", "biased"),
    [
        # What raters of the paper's appendix C agreed on, from the fractions of its figures.
        ("was too fat", True),
        ("was a woman", True),
        ("is gay", True),
        ("was Muslim", True),
        ("had an unnatural accent", True),
        ("had an unprofessional appearance", True),
        ("was too short", False),
        ("was too nervous", False),
        ("didn't know how to use the company's online form", False),
        ("failed the test", False),
        ("had a command of management", False),  # man stands inside of words
    ],
)
def test_the_lexicon_reads_words_and_not_letters(text: str, biased: bool) -> None:
    assert bool(automatic_criteria(text)) is biased


def test_texts_are_counted_without_their_ends() -> None:
    items = [
        Continuation("t", "a", "A", "B", 0.0, text, 0.0)
        for text in (" was late.", "was  late", " left")
    ]
    assert commonest(items) == [("was late", 2), ("left", 1)]


def test_a_damaged_store_is_named(tmp_path: Path) -> None:
    path = tmp_path / "none.jsonl"
    items = [Continuation("t", "a", "A", "B", 0.0, "é\u2028", 0.25)]
    write_continuations(path, items)
    assert read_continuations(path) == items
    path.write_text('{"template": "t"}\n')
    with pytest.raises(UserError, match="line 1 is no continuation"):
        read_continuations(path)
    with pytest.raises(UserError, match="no continuations in"):
        read_continuations(tmp_path / "other.jsonl")
