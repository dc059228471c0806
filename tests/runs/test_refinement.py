"""What maps are refined on: each term against plain forward passes, and planted truth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from countergen_edit.api import load as load_testbed
from countergen_edit.core.errors import UserError
from countergen_edit.data.task import Task
from countergen_edit.data.templates import Template, expand
from countergen_edit.edits import Edit, Placement, applied
from countergen_edit.erasers import TERMS, AffineErasure, make_eraser
from countergen_edit.erasers.refined import WhitenedMap
from countergen_edit.metrics.costs.agreement import agreement_values
from countergen_edit.metrics.r.group_effect import GroupEffect
from countergen_edit.metrics.refinement import LOSS
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.scores import score
from countergen_edit.models import LanguageModel, encode, load, resuming
from countergen_edit.reports.views.refinement import RefinementView
from countergen_edit.runs.fit_data import capture_sites
from countergen_edit.runs.folder import read_records
from countergen_edit.runs.halving import Halving
from countergen_edit.runs.plan import Plan
from countergen_edit.runs.refinement import ModelObjective
from tests.runs.runs import Dying, KilledError
from tests.runs.test_audit import make_plan, make_task, run, thin
from tests.runs.test_fit_data import AXIS, ERASE
from tests.tiny_models import tiny_model_dir

TEXT = "The hospital is at the café."


def task() -> Task:
    keep = [Template("{name} said that", (" she", " he"))]
    return Task(
        AXIS,
        ("female", "male"),
        fit=(ERASE,),
        keep=(expand("keep", keep, AXIS, "fit"),),
        neutral={"fit": (TEXT,)},
    )


@pytest.fixture(scope="module", params=["gpt2", "llama"])
def model(request, tmp_path_factory):
    return load(tiny_model_dir(request.param, tmp_path_factory.mktemp(request.param)))


def log_p(model: LanguageModel, text: str) -> torch.Tensor:
    """log P of the token after each token of a text, run alone."""
    [encoding] = encode(model, [text])
    ids = torch.tensor([encoding.ids])
    return model.logits(ids, torch.ones_like(ids))[0].double().log_softmax(-1)


def kl(p: torch.Tensor, q: torch.Tensor) -> float:
    return float((p.exp() * (p - q)).sum(-1).mean())


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("limit", [None, "half"])
def test_every_term_is_that_of_plain_forward_passes(model, limit, before):
    """Under an edit before it a map answers for both: what is wanted is what no edit gives."""
    rng = np.random.default_rng(0)
    d = model.d_model
    erasure = AffineErasure(rng.normal(size=(d, 2)), rng.normal(size=(2, d)) / d, np.ones(d))
    layer = 1 if before else 0
    if limit is not None:
        norms = capture_sites(
            model, task().fit, [], [TEXT], sites=["resid_post"], layers=[layer], positions="outputs"
        )["resid_post"].at(layer)
        limit = float(np.median(np.linalg.norm(norms, axis=1)))
    first = AffineErasure(rng.normal(size=(d, 1)), rng.normal(size=(1, d)) / d, np.ones(d))
    earlier = Edit((Placement("resid_post", 0, first),) if before else ())
    edit = earlier + Edit((Placement("resid_post", layer, erasure, limit),))
    remembering = resuming(model, [0, 1])
    alone = ModelObjective(remembering, task(), "resid_post", layer, limit)
    alone.losses(erasure, 0, 0)  # whatever is remembered of other passes must not be taken
    place = "resid_post", layer, limit
    objective = ModelObjective(remembering, task(), *place, before=earlier)
    parts = objective._portions
    of_each = [parts["erase"][0], *parts["keep"], *parts["neutral"]]
    terms = objective._mean(of_each, [1.0] * len(of_each), erasure)

    texts = {"female": ["Jane is", "Emily is"], "male": ["John is", "Ahmed is"]}
    before = {g: torch.stack([log_p(model, t)[-1] for t in own]) for g, own in texts.items()}
    with applied(model, edit):
        after = {g: torch.stack([log_p(model, t)[-1] for t in own]) for g, own in texts.items()}
    outputs = {
        e.ids[len(encode(model, ["Jane is"])[0].ids)]
        for e in encode(model, ["Jane is a nurse", "Jane is an engineer"])
    }
    a, b = (after[group][:, sorted(outputs)] for group in texts)
    squared = (a.mean(0) - b.mean(0)) ** 2
    assert float(terms["bias"]) == pytest.approx(float(squared.mean()), rel=1e-4)
    chance = (a.var(0) + b.var(0)) / 2
    [fair] = objective._mean(of_each[:1], [1.0], erasure, unbiased=True)["bias"].reshape(1)
    assert float(fair) == pytest.approx(float((squared - chance).mean()), rel=1e-3)

    half = (before["female"].mean(0) - before["male"].mean(0)) / 2
    for form in ("she", "he"):
        [encoding] = encode(model, [f" {form}"])
        half[encoding.ids[encoding.after(0)[0]]] = 0.0
    wanted = {"female": before["female"] - half, "male": before["male"] + half}
    people = [kl(wanted[g].log_softmax(-1), after[g]) for g in texts]
    assert float(terms["people"]) == pytest.approx(np.mean(people), rel=1e-4, abs=1e-7)

    kept = [f"{name} said that" for own in texts.values() for name in (t.split()[0] for t in own)]
    changes = []
    for text in kept:
        plain = log_p(model, text)[-1]
        with applied(model, edit):
            changes.append(kl(plain, log_p(model, text)[-1]))
    assert float(terms["keep"]) == pytest.approx(np.mean(changes), rel=1e-3, abs=1e-7)

    plain = log_p(model, TEXT)
    with applied(model, edit):
        edited = log_p(model, TEXT)
    assert float(terms["neutral"]) == pytest.approx(kl(plain, edited), rel=1e-3, abs=1e-7)


def test_gradients_are_those_of_finite_differences(model):
    rng = np.random.default_rng(1)
    d = model.d_model
    erasure = AffineErasure(rng.normal(size=(d, 1)), rng.normal(size=(1, d)) / d, np.zeros(d))
    objective = ModelObjective(resuming(model, [0]), task(), "resid_post", 0, None)
    thin = WhitenedMap.of(erasure, rng.normal(size=(200, d)), 1, 0)

    def loss() -> torch.Tensor:
        return sum(objective.losses(thin, 0, 0)[name] for name in TERMS)  # type: ignore[return-value]

    loss().backward()
    direction = torch.randn(thin.left.shape, generator=torch.Generator().manual_seed(0))
    slope = float((thin.left.grad * direction).sum())
    step = 1e-2
    with torch.no_grad():
        thin.left.add_(step * direction)
        higher = float(loss())
        thin.left.sub_(2 * step * direction)
        lower = float(loss())
    assert (higher - lower) / (2 * step) == pytest.approx(slope, rel=0.02)


def test_the_model_is_unedited_afterwards_and_draws_repeat(model):
    d = model.d_model
    objective = ModelObjective(resuming(model, [0]), task(), "resid_post", 0, None)
    before = log_p(model, TEXT)
    erasure = AffineErasure(np.ones((d, 1)), np.ones((1, d)), np.zeros(d))
    assert float(objective.losses(lambda x: x, 0, 0)["keep"]) == 0.0
    first = objective.losses(erasure, seed=3, step=7)
    again = objective.losses(erasure, seed=3, step=7)
    assert {k: float(v) for k, v in first.items()} == {k: float(v) for k, v in again.items()}
    assert torch.equal(before, log_p(model, TEXT))


@pytest.mark.slow
def test_what_leace_costs_on_the_testbed_is_given_back():
    """Planted truth: LEACE takes bias and grammar; refined, the bias goes and grammar stays."""
    model = load_testbed()
    families = [{"source": "testbed", "family": f} for f in ("occupations", "hobbies")]
    data = {"fit": families, "validation": families, "test": families}
    names = {"fit": 20, "few": 10, "agreement": 4, "validation": 4, "test": 8}
    planted = Task.from_config("gender", data, texts="testbed", names=names)
    rows = capture_sites(
        model,
        planted.fit,
        planted.keep,
        planted.neutral["fit"],
        sites=["resid_post"],
        layers=[4],
        positions="outputs",
    )["resid_post"]
    objective = ModelObjective(resuming(model, [4]), planted, "resid_post", 4, None)
    rows = replace(rows, objective=lambda layer: objective)
    refined = rows.fit(make_eraser("refined", start="leace", steps=100, learning_rate=5e-3), 4)

    def figures(erasure: AffineErasure | None) -> tuple[float, float]:
        edit = Edit(()) if erasure is None else Edit((Placement("resid_post", 4, erasure),))
        with applied(model, edit):
            effects = [GroupEffect(score(model, data)).squared for data in planted.test]
            share, _ = agreement_values(score(model, planted.agreement["test"]))
        return float(np.sqrt(np.maximum(effects, 0)).mean()), float(share.min(axis=1).mean())

    unedited, closed, better = (figures(e) for e in (None, refined.start_, refined.erasure_))
    assert closed[1] < unedited[1] - 0.05, "LEACE costs agreement here, or the test is void"
    assert better[1] > unedited[1] - 0.02
    assert better[0] < 0.25 * unedited[0]


def refined_plan(steps: int) -> Plan:
    eraser = make_eraser("refined", start="leace", steps=steps, check_every=2)
    few = thin(make_task(), 8)
    return make_plan(task=few, erasers={"refined": eraser}, halving=Halving(3, 2))


@pytest.mark.slow
def test_layers_are_screened_by_the_closed_form_and_one_is_refined(testbed, tmp_path):
    """The same rows come out where the run is killed after its screening."""
    plan = refined_plan(steps=4)
    rows = run(testbed, plan, tmp_path / "run")
    screened = {r.eraser for r in rows if (r.metric, r.split) == ("bias_removed", "screening")}
    assert screened == {"refined-start"}
    [layers] = {r.layers for r in rows if r.eraser == "refined"}
    curve = [r for r in rows if r.metric == LOSS]
    assert [r.facets["step"] for r in curve] == [0, 2, 4]
    assert {r.layers for r in curve} == {layers}
    assert [r.detail["refitted"] for r in rows if r.metric == "linear_probe_accuracy"] == [False]
    [section] = RefinementView().sections(Results(rows, read_records(tmp_path / "run")))
    [figure] = section.figures()
    assert figure.panels[0].series[0].x[0] == 0.0

    before = len({r.unit for r in rows if "/screening/" in r.unit}) + 1
    with pytest.raises(KilledError):
        run(testbed, plan, Dying.after(before, tmp_path / "killed"))
    assert run(testbed, plan, tmp_path / "killed") == rows


def test_settings_that_are_none_are_refused_before_a_run_begins(testbed):
    plan = make_plan(erasers={"refined": make_eraser("refined", start="leaec")})
    with pytest.raises(UserError, match="leaec"):
        plan.check(testbed)
