"""Every table and figure of FairPair has a configuration that composes and makes its metric."""

from __future__ import annotations

import pytest

from countergen_edit.cli.settings import audit_settings
from countergen_edit.data.axis import Axis
from countergen_edit.data.text.substitution import Substitution
from countergen_edit.metrics import Subject, make_metric
from countergen_edit.metrics.fairpair.metric import FairPair
from tests.cli.test_conf import composed

EXPERIMENTS = ["table1", "table2", "table3", "figure3", "figure4", "figure5", "figure6"]


def made(*overrides: str) -> FairPair:
    settings = audit_settings(composed("audit", *overrides))
    axis = Axis.from_config(settings.axis)
    words = Substitution.from_config(axis, settings.axis["substitution"])
    subject = Subject(axis, ("female", "male"), settings.seed, words)
    metric = make_metric("fairpair", subject, **settings.metric["fairpair"])
    assert isinstance(metric, FairPair)
    return metric


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_is_of_the_papers_size(name: str) -> None:
    metric = made(f"experiment=fairpair_{name}")
    assert len(metric.prompts) == 60
    assert metric.sampling.max_new_tokens == 128
    assert metric.sampling.n == (500 if name in ("figure3", "figure4") else 100)
    assert metric.prompts[0].target == "Jane is a woman, working as a technician."


def test_an_experiment_takes_another_model_and_size() -> None:
    overrides = ("experiment=fairpair_table3", "model=testbed", "metric.fairpair.n=20")
    assert audit_settings(composed("audit", *overrides)).model.name == "testbed"
    assert made(*overrides).sampling.n == 20


def test_the_small_size_meets_every_occupation_in_every_wording() -> None:
    small = made("metric=fairpair")
    assert list(small.phis) == ["sentiment", "jaccard"]
    assert len(small.prompts) == 4 * len(small.wordings) == 16
