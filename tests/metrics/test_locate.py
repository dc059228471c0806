"""Activation patching: laws of the shares, and a brute-force copy of single patches."""

import numpy as np
import pytest
from matplotlib.colors import to_rgba
from numpy.testing import assert_allclose

import countergen_edit as ce
from countergen_edit.data.counterfactual import Variation
from countergen_edit.metrics.locate import (
    AGREEMENT,
    BIAS,
    DIFFERENCE,
    EVERY,
    LAST,
    MOVED,
    POSITIONS,
    Locate,
    Moved,
    Patcher,
    Patching,
    PatchPlace,
    PatchTemplate,
    PatchText,
    templates_of,
)
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import Row
from countergen_edit.models import hook_name
from countergen_edit.models.capture import SITES
from countergen_edit.reports.render.figures import NOT_SIGNIFICANT, draw
from countergen_edit.reports.views.locate import LocateView
from tests.metrics.small import log_p, rows_of

OUTPUTS = [" a nurse", " a mechanic", " an engineer"]
PAIR = ("Today Jane works as", "Today John works as")
INNER = [site for site in SITES if site not in ("everywhere", "embed")]


def texts_of(model, *prompts):
    people = [prompt.split()[1] for prompt in prompts]
    pairs = zip(prompts, people, strict=True)
    return tuple(
        PatchText.of(model, Variation("", p, who, p.index(who)), OUTPUTS) for p, who in pairs
    )


def moved(model, place, position=EVERY):
    [of_pair] = Patching(model, texts_of(model, *PAIR), ((0, 1),), (position,)).moved(place)
    return of_pair[0]


def log_p_of_outputs(model, prompt, *hooks):
    """A pass each."""
    with model.bridge.hooks(fwd_hooks=[*hooks]):
        return np.array([log_p(model, prompt, output) for output in OUTPUTS])


@pytest.fixture(scope="module")
def whole(testbed):
    return np.subtract(*(log_p_of_outputs(testbed, prompt) for prompt in PAIR))


def test_all_of_the_first_block_moves_all(testbed, whole):
    assert_allclose(moved(testbed, PatchPlace("resid_post", 0)), whole, atol=1e-5)


def test_the_last_tokens_of_the_last_block_move_all(testbed, whole):
    place = PatchPlace("resid_post", testbed.n_layers - 1)
    assert_allclose(moved(testbed, place, LAST), whole, atol=1e-5)
    assert np.abs(moved(testbed, place, "person")).max() < 1e-5


@pytest.mark.parametrize("site", INNER)
def test_a_pair_with_itself_moves_nothing(testbed, site):
    texts = texts_of(testbed, PAIR[0])
    [of_pair] = Patching(testbed, texts, ((0, 0),), POSITIONS).moved(PatchPlace(site, 2))
    assert np.abs(of_pair).max() < 1e-5


def test_all_heads_together_are_the_output_of_attention(testbed):
    heads, attention = (moved(testbed, PatchPlace(site, 3)) for site in ("head", "attn_out"))
    assert_allclose(heads, attention, atol=1e-5)
    assert np.abs(attention).max() > 1e-3


@pytest.mark.parametrize(
    ("site", "unit"), [*((site, None) for site in INNER), ("head", None), ("head", 1)]
)
@pytest.mark.parametrize("layer", [0, 3])
def test_a_patch_is_that_of_a_pass_per_output(testbed, site, layer, unit):
    """Names are one token, so that the cells of both runs are the same."""
    name, d = hook_name(testbed, site, layer), testbed.d_model // 4
    features = slice(None) if unit is None else slice(unit * d, (unit + 1) * d)
    person = 1
    kept = []

    def keep(x, hook):
        kept.append(x.flatten(2).clone())

    def put(x, hook):
        flat = x.flatten(2).clone()
        flat[:, person, features] = kept.pop(0)[:, person, features]
        return flat.view_as(x)

    log_p_of_outputs(testbed, PAIR[0], (name, keep))
    patched = log_p_of_outputs(testbed, PAIR[1], (name, put))
    expected = patched - log_p_of_outputs(testbed, PAIR[1])
    place = PatchPlace(site, layer, unit)
    assert_allclose(moved(testbed, place, "person"), expected, atol=1e-5)


@pytest.fixture(scope="module")
def task():
    sets = [{"source": "testbed", "family": "occupations"}]
    few = {"fit": 4, "few": 4, "agreement": 8, "validation": 6, "test": 12}
    return ce.task("gender", {"fit": sets, "validation": sets, "test": sets}, names=few)


def test_shares_depend_on_neither_batches_nor_order(testbed, task, monkeypatch):
    templates = templates_of(testbed, task.test, 12, seed=0)
    places = [PatchPlace("resid_post", layer) for layer in (0, 3)]

    def shares(templates):
        patcher = Patcher(testbed, Patcher(testbed, templates).with_differences())
        moved = patcher.patched(places, POSITIONS), patcher.attributed("head")
        return np.concatenate([part.moved.sum(axis=0) for part in moved])

    first = shares(templates)
    assert_allclose(shares(templates[::-1]), first, rtol=1e-4, atol=1e-4)
    monkeypatch.setattr("countergen_edit.models.batching.CPU_TOKENS", 60)
    assert_allclose(shares(templates), first, rtol=1e-4, atol=1e-4)


def test_the_planted_difference_is_read_at_the_name_and_written_at_the_end(on_testbed, task):
    locate = Locate(pairs=24, sites=("resid_post",), units=("head",)).bound(task)
    rows = locate.measure(on_testbed, None)
    last_layer = float(on_testbed.model.n_layers - 1)
    share = {
        (r.facets["position"], r.facets["layer"]): r
        for r in rows_of(rows, MOVED)
        if r.dataset == BIAS and "position" in r.facets
    }
    first, last = share["person", 0.0], share[LAST, last_layer]
    for row in (first, last):
        assert row.value == pytest.approx(1, abs=0.05)
        assert row.detail["p_adjusted"] < 0.05
    assert abs(share[LAST, 0.0].value) < 0.05
    assert share["person", last_layer].value == pytest.approx(0, abs=1e-3)
    [correlation] = [r.value for r in rows_of(rows, "moved_correlation") if r.dataset == BIAS]
    assert correlation > 0.8


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"pairs": 1}, "below 2"),
        ({"sites": ["resid_pst"]}, "did you mean 'resid_post'"),
        ({"units": ["haed"]}, "did you mean 'head'"),
    ],
)
def test_mistakes_are_refused(settings, message):
    with pytest.raises(ce.UserError, match=message):
        Locate(**settings)


def test_intervals_of_shares_cover_the_truth():
    """Also where a resample may have next to no group difference in sum."""
    rng, share, hits = np.random.default_rng(0), 0.3, 0
    templates = [PatchTemplate(str(t), (f"{t} a", f"{t} b"), (), ()) for t in range(24)]
    for _ in range(200):
        d = rng.normal(0.3, 0.5, (24, 2))
        moved = share * d + rng.normal(0, 0.2, d.shape)
        of_pair, total = ((values * d[:, ::-1]).reshape(-1) for values in (moved, d))
        places = [PatchPlace("head", 0, 0)]
        heads = Moved(templates, places, of_pair[:, None], np.zeros((0, 1)), total)
        [estimate] = heads.estimates(0, BIAS)
        assert estimate.value == pytest.approx(of_pair.sum() / total.sum())
        hits += estimate.lo <= share <= estimate.hi
    assert 0.9 <= hits / 200 <= 0.99


# The view

BIAS_OF = {(0, 0): 0.7, (0, 1): 0.3, (1, 0): 0.005, (1, 1): 0.2}
AGREEMENT_OF = {(0, 0): 0.75, (0, 1): 0.05, (1, 0): 0.6, (1, 1): 0.15}


def row(metric, kind, head, value):
    about = {"split": "test", "group_a": "female", "group_b": "male", "dataset": kind}
    about["facets"] = {"activation": "head", "layer": float(head[0]), "unit": float(head[1])}
    return Row(metric, value, lo=value - 0.2, hi=value + 0.2, detail={"p_adjusted": 0.001}, **about)


def test_cells_whose_interval_contains_0_are_grey():
    rows = []
    for head, of_bias in BIAS_OF.items():
        of_agreement = AGREEMENT_OF[head]
        rows += [row(MOVED, BIAS, head, of_bias), row(MOVED, AGREEMENT, head, of_agreement)]
        rows.append(row(DIFFERENCE, AGREEMENT, head, of_bias - of_agreement))
    [figure] = LocateView(Locate, "locate").figure(Results(rows))
    image = draw(figure).axes[0].images[0]
    grey = image.get_array().mask
    assert grey.tolist() == [[False, True], [False, True]]
    assert image.cmap(np.ma.masked) == pytest.approx(to_rgba(NOT_SIGNIFICANT), abs=0.01)
    assert image.norm(0.0) == 0.5


def test_the_python_call_returns_a_frame_and_draws(testbed, tmp_path):
    task = ce.task("gender")
    frame = ce.locate(testbed, task, tmp_path, sites=["attn_out"], units=[], pairs=4)
    moved = frame[frame.metric == MOVED]
    assert {*moved.dataset} == {BIAS, AGREEMENT}
    assert {*moved.activation} == {"attn_out"}
    assert len(moved[moved.dataset == BIAS]) == testbed.n_layers * moved.position.nunique()
    assert (tmp_path / "where_attn_out.png").stat().st_size > 0
