"""Activation patching: laws of the shares, and a brute-force copy of single patches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.colors import to_rgba

import countergen_edit as ce
from countergen_edit.data.counterfactual import Variation
from countergen_edit.metrics.context import EvaluationContext
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
from countergen_edit.models import LanguageModel, hook_name
from countergen_edit.models.capture import SITES
from countergen_edit.reports.render.figures import NOT_SIGNIFICANT, draw
from countergen_edit.reports.views.locate import LocateView

OUTPUTS = [" a nurse", " a mechanic", " an engineer"]
PAIR = ("Today Jane works as", "Today John works as")
INNER = [site for site in SITES if site not in ("everywhere", "embed")]


def texts_of(model: LanguageModel, *prompts: str) -> tuple[PatchText, ...]:
    people = [prompt.split()[1] for prompt in prompts]
    pairs = zip(prompts, people, strict=True)
    return tuple(
        PatchText.of(model, Variation("", p, who, p.index(who)), OUTPUTS) for p, who in pairs
    )


def moved(model: LanguageModel, place: PatchPlace, position: str = EVERY) -> Any:
    [found] = Patching(model, texts_of(model, *PAIR), ((0, 1),), (position,)).moved(place)
    return found[0]


def log_p(model: LanguageModel, prompt: str, hooks: Any = ()) -> np.ndarray:
    """log P of each output, a pass each."""
    found = []
    for output in OUTPUTS:
        ids = torch.tensor([model.tokenizer(prompt + output).input_ids])
        start = len(model.tokenizer(prompt).input_ids)
        with torch.no_grad(), model.bridge.hooks(fwd_hooks=list(hooks)):
            scores = model.bridge(ids).double().log_softmax(-1)[0]
        places = range(start, ids.shape[1])
        found.append(sum(scores[k - 1, ids[0, k]].item() for k in places))
    return np.array(found)


@pytest.fixture(scope="module")
def whole(testbed: LanguageModel) -> np.ndarray:
    """The difference of the pair."""
    return log_p(testbed, PAIR[0]) - log_p(testbed, PAIR[1])


def test_all_of_the_first_block_moves_all(testbed: LanguageModel, whole: np.ndarray) -> None:
    np.testing.assert_allclose(moved(testbed, PatchPlace("resid_post", 0)), whole, atol=1e-5)


def test_the_last_tokens_of_the_last_block_move_all(testbed: LanguageModel, whole: Any) -> None:
    place = PatchPlace("resid_post", testbed.n_layers - 1)
    np.testing.assert_allclose(moved(testbed, place, LAST), whole, atol=1e-5)
    assert np.abs(moved(testbed, place, "person")).max() < 1e-5


@pytest.mark.parametrize("site", INNER)
def test_a_pair_with_itself_moves_nothing(testbed: LanguageModel, site: str) -> None:
    [text] = texts_of(testbed, PAIR[0])
    [found] = Patching(testbed, (text,), ((0, 0),), POSITIONS).moved(PatchPlace(site, 2))
    assert np.abs(found).max() < 1e-5


def test_all_heads_together_are_the_output_of_attention(testbed: LanguageModel) -> None:
    heads, attention = (moved(testbed, PatchPlace(site, 3)) for site in ("head", "attn_out"))
    np.testing.assert_allclose(heads, attention, atol=1e-5)
    assert np.abs(attention).max() > 1e-3


@pytest.mark.parametrize(
    ("site", "unit"), [*((site, None) for site in INNER), ("head", None), ("head", 1)]
)
@pytest.mark.parametrize("layer", [0, 3])
def test_a_patch_is_that_of_a_pass_per_output(
    testbed: LanguageModel, site: str, layer: int, unit: int | None
) -> None:
    """Names are one token, so that the cells of both runs are the same."""
    name, d = hook_name(testbed, site, layer), testbed.d_model // 4
    features = slice(None) if unit is None else slice(unit * d, (unit + 1) * d)
    person = 1
    found = []
    for output in OUTPUTS:
        kept: list[torch.Tensor] = []
        ids = [torch.tensor([testbed.tokenizer(p + output).input_ids]) for p in PAIR]
        assert ids[0].shape == ids[1].shape
        with (
            torch.no_grad(),
            testbed.bridge.hooks(
                fwd_hooks=[(name, lambda x, hook, kept=kept: kept.append(x.clone()))]
            ),
        ):
            testbed.bridge(ids[0])

        def put(x: torch.Tensor, hook: Any, kept: list[torch.Tensor] = kept) -> torch.Tensor:
            flat = x.flatten(2).clone()
            flat[:, person, features] = kept[0].flatten(2)[:, person, features]
            return flat.view_as(x)

        start = len(testbed.tokenizer(PAIR[0]).input_ids)
        scores = []
        for hooks in ([], [(name, put)]):
            with torch.no_grad(), testbed.bridge.hooks(fwd_hooks=hooks):
                scores.append(testbed.bridge(ids[1]).double().log_softmax(-1)[0])
        places = range(start, ids[1].shape[1])
        change = [sum(s[k - 1, ids[1][0, k]].item() for k in places) for s in scores]
        found.append(change[1] - change[0])
    np.testing.assert_allclose(
        moved(testbed, PatchPlace(site, layer, unit), "person"), found, atol=1e-5
    )


@pytest.fixture(scope="module")
def task() -> Any:
    sets = [{"source": "testbed", "family": "occupations"}]
    few = {"fit": 4, "few": 4, "agreement": 8, "validation": 6, "test": 12}
    return ce.task("gender", {"fit": sets, "validation": sets, "test": sets}, names=few)


def test_shares_depend_on_neither_batches_nor_order(
    testbed: LanguageModel, task: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    templates = templates_of(testbed, task.test, 12, seed=0)
    places = [PatchPlace("resid_post", layer) for layer in (0, 3)]

    def shares(ordered: Any) -> np.ndarray:
        patcher = Patcher(testbed, Patcher(testbed, ordered).with_differences())
        sites = patcher.patched(places, POSITIONS).moved.sum(axis=0)
        heads = patcher.attributed("head").moved.sum(axis=0)
        return np.concatenate([sites, heads])

    first = shares(templates)
    np.testing.assert_allclose(shares(templates[::-1]), first, rtol=1e-4, atol=1e-4)
    monkeypatch.setattr("countergen_edit.models.batching.CPU_TOKENS", 60)
    np.testing.assert_allclose(shares(templates), first, rtol=1e-4, atol=1e-4)


def test_the_planted_difference_is_read_at_the_name_and_written_at_the_end(
    testbed: LanguageModel, task: Any, tmp_path: Path
) -> None:
    rows = (
        Locate(pairs=24, sites=("resid_post",), units=("head",))
        .bound(task)
        .measure(EvaluationContext(testbed, tmp_path, 0), None, "test")
    )
    share = {
        (r.facets["position"], r.facets["layer"]): r
        for r in rows
        if r.metric == MOVED and r.dataset == BIAS and "position" in r.facets
    }
    first, last = share["person", 0.0], share[LAST, float(testbed.n_layers - 1)]
    for row in (first, last):
        assert row.value == pytest.approx(1, abs=0.05)
        assert row.detail["p_adjusted"] < 0.05
    assert abs(share[LAST, 0.0].value) < 0.05
    assert share["person", float(testbed.n_layers - 1)].value == pytest.approx(0, abs=1e-3)
    [correlation] = [r.value for r in rows if r.metric == "moved_correlation" and r.dataset == BIAS]
    assert correlation > 0.8


def test_mistakes_are_refused() -> None:
    for settings, says in (
        ({"pairs": 1}, "below 2"),
        ({"sites": ["resid_pst"]}, "did you mean 'resid_post'"),
        ({"units": ["haed"]}, "did you mean 'head'"),
    ):
        with pytest.raises(ce.UserError, match=says):
            Locate(**settings)


def test_intervals_of_shares_cover_the_truth() -> None:
    """Also where a resample may have next to no group difference in sum."""
    rng, share, hits = np.random.default_rng(0), 0.3, 0
    templates = [PatchTemplate(str(t), (f"{t} a", f"{t} b"), (), ()) for t in range(24)]
    for _ in range(200):
        d = rng.normal(0.3, 0.5, (24, 2))
        moved = share * d + rng.normal(0, 0.2, d.shape)
        sums = ((values * d[:, ::-1]).reshape(-1) for values in (moved, d))
        of_pair, total = sums
        found = Moved(
            templates, [PatchPlace("head", 0, 0)], of_pair[:, None], np.zeros((0, 1)), total
        )
        [own] = found.estimates(0, BIAS)
        assert own.value == pytest.approx(of_pair.sum() / total.sum())
        hits += own.lo <= share <= own.hi
    assert 0.9 <= hits / 200 <= 0.99


# The view

VIEW = LocateView(Locate, "locate")
BIAS_OF = {(0, 0): 0.7, (0, 1): 0.3, (1, 0): 0.005, (1, 1): 0.2}
AGREEMENT_OF = {(0, 0): 0.75, (0, 1): 0.05, (1, 0): 0.6, (1, 1): 0.15}
HALF_WIDTH = 0.2


def row(metric: str, kind: str, head: tuple[int, int], value: float, p: float = 0.001) -> Row:
    place = {"activation": "head", "layer": float(head[0]), "unit": float(head[1])}
    about: dict[str, Any] = {"split": "test", "group_a": "female", "group_b": "male"}
    ends = {"lo": value - HALF_WIDTH, "hi": value + HALF_WIDTH}
    return Row(metric, value, dataset=kind, facets=place, detail={"p_adjusted": p}, **ends, **about)


@pytest.fixture
def results() -> Results:
    heads = [
        row(MOVED, kind, head, value)
        for kind, own in ((BIAS, BIAS_OF), (AGREEMENT, AGREEMENT_OF))
        for head, value in own.items()
    ]
    apart = [row(DIFFERENCE, AGREEMENT, h, BIAS_OF[h] - AGREEMENT_OF[h]) for h in BIAS_OF]
    return Results([*heads, *apart])


def test_cells_whose_interval_contains_0_are_grey(results: Results) -> None:
    [figure] = VIEW.figure(results)
    image = draw(figure).axes[0].images[0]
    grey = image.get_array().mask
    assert grey.tolist() == [[False, True], [False, True]]
    assert image.cmap(np.ma.masked) == pytest.approx(to_rgba(NOT_SIGNIFICANT), abs=0.01)
    middle = image.norm(0.0)
    assert middle == 0.5  # the scale is centred at 0


def test_the_python_call_returns_a_frame_and_draws(testbed: LanguageModel, tmp_path: Path) -> None:
    task = ce.task("gender")
    frame = ce.locate(testbed, task, tmp_path, sites=["attn_out"], units=[], pairs=4)
    moved = frame[frame.metric == MOVED]
    assert {*moved.dataset} == {BIAS, AGREEMENT}
    assert {*moved.activation} == {"attn_out"}
    assert len(moved[moved.dataset == BIAS]) == testbed.n_layers * moved.position.nunique()
    assert (tmp_path / "where_attn_out.png").stat().st_size > 0
