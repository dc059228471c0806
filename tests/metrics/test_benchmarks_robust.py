"""A killed run of benchmarks ends as one that was not; a served model has the same figures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from countergen_edit.core.errors import UserError
from countergen_edit.metrics.base import METRICS
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.models import LanguageModel, load_model
from countergen_edit.models.served import connect
from countergen_edit.runs.files import MANIFEST
from countergen_edit.runs.folder import RunFolder
from countergen_edit.runs.plan import Plan
from countergen_edit.runs.runner import run as run_plan
from tests.made_benchmarks import long_context_dir, settings
from tests.metrics.test_benchmarks import bound, task
from tests.models.completions_server import Completions, serving
from tests.runs.runs import IDENTITY, KilledError
from tests.tiny_models import tiny_model_dir

ALL_FIVE = ["stereoset", "crows_pairs", "bbq", "winobias", "winogender"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LanguageModel:
    return load_model(long_context_dir("qwen2", tmp_path_factory.mktemp("model")), device="cpu")


@pytest.fixture(scope="module")
def server(model: LanguageModel) -> Iterator[Completions]:
    with serving(model) as running:
        yield running


def files_of(path: Path) -> dict[str, bytes]:
    """Every file but the manifest, which has the duration."""
    files = [f for f in path.rglob("*") if f.is_file() and f.name != MANIFEST]
    return {str(f.relative_to(path)): f.read_bytes() for f in files}


def test_a_killed_run_goes_on_to_the_bytes_of_one_that_was_not(
    made: Path, model: LanguageModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed after two benchmarks; those are not scored a second time."""
    metrics = [METRICS.make("benchmarks", settings(made) | {"limit": 6})]
    plan = Plan(tasks=[task()], metrics=metrics)
    texts, asked, most = EvaluationContext.texts, list[str](), 2

    def dying(context: EvaluationContext, pairs: Any, edit: Any, progress: str, *more: Any) -> Any:
        if len(asked) == most:
            raise KilledError
        asked.append(progress)
        return texts(context, pairs, edit, progress, *more)

    def run(path: Path) -> dict[str, bytes]:
        with RunFolder(path, {}, IDENTITY) as folder:
            run_plan(plan, model, folder)
        return files_of(path)

    whole = run(tmp_path / "whole")
    monkeypatch.setattr(EvaluationContext, "texts", dying)
    with pytest.raises(KilledError):
        run(tmp_path / "killed")
    most = 99
    assert run(tmp_path / "killed") == whole
    assert len(asked) == len({*asked}) == len(ALL_FIVE)


def test_a_served_model_has_the_figures_of_the_same_model_here(
    made: Path, model: LanguageModel, server: Completions, tmp_path: Path
) -> None:
    metric = bound(made, limit=4, of=ALL_FIVE[:3])
    there = connect(server.url, cache=tmp_path / "answers")
    rows = {}
    for name, one in (("here", model), ("there", there)):
        rows[name] = metric.measure(EvaluationContext(one, tmp_path / name), None)
    told = [[(row.key, row.value, row.lo, row.hi) for row in own] for own in rows.values()]
    assert told[0] == told[1]
    assert {row.facets["benchmark"] for row in rows["there"]} == {*ALL_FIVE[:3]}


def test_a_server_that_tells_no_likelihoods_is_refused_in_one_line(
    made: Path, server: Completions, tmp_path: Path
) -> None:
    silent = connect(server.url, log_probs="none", cache=tmp_path)
    with pytest.raises(UserError, match=r"gives no likelihoods of texts, as model\.log_probs=none"):
        bound(made, of="crows_pairs").measure(EvaluationContext(silent, tmp_path), None)
    server.without = ("logprobs",)
    try:
        mute = connect(server.url, cache=tmp_path)
        with pytest.raises(UserError, match="served without log-probabilities of a prompt"):
            bound(made, of="crows_pairs").measure(EvaluationContext(mute, tmp_path), None)
    finally:
        server.without = ()


def test_what_scores_whole_texts_is_refused_with_what_can_be_asked(
    made: Path, tmp_path: Path
) -> None:
    model = load_model(tiny_model_dir("t5", tmp_path / "t5"))
    both = METRICS.make("benchmarks", settings(made) | {"of": ["bbq", "stereoset"]})
    with pytest.raises(
        UserError,
        match=r"metric=benchmarks needs likelihoods of texts.*"
        r"metric=\[fairpair,cid\] or metric\.benchmarks\.of=\[bold\]$",
    ):
        Plan(tasks=[task()], metrics=[both]).check(model)
