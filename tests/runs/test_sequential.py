"""Layers fitted in turn: each erases what those before it leave, and nothing else changes."""

from __future__ import annotations

from itertools import permutations
from typing import ClassVar

import numpy as np
import pytest

from countergen_edit.core.seeds import unit_seed
from countergen_edit.edits import Edit, LowRankUpdate, NamedEdit
from countergen_edit.edits.record import RECORD, edit_id
from countergen_edit.erasers import BaseEraser, make_eraser
from countergen_edit.erasers.orthogonal import MeanDifference
from countergen_edit.metrics.base import METRICS
from countergen_edit.reports.views.probes import GuardednessView
from countergen_edit.runs.files import EDITS
from countergen_edit.runs.fit_data import capture_sites
from countergen_edit.runs.fits import Candidate, FitCache, sequential
from countergen_edit.runs.folder import RunFolder, read_records
from countergen_edit.runs.run import open_run
from tests.runs import test_search
from tests.runs.runs import IDENTITY, Dying, KilledError, captured, run, value
from tests.runs.test_audit import make_plan, make_task

pytestmark = pytest.mark.slow  # every test is of whole runs

LAYERS = (2, 4)
FAMILIES = ("hobbies",)
LEACE = make_eraser("leace")


def fits_in(path, model, fitted="sequential"):
    plan = make_plan(FAMILIES, layers=LAYERS, fitted=fitted)
    return FitCache(model, plan.tasks[0], RunFolder(path, {}, IDENTITY), plan)


def cells(layers=LAYERS):
    return [Candidate("resid_post", layer, "leace", LEACE) for layer in layers]


def assert_fitted_by_hand(model, place, *before):
    data = captured(model, make_task(FAMILIES), place.layer, Edit(before))
    by_hand = make_eraser("leace").fit(data.at(place.layer), data.group).erasure_
    for part in ("left", "right", "mean"):  # how many threads share a fit is in its last digits
        fitted = getattr(place.erasure, part)
        np.testing.assert_allclose(fitted, getattr(by_hand, part), rtol=1e-6, atol=1e-9)
    assert place.limit == data.limit(place.layer)


def test_candidates_after_the_same_others_share_a_capture_and_are_fitted_as_if_alone(
    testbed, tmp_path, monkeypatch
):
    counted = []

    def counting(*args, **kwargs):
        counted.append(kwargs["layers"])
        return capture_sites(*args, **kwargs)

    monkeypatch.setattr("countergen_edit.runs.fits.capture_sites", counting)
    first, *others = cells((2, 4, 5))
    fits = fits_in(tmp_path / "run", testbed)
    chains = [fits.together([first, other]) for other in others]
    fits.fit_ahead([candidate for chain in chains for candidate in chain])
    for chain in chains:
        before, second = fits.joined(chain).edit.placements
        assert_fitted_by_hand(testbed, before)
        assert_fitted_by_hand(testbed, second, before)
    assert [4, 5] in counted
    assert len(counted) == 2


def test_an_edit_with_an_update_of_weights_has_no_random_directions(testbed, tmp_path):
    fits = fits_in(tmp_path / "run", testbed)
    maps = fits.joined(cells((2,)))
    assert fits.has_control(maps)
    [place] = fits.control(maps).record.places
    assert (place.site, place.layer, place.rank) == ("resid_post", 2, 1)
    factors = LowRankUpdate({"some.matrix": (np.ones((1, 3)), np.ones((4, 1)))})
    update = NamedEdit.of(Edit((), update=factors), "distilled", {})
    assert not fits.has_control(update)
    assert not fits.has_control(NamedEdit.combined([update, maps]))


def test_in_turn_leace_leaves_no_difference_of_means_and_alone_it_does(testbed, tmp_path):
    def difference(*placements):
        data = captured(testbed, make_task(FAMILIES), LAYERS[1], Edit(placements))
        values, groups = data.at(LAYERS[1]).astype(float), make_task(FAMILIES).groups
        a, b = (values[data.group == group].mean(0) for group in groups)
        return float(np.linalg.norm(a - b))

    def left(fitted):
        fits = fits_in(tmp_path / fitted, testbed, fitted)
        return difference(*fits.joined(fits.together(cells())).edit.placements)

    unedited = difference()
    assert unedited > 0.1
    assert left("sequential") < 1e-5 * unedited  # float32 rounds the mean of some hundred rows
    assert left("independent") > 1e-2 * unedited


def plan_of(layers=LAYERS, **more):
    more |= {"erasers": {"leace": LEACE}, "metrics": (METRICS.make("r"),), "layers": layers}
    return make_plan(FAMILIES, **more)


@pytest.fixture(scope="module")
def path(testbed, tmp_path_factory):
    path = tmp_path_factory.mktemp("sequential") / "run"
    run(testbed, plan_of(), path)
    return path


def records_of(path):
    """Id → record of every edit that a run keeps, as its file has it."""
    return {edit: (path / EDITS / edit / RECORD).read_text() for edit in read_records(path)}


def test_the_order_in_which_layers_are_named_does_not_matter(testbed, path, rows, tmp_path):
    assert run(testbed, plan_of(LAYERS[::-1]), tmp_path / "run") == rows
    assert records_of(tmp_path / "run") == records_of(path)
    further = (Candidate(*at, "leace", LEACE) for at in (("embed", None), ("mlp_out", 4)))
    chains = [sequential(order) for order in permutations([*cells(), *further])]
    places = [(cell.site, cell.layer) for cell in chains[0]]
    assert places == [("embed", None), ("resid_post", 2), ("mlp_out", 4), ("resid_post", 4)]
    assert all(chain == chains[0] == sequential(chain) for chain in chains)
    assert [len(cell.after) for cell in chains[0]] == [0, 1, 2, 3]


def test_a_killed_audit_finds_the_same_edits_again(testbed, path, rows, tmp_path):
    # The unedited model and the first layer are recorded; the second is fitted and kept.
    folder = Dying.after(2, tmp_path / "run")
    with pytest.raises(KilledError):
        run(testbed, plan_of(), folder)
    fitted = records_of(tmp_path / "run")
    assert len(fitted) == 3
    assert run(testbed, plan_of(), tmp_path / "run") == rows
    assert records_of(tmp_path / "run") == records_of(path)
    assert fitted.items() <= records_of(path).items()


def test_certificates_are_of_the_rows_that_each_layer_was_fitted_on(testbed, rows, path):
    chain = sequential(cells())
    fits = fits_in(path, testbed)  # takes the edits that the run keeps
    [first] = fits.joined([chain[0]]).edit.placements
    for cell, before in zip(chain, ((), (first,)), strict=True):
        data = captured(testbed, make_task(FAMILIES), LAYERS[len(before)], Edit(before))
        state = unit_seed(0, "certificate", cell.layer) % 2**32
        probes = data.certify(data.fit(LEACE, cell.layer), cell.layer, state)
        for metric, expected in (
            ("linear_probe_accuracy_before", probes.linear_accuracy_before),
            ("nonlinear_probe_accuracy", probes.nonlinear_accuracy_after),
            ("variance_removed", probes.variance_removed),
        ):
            assert value(rows, metric, edit=fits.id_of(cell)) == pytest.approx(expected)


def test_a_layer_is_measured_with_those_it_was_fitted_under(path, rows):
    records = read_records(path)
    measured = {r.edit for r in rows if (r.metric, r.split) == ("bias_removed", "validation")}
    labels = {records[edit].label for edit in measured}
    assert labels == {"leace-1@resid_post.2", "leace-2@resid_post.2+4"}
    certified = {records[r.edit].label for r in rows if r.metric == "linear_probe_accuracy"}
    assert certified == {"leace-1@resid_post.2", "leace-1@resid_post.4 (after resid_post.2)"}
    [tested] = {r.edit for r in rows if r.split == "test" and r.eraser == "leace"}
    assert [part.label for part in records[tested].parts] == sorted(certified)
    sentences = GuardednessView().sentences(open_run(path).results)
    assert any("each fitted on what those before it leave" in s for s in sentences)


def test_alone_every_layer_is_fitted_on_the_unedited_model_bit_for_bit(testbed, tmp_path):
    rows = run(testbed, plan_of(LAYERS[::-1], fitted="independent"), tmp_path / "run")
    records = read_records(tmp_path / "run")
    [tested] = {r.edit for r in rows if r.split == "test" and r.eraser == "leace"}
    parts = records[tested].parts
    assert tested == edit_id("leace", [part.id for part in parts])
    assert records[tested].layers == LAYERS[::-1]
    fits = fits_in(tmp_path / "other", testbed)
    assert [part.id for part in parts] == [fits.id_of(cell) for cell in cells(LAYERS[::-1])]
    for place in RunFolder(tmp_path / "run", {}, IDENTITY).edit(tested).edit.placements:
        assert_fitted_by_hand(testbed, place)
    measured = {r.layers for r in rows if (r.metric, r.split) == ("bias_removed", "validation")}
    assert measured == {(layer,) for layer in LAYERS}


class FailsUnderAnother(MeanDifference):
    fits: ClassVar[int] = 0

    def fit(self, X: object, y: object) -> BaseEraser:
        type(self).fits += 1
        if type(self).fits > len(test_search.LAYERS):
            raise ZeroDivisionError("division by zero")
        return super().fit(X, y)


def test_a_combination_that_cannot_be_fitted_costs_itself_alone(testbed, tmp_path):
    FailsUnderAnother.fits = 0
    plan = test_search.make_plan(erasers={"mine": FailsUnderAnother()})
    rows = run(testbed, plan, tmp_path / "run")
    [failed] = [r for r in rows if r.metric == "error"]
    assert (failed.layers, failed.eraser) == (test_search.LAYERS, "mine")
    assert "/combined/" in failed.unit
    [chosen] = [r for r in rows if r.detail.get("chosen")]
    assert chosen.layers in {(layer,) for layer in test_search.LAYERS}
