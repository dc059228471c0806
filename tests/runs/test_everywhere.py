"""Runs whose edits act everywhere: what is fitted, on which tokens, and what is saved."""

from __future__ import annotations

import numpy as np
import pytest

import countergen_edit as ce
from countergen_edit.core.errors import UserError
from countergen_edit.edits.checkpoints import load_checkpoint
from countergen_edit.edits.checkpoints.parity import edited_logits
from countergen_edit.erasers import make_eraser
from countergen_edit.runs.fit_data import capture_sites
from countergen_edit.runs.plan import where
from tests.edits.test_sinks import TEXTS, sunk
from tests.runs.runs import captured
from tests.runs.test_audit import make_task, thin
from tests.runs.test_fit_data import ERASE


@pytest.fixture(scope="module")
def audited(testbed, tmp_path_factory: pytest.TempPathFactory) -> ce.Run:
    return ce.audit(
        testbed,
        thin(make_task(), 6),
        "leace",
        ["r", "agreement"],
        tmp_path_factory.mktemp("everywhere") / "run",
        layers="everywhere",
        successive_halving=False,
        baselines=["steering", "random_map"],
    )


@pytest.mark.slow
def test_each_layers_projection_is_a_candidate_everywhere_about_the_origin(audited, testbed):
    rows = {row.edit: row for row in audited.results.rows if row.eraser == "leace"}
    assert {row.site for row in rows.values()} == {"everywhere"}
    assert {row.layers for row in rows.values()} == {(layer,) for layer in range(6)}
    assert [row.edit for row in audited.results.of("choice", "validation")] == [
        audited.best.named.id
    ]
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
    assert {place.site for own in places.values() for place in own} == {"everywhere"}
    assert places["leace"] == places["random"] == places["random_map"]


@pytest.mark.slow
def test_the_saved_model_is_the_audited_one(audited, testbed, tmp_path):
    saved = audited.best.save(tmp_path / "saved")
    assert saved.form == "folded"
    text = (saved.folder / "README.md").read_text()
    assert "every point of the residual stream, sinks included" in text
    assert "trust_remote_code" not in text
    loaded = load_checkpoint(saved.folder)
    ids = testbed.tokenizer("Jane is a nurse and").input_ids
    with audited.best.on():
        live = edited_logits(testbed, None, ids)
    difference = (edited_logits(loaded, None, ids) - live).abs().max()
    assert difference <= saved.parity.tolerance


def test_no_token_is_left_out_as_a_sink():
    model = sunk("llama")
    place = {"sites": ["resid_post", "everywhere"], "layers": None, "positions": "outputs"}
    data = capture_sites(model, [ERASE], [], TEXTS, **place)
    assert any(data["resid_post"].limits)
    assert data["everywhere"].limits == (None,) * model.n_layers
    np.testing.assert_array_equal(data["everywhere"].values, data["resid_post"].values)


def test_layers_everywhere_stand_for_the_site():
    assert where(["resid_post"], "everywhere") == (("everywhere",), None)
    assert where(["resid_post", "mlp_out"], [2, 3]) == (("resid_post", "mlp_out"), (2, 3))
    with pytest.raises(UserError, match="not mlp_out: leave the site out"):
        where(["mlp_out"], "everywhere")
    with pytest.raises(UserError, match="unknown layers 'everywhre': did you mean 'everywhere'"):
        where(["resid_post"], "everywhre")
