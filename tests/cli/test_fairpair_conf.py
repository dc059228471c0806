"""Every table and figure of FairPair has a configuration that composes and makes its metric."""

from __future__ import annotations

from pathlib import Path

import pytest

from countergen_edit.cli.main import overrides_of
from countergen_edit.cli.settings import StudySettings, study_settings
from countergen_edit.data.task import Task
from countergen_edit.metrics.fairpair import FairPair
from tests.cli.test_conf import composed

EXPERIMENTS = ["table1", "table2", "table3", "figure3", "figure4", "figure5", "figure6"]


def door(*overrides: str) -> StudySettings:
    return study_settings(composed("audit", *overrides_of("audit", list(overrides))))


def fairpair(*overrides: str) -> FairPair:
    settings = door(*overrides)
    task = Task.from_config(settings.axis, {"test": []}, groups=settings.groups)
    metric = settings.metrics()["fairpair"].bound(task)
    assert isinstance(metric, FairPair)
    return metric


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_is_of_the_papers_size(name: str) -> None:
    metric = fairpair(f"experiment=fairpair_{name}")
    assert len(metric.prompts) == 60
    assert metric.sampling.max_new_tokens == 128
    assert metric.sampling.n == (500 if name in ("figure3", "figure4") else 100)
    assert metric.prompts[0].target == "Jane is a woman, working as a technician."


def test_an_experiment_takes_another_model_and_size() -> None:
    overrides = ("experiment=fairpair_table3", "model=testbed", "metric.fairpair.n=20")
    assert door(*overrides).model.name == "testbed"
    assert fairpair(*overrides).sampling.n == 20


def test_the_small_size_meets_every_occupation_in_every_paraphrase() -> None:
    small = fairpair("metric=fairpair")
    assert list(small.phis) == ["sentiment", "jaccard"]
    assert len(small.prompts) == 4 * len(small.paraphrases) == 16


@pytest.mark.parametrize("name", ["table1", "table2", "figure5", "figure6"])
def test_what_is_about_texts_measures_one_phi(name: str) -> None:
    assert list(fairpair(f"experiment=fairpair_{name}").phis) == ["jaccard"]


def test_a_phi_of_a_file_is_named_on_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from countergen_edit.metrics.fairpair import ScoreDifference\n"
        "class Mine(ScoreDifference):\n"
        "    def scores(self, texts): ...\n"
    )
    own = f'metric.fairpair.phi={{mine:{{kind:"{tmp_path / "mine.py"}:Mine"}}}}'
    assert list(fairpair("metric=fairpair", own).phis) == ["mine"]
