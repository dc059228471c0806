"""Runs whose edits act everywhere: what is fitted, on which tokens, and what is saved."""

import numpy as np
import pytest

import countergen_edit as ce
from countergen_edit.core.errors import UserError
from countergen_edit.edits.checkpoints import load_checkpoint
from countergen_edit.edits.checkpoints.parity import edited_logits
from countergen_edit.erasers import AffineErasure, make_eraser
from countergen_edit.runs.fit_data import capture_sites
from countergen_edit.runs.plan import where
from tests.edits.test_sinks import TEXTS, sunk
from tests.planted_sink import SUNK, planted_sink, sink_direction
from tests.runs.runs import captured
from tests.runs.test_audit import make_task, thin
from tests.runs.test_fit_data import ERASE


@pytest.fixture(scope="module")
def audited(testbed, tmp_path_factory):
    how = {"layers": "everywhere", "successive_halving": False}
    how["baselines"] = ["steering", "random_map"]
    folder = tmp_path_factory.mktemp("everywhere") / "run"
    return ce.audit(testbed, thin(make_task(), 6), "leace", ["r", "agreement"], folder, **how)


@pytest.mark.slow
def test_each_layers_projection_is_a_candidate_everywhere_about_the_origin(audited, testbed):
    rows = {row.edit: row for row in audited.results.rows if row.eraser == "leace"}
    assert {row.site for row in rows.values()} == {"everywhere"}
    assert {row.layers for row in rows.values()} == {(layer,) for layer in range(6)}
    [choice] = audited.results.of("choice", "validation")
    assert choice.edit == audited.best.named.id
    for edit, row in rows.items():
        [place] = audited.edits[edit].edit.placements
        data = captured(testbed, thin(make_task(), 6), row.layers[0])
        by_hand = make_eraser("leace").fit(data.at(row.layers[0]), data.group).erasure_
        np.testing.assert_allclose(place.erasure.left, by_hand.left, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(place.erasure.right, by_hand.right, rtol=1e-6, atol=1e-9)
        assert not place.erasure.mean.any()
        assert place.limit is None


@pytest.mark.slow
def test_its_control_and_its_baselines_act_everywhere_too(audited):
    results = audited.results
    tested = {row.edit for row in results.rows if row.split == "test"} - {"none"}
    records = [results.records[edit] for edit in tested]
    assert {record.eraser for record in records} == {"leace", "random", "steering", "random_map"}
    places = {record.eraser: record.places for record in records}
    assert {place.site for record in records for place in record.places} == {"everywhere"}
    assert places["leace"] == places["random"] == places["random_map"]


@pytest.mark.slow
def test_the_saved_model_is_the_audited_one(audited, testbed, tmp_path):
    saved = audited.best.save(tmp_path / "saved")
    assert saved.form == "folded"
    text = (saved.folder / "README.md").read_text()
    assert "every point of the residual stream, as fitted after a block" in text
    assert "trust_remote_code" not in text
    loaded = load_checkpoint(saved.folder)
    ids = testbed.tokenizer("Jane is a nurse and").input_ids
    with audited.best.on():
        live = edited_logits(testbed, None, ids)
    difference = (edited_logits(loaded, None, ids) - live).abs().max()
    assert difference <= saved.parity.tolerance


def everywhere(model, **more):
    place = {"sites": ["everywhere"], "layers": None, "positions": "outputs"}
    return capture_sites(model, [ERASE], [], TEXTS, **place, **more)["everywhere"]


@pytest.mark.parametrize("eraser", ["leace", "inlp", "random"])
@pytest.mark.parametrize("family", SUNK)
def test_the_directions_of_sinks_are_not_read(family, eraser):
    along = sink_direction(np.random.default_rng(1).normal(size=32))
    model = planted_sink(family, 300, along)
    data = everywhere(model)
    assert all(limit is not None for limit in data.limits)
    assert 1 <= data.sinks.shape[1] <= 3
    np.testing.assert_allclose(data.sinks.T @ data.sinks, np.eye(data.sinks.shape[1]), atol=1e-12)
    fitted = data.fit(make_eraser(eraser), 0).erasure_
    place = data.placement(0, fitted)
    assert place.limit is None
    assert not place.erasure.mean.any()
    left, right = place.erasure.left, place.erasure.right
    np.testing.assert_allclose(right @ left, np.eye(len(right)), atol=1e-9)
    np.testing.assert_array_equal(left, fitted.left)
    assert np.abs(right @ along).max() < 0.02 < np.abs(fitted.right @ along).max()


def test_without_a_sink_or_where_sinks_are_edited_the_map_is_as_fitted():
    for data in (
        everywhere(planted_sink("llama")),
        everywhere(sunk("llama"), skip_attention_sinks=False),
    ):
        assert not data.sinks.size
        fitted = data.fit(make_eraser("leace"), 0).erasure_
        np.testing.assert_array_equal(data.placement(0, fitted).erasure.right, fitted.right)


def test_a_direction_that_only_sinks_have_is_refused():
    data = everywhere(sunk("llama"))
    [direction, *_] = data.sinks.T
    erasure = AffineErasure.orthogonal(direction[None], np.zeros(len(direction)))
    with pytest.raises(UserError, match=r"skip_attention_sinks=false edits them"):
        data.placement(0, erasure)


def test_layers_everywhere_stand_for_the_site():
    assert where(["resid_post"], "everywhere") == (("everywhere",), None)
    assert where(["resid_post", "mlp_out"], [2, 3]) == (("resid_post", "mlp_out"), (2, 3))
