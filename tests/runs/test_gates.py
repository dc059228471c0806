"""Where the gate of an edit opens: against gates made by hand, and against the edit itself."""

import numpy as np
import pytest
from tqdm import tqdm

from countergen_edit.data.axis import SPLITS
from countergen_edit.data.task import Task
from countergen_edit.data.templates import Template, expand
from countergen_edit.edits import Edit, Placement, applied
from countergen_edit.erasers import AffineErasure, Gate, make_eraser
from countergen_edit.metrics.fits import OPEN, gate_rows
from countergen_edit.models import capture
from countergen_edit.runs.fit_data import openings
from countergen_edit.runs.fits import Candidate, sequential
from countergen_edit.runs.folder import RunFolder
from countergen_edit.runs.runner import Runner
from tests.runs.runs import IDENTITY
from tests.runs.test_audit import make_plan
from tests.runs.test_fit_data import AXIS

TEXTS = ("The house is old.", "It rained on Monday, and nobody went out of the garden.")
PROMPTS = {
    "agreement": [f"{name} said that" for name in ("Jane", "Emily", "John", "Ahmed")],
    "erase": [f"{name} is" for name in ("Jane", "Emily", "John", "Ahmed")],
}


def small_task():
    agreement = expand("said", [Template("{name} said that", (" she", " he"))], AXIS, "fit")
    jobs = [Template("{name} is", (" a nurse", " an engineer"))]
    return Task(
        AXIS,
        ("female", "male"),
        validation=(expand("jobs", jobs, AXIS, "fit"),),
        agreement={"validation": agreement},
        neutral={"validation": TEXTS},
    )


def activations(model, place):
    """At a place, of each kind of text, read text by text."""

    def of(text):
        layers = [] if place.layer is None else [place.layer]
        where = {"sites": [place.site], "layers": layers, "positions": "onward"}
        return capture(model, [text], starts=[0], **where).values[place.site][0]

    last = {kind: np.array([of(text)[-1] for text in texts]) for kind, texts in PROMPTS.items()}
    return {"neutral": np.concatenate([of(text) for text in TEXTS]), **last}


def gated(d, weight):
    """A map that sends a row to the origin in the measure in which the gate is open."""
    return AffineErasure(np.eye(d), np.eye(d), np.zeros(d), Gate(weight, 0.0))


def rows_of(model, place):
    rows = gate_rows(openings(model, small_task(), place), seed=0)
    return {str(row.facets["texts"]): row for row in rows}


def test_a_gate_that_is_open_at_known_tokens(testbed):
    """Solved for: what it is at every token is chosen, on either side of what cuts it off."""
    d = testbed.d_model
    read = activations(testbed, Placement("resid_post", 3, gated(d, np.zeros(d))))
    every = np.concatenate(list(read.values())).astype(np.float64)
    assert len(every) < d
    chosen = np.resize([0.5, -2.0, 3.0, -0.4, 0.75], len(every))
    weight = np.linalg.lstsq(every, chosen, rcond=None)[0]
    rows = rows_of(testbed, Placement("resid_post", 3, gated(d, weight)))
    begin = 0
    for kind, values in read.items():
        wanted = chosen[begin : begin + len(values)]
        begin += len(values)
        row = rows[kind]
        assert row.value == pytest.approx(np.clip(wanted, 0, 1).mean(), abs=1e-4)
        assert row.detail["not_closed"] == (wanted > 0).mean()
        assert row.detail["wholly_open"] == (wanted >= 1).mean()


@pytest.mark.parametrize(("site", "layer"), [("resid_post", 3), ("mlp_out", 1), ("embed", None)])
@pytest.mark.parametrize("has_limit", [False, True])
def test_what_is_closed_is_what_the_edit_leaves_to_the_last_bit(testbed, site, layer, has_limit):
    d = testbed.d_model
    weight = np.random.default_rng(0).normal(size=d)
    plain = Placement(site, layer, gated(d, weight))
    before = activations(testbed, plain)
    norms = np.linalg.norm(np.concatenate(list(before.values())), axis=1)
    place = Placement(site, layer, plain.erasure, float(np.median(norms)) if has_limit else None)
    with applied(testbed, Edit((place,))):
        after = activations(testbed, place)
    shares = set()
    for kind, row in rows_of(testbed, place).items():
        moved = (before[kind] != after[kind]).any(axis=1)
        assert row.detail["not_closed"] == moved.mean(), kind
        shares.add(float(moved.mean()))
    assert shares != {0.0}


def test_a_gate_fitted_in_turn_is_read_under_what_stands_before_it(testbed, tmp_path):
    # Fitted on the families that it is measured on, so that the gate opens there.
    families = [{"source": "testbed", "family": family} for family in ("occupations", "hobbies")]
    names = {"fit": 12, "agreement": 4, "validation": 6, "test": 6}
    data = dict.fromkeys(SPLITS, families)
    task = Task.from_config("gender", data, texts="testbed", names=names)
    folder = RunFolder(tmp_path, {}, IDENTITY)
    plan = make_plan(task=task, layers=(2, 4))
    study = Runner(plan, testbed, task, folder, tqdm(disable=True))
    soft = make_eraser("gated", start="leace", penalty=10.0)  # open in part almost everywhere
    erasers = {2: make_eraser("leace"), 4: soft}
    first, second = sequential(
        [Candidate("resid_post", k, f"e{k}", eraser) for k, eraser in erasers.items()]
    )
    rows = [row for row in study.certificate(second) if row.metric == OPEN]
    assert [row.facets["texts"] for row in rows] == ["neutral", "agreement", "erase"]
    assert {(row.edit, row.split) for row in rows} == {(study.fits.id_of(second), "validation")}
    assert not [row for row in study.certificate(first) if row.metric == OPEN]  # which has no gate
    [place] = study.fits.joined([second]).edit.placements
    with applied(testbed, study.fits.joined([first]).edit):
        under = gate_rows(openings(testbed, task, place), seed=0)
    alone = gate_rows(openings(testbed, task, place), seed=0)
    assert [(row.value, row.detail) for row in rows] == [(row.value, row.detail) for row in under]
    assert [row.value for row in rows] != [row.value for row in alone]
