"""An audit without erasers measures what an audit with one measures of the unedited model."""

from dataclasses import replace

import pytest

from countergen_edit.core.errors import UserError
from countergen_edit.erasers import make_eraser
from countergen_edit.metrics.base import METRICS
from countergen_edit.metrics.rows import UNEDITED
from countergen_edit.models import load_model
from countergen_edit.runs.files import RESULTS
from countergen_edit.runs.folder import RunFolder
from countergen_edit.runs.plan import Plan
from tests.gender import SWAP
from tests.metrics.fairpair_settings import SMALL
from tests.runs.runs import IDENTITY, resumed, run
from tests.runs.test_audit import make_plan, make_task
from tests.tiny_models import tiny_model_dir

SETTINGS = {"fairpair": SMALL, "cid": {"names": 1, "strengths": [10.0], "max_new_tokens": 4}}
COSTS = ("agreement", "perplexity", "kl", "legitimate_differences")
NAMES = ("r", "paraphrases", *SETTINGS, *COSTS)


def made(*names):
    return [METRICS.make(name, SETTINGS.get(name)) for name in names]


@pytest.fixture(scope="module")
def plan():
    task = replace(make_task(("stereotypes",)), substitution=SWAP)
    return Plan(tasks=[task], metrics=made(*NAMES), seed=3)


@pytest.fixture(scope="module")
def path(testbed, plan, tmp_path_factory):
    path = tmp_path_factory.mktemp("unedited") / "run"
    run(testbed, plan, path)
    return path


@pytest.mark.slow
def test_its_rows_are_those_of_the_unedited_model_to_the_last_bit(testbed, plan, path, tmp_path):
    rows = RunFolder(path, {}, IDENTITY).rows()
    task = replace(make_task(("stereotypes",)), substitution=SWAP)
    erasers = {"leace": make_eraser("leace")}
    erasing = make_plan(task=task, erasers=erasers, metrics=made(*NAMES), layers=(1,), seed=3)
    every = run(testbed, erasing, tmp_path / "run")
    alike = [row for row in every if (row.edit, row.split) == (UNEDITED, "test")]
    # Units are recorded metric by metric here, and KL from itself is not measured.
    assert [replace(row, unit="") for row in rows] == [
        replace(row, unit="") for row in alike if row.metric != "kl"
    ]
    assert {"r", "agreement", "perplexity", "fairpair_f", "cid_divergence"} <= {
        row.metric for row in rows
    }


@pytest.mark.slow
def test_a_killed_run_continues_to_the_bytes_of_an_undisturbed_one(testbed, plan, path, tmp_path):
    assert resumed(testbed, plan, tmp_path, 1, 3) == (path / RESULTS).read_bytes()


@pytest.mark.parametrize("family", ["t5", "bart"])
def test_an_encoder_decoder_model_is_measured_by_what_it_writes(family, plan, tmp_path):
    model = load_model(tiny_model_dir(family, tmp_path / family))
    writing = replace(plan, metrics=made(*SETTINGS))
    writing.check(model)
    rows = run(model, writing, tmp_path / "run")
    assert {"fairpair_f", "fairpair_perturbed", "cid_divergence"} <= {row.metric for row in rows}
    for name in ("r", "paraphrases", "perplexity"):
        scoring = replace(plan, metrics=made(*SETTINGS, name))
        with pytest.raises(UserError, match=rf"metric={name} needs .* metric=\[fairpair,cid\]$"):
            scoring.check(model)
    with pytest.raises(UserError, match="metric=kl says what edits do"):
        replace(plan, metrics=[METRICS.make("kl").bound(plan.tasks[0])])
    erasing = replace(writing, tasks=[make_task()], erasers={"leace": make_eraser("leace")})
    with pytest.raises(UserError, match=r"encoder-decoder .* eraser=none metric=\[fairpair,cid\]$"):
        erasing.check(model)
