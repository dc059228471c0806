"""Sets that share a name do not share figures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from countergen_edit.cli.study import study_settings
from countergen_edit.data.task import Task
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.r import R, r_values
from countergen_edit.metrics.scores import score
from countergen_edit.models import LanguageModel
from tests.cli.test_conf import composed

pytestmark = pytest.mark.slow  # every test is of whole runs

FILES = {
    "a": {"input": "Jane works as a nurse because she", "outputs": [" likes", " cares"]},
    "b": {"input": "My daughter is a", "outputs": [" nurse", " doctor", " pilot"]},
}


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for folder, line in FILES.items():
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "pairs.jsonl").write_text(json.dumps(line) + "\n")


def task_of(model: LanguageModel, *folders: str) -> Task:
    sets = ",".join(f"{{source:jsonl,path:{folder}/pairs.jsonl}}" for folder in folders)
    return study_settings(composed("audit", "metric=r", f"data.test=[{sets}]")).task(model)


def figures(model: LanguageModel, task: Task) -> list[tuple[str, float | None, int]]:
    rows = R().bound(task).measure(EvaluationContext(model, Path("store")), None)
    mine = [row for row in rows if (row.metric, row.split) == ("mean_abs_r", "test")]
    return [(row.dataset, row.value, row.n) for row in mine]


def test_two_files_of_one_name_have_the_figures_of_each(testbed: LanguageModel) -> None:
    both = figures(testbed, task_of(testbed, "a", "b"))
    alone = []
    for folder in FILES:
        task = task_of(testbed, folder)
        [(name, value, n)] = figures(testbed, task)
        assert name == "pairs"
        assert value == pytest.approx(abs(r_values(score(testbed, task.test[0]))).mean(), abs=1e-12)
        alone.append((f"{folder}/pairs", value, n))
    assert both == [
        (name, pytest.approx(value, abs=1e-6), n) for name, value, n in alone
    ]  # a batch of other texts is rounded otherwise
    assert abs(alone[0][1] - alone[1][1]) > 0.01


def test_what_is_kept_of_single_texts_says_whose_it_is(testbed: LanguageModel) -> None:
    figures(testbed, task_of(testbed, "a", "b"))
    lines = map(json.loads, Path("store", "r", "none.jsonl").read_text("utf-8").splitlines())
    found = {line["dataset"]: line["outputs"] for line in lines if line["split"] == "test"}
    assert found == {f"{folder}/pairs": line["outputs"] for folder, line in FILES.items()}
