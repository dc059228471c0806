"""Baselines of an audit (prompting, steering, a random map) are measured and never selected."""

import copy
from dataclasses import replace

import numpy as np
import pytest

from countergen_edit.core.errors import UserError
from countergen_edit.decisions.selection import choose, points
from countergen_edit.erasers import make_eraser
from countergen_edit.metrics.base import METRICS
from countergen_edit.metrics.r.formula import r_values
from countergen_edit.metrics.scores import score
from countergen_edit.models import in_template, load_model
from countergen_edit.runs.baselines import Prompting, RandomMap, Steering
from countergen_edit.runs.files import RESULTS
from countergen_edit.runs.fit_data import capture_sites
from countergen_edit.runs.folder import RunFolder, read_records
from countergen_edit.runs.plan import Plan
from countergen_edit.runs.run import open_run
from tests.runs.runs import IDENTITY, resumed
from tests.runs.runs import run as audited
from tests.runs.test_search import make_task
from tests.tiny_models import tiny_model_dir

TEMPLATE = "{% for m in messages %}{{ m['content'] }}\n{% endfor %}"
REQUESTS = {"fair": "Be fair.", "alike": "{a}={b}"}
LAYER = 1


@pytest.fixture(scope="module")
def task():
    return make_task()


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    model = load_model(tiny_model_dir("gpt2", tmp_path_factory.mktemp("gpt2")))
    model.tokenizer.chat_template = TEMPLATE
    return in_template(model, "none", "Write.")


def plan_of(task, **changes):
    ways = {"prompting": Prompting(REQUESTS), "steering": Steering([-1.0, 2.0])}
    ways["random_map"] = RandomMap()
    metrics = tuple(METRICS.make(name) for name in ("r", "agreement", "perplexity", "kl"))
    erasers = {"leace": make_eraser("leace"), "inlp": make_eraser("inlp", rank=2)}
    settings = {"layers": (LAYER,), "together": True, "baselines": ways}
    return Plan(tasks=[task], erasers=erasers, metrics=metrics, **settings | changes)


@pytest.fixture(scope="module")
def path(model, task, tmp_path_factory):
    path = tmp_path_factory.mktemp("baseline") / "run"
    plan = plan_of(task)
    plan.check(model)
    audited(model, plan, path)
    assert replace(model).fingerprint == model.fingerprint  # of the weights as they are now
    return path


@pytest.fixture(scope="module")
def run(path):
    return open_run(path)


def of_kind(run, kind):
    return [record for record in run.results.baselines if record.baseline_kind == kind]


def edit(path, record):
    return RunFolder(path, {}, IDENTITY).edit(record.id)


def test_each_request_the_template_alone_one_steering_and_a_map_of_each_edit_are_tested(run):
    labels = [record.label for record in run.results.baselines]
    assert labels[:3] == ["prompting (template alone)", "prompting (fair)", "prompting (alike)"]
    assert labels[3].startswith(f"steering@resid_post.{LAYER} (strength ")
    of_maps = ((1, "leace"), (2, "inlp"))
    assert labels[4:] == [f"random_map-{k}@resid_post.{LAYER} (of {name})" for k, name in of_maps]
    for record in run.results.baselines:
        measured = {r.metric for r in run.results.rows if (r.edit, r.split) == (record.id, "test")}
        assert {"group_effect", "agreement", "perplexity_ratio", "kl"} <= measured


def test_what_is_asked_goes_through_the_template(run, path, model, task):
    records = run.results.baselines[:3]
    assert [(r.baseline_kind, edit(path, r).edit.preface) for r in records] == [
        ("template", "Write.\n"),
        ("prompting", "Be fair. Write.\n"),
        ("prompting", "women=men Write.\n"),
    ]
    tokenizer = copy.copy(model.tokenizer)
    tokenizer.chat_template = None
    plain = replace(model, tokenizer=tokenizer)
    messages = Prompting(REQUESTS).messages(plain, task)
    assert list(messages) == ["fair", "alike"]
    assert Prompting(REQUESTS).preface(plain, messages["alike"]) == "women=men\n"


def test_the_figures_of_asking_are_those_of_the_words_before_every_text(run, path, model, task):
    record, _ = of_kind(run, "prompting")
    asked = model.with_preface(model.tokenizer("Be fair. Write.\n").input_ids)
    expected = abs(r_values(score(asked, task.test[0]))).mean()
    [row] = run.results.of("mean_abs_r", "test", record.id)
    assert row.value == pytest.approx(expected, abs=1e-6)
    assert row.baseline


def test_steering_subtracts_the_difference_of_the_groups_means(run, path, model, task):
    [record] = of_kind(run, "steering")
    [place] = edit(path, record).edit.placements
    data = capture_sites(
        model, task.fit, (), (), sites=("resid_post",), layers=[LAYER], positions="outputs"
    )["resid_post"]
    values = data.at(LAYER).astype(float)
    first, second = (values[data.group == group].mean(0) for group in task.groups)
    expected = -record.params["strength"] * (first - second)
    np.testing.assert_allclose(place.erasure.vector, expected, rtol=1e-4, atol=1e-6)
    assert place.limit == data.limit(LAYER)


def test_its_strength_is_the_one_of_the_rule_on_validation_data(run):
    [chosen] = of_kind(run, "steering")
    tried = [r for r in read_records(run.path).values() if r.baseline_kind == "steering"]
    assert sorted(r.params["strength"] for r in tried) == [-1.0, 2.0]
    costs = [METRICS.make(name) for name in ("agreement", "perplexity", "kl")]
    for cost in costs:
        cost.name = type(cost).__name__.lower()
    every = points(run.results.rows, "validation", costs, baselines=True)
    ids = {r.id for r in tried}
    assert choose([p for p in every if p.edit in ids]).edit == chosen.id
    assert not ids & {p.edit for p in points(run.results.rows, "validation", costs)}


def test_the_random_map_is_the_edits_own_between_other_directions(run, path):
    edits = {r.eraser: r for r in run.results.shown}
    for record in of_kind(run, "random_map"):
        [fitted] = edit(path, edits[record.variant.removeprefix("of ")]).edit.placements
        [drawn] = edit(path, record).edit.placements
        maps = (place.erasure.left @ place.erasure.right for place in (fitted, drawn))
        sizes, drawn_sizes = (np.linalg.svd(m, compute_uv=False) for m in maps)
        np.testing.assert_allclose(drawn_sizes, sizes, atol=1e-9)
        assert (drawn.site, drawn.layer, drawn.limit) == (fitted.site, fitted.layer, fitted.limit)
        assert np.abs(drawn.erasure.left - fitted.erasure.left).max() > 1e-3


@pytest.mark.slow
def test_a_killed_audit_goes_on_to_the_same_rows_and_a_finished_one_makes_nothing(
    model, task, path, tmp_path, monkeypatch
):
    again = tmp_path / "run"
    assert resumed(model, plan_of(task), again, 7) == (path / RESULTS).read_bytes()
    capturing = "countergen_edit.runs.fits.capture_sites"
    monkeypatch.setattr(capturing, lambda *_, **__: pytest.fail("captured again"))
    audited(model, plan_of(task), again)
    assert (again / RESULTS).read_bytes() == (path / RESULTS).read_bytes()


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Prompting({"mine": "Treat {women} alike."}), r"request 'mine', .*\('women'\)"),
        (lambda: Prompting({"mine": "Treat {a alike."}), r"request 'mine', .*expected '}'"),
        (lambda: Prompting({}), "requests is empty"),
        (lambda: Steering([float("nan")]), "numbers other than 0"),
        (lambda: Steering([]), "numbers other than 0"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(make, says):
    with pytest.raises(UserError, match=says) as error:
        make()
    assert "\n" not in str(error.value)


def test_a_request_that_leaves_no_room_and_a_choice_without_data_are_refused_at_the_door(
    model, task
):
    long = {"prompting": Prompting({"long": "Jane is a nurse. " * 30})}
    with pytest.raises(UserError, match="exceeds the context"):
        plan_of(task, baselines=long).check(model)
    unchosen = replace(task, validation=())
    with pytest.raises(UserError, match=r"baseline\.steering\.strengths=\[1\]"):
        plan_of(unchosen).check(model)
