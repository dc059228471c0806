"""A custom metric of a few lines; its interval is that of a bootstrap by brute force."""

import numpy as np
import pytest

from countergen_edit import Metric
from countergen_edit.metrics.statistics import estimate
from tests.metrics.test_r import make_scores
from tests.runs.test_search import make_task


class Gap(Metric):
    """The difference of the groups' mean log-probabilities, nats."""

    def measure(self, context, edit, split="test"):
        rows = []
        for data in self.task.sets(split):
            scores = context.scores(data, edit)
            a, b = scores.log_p.mean(axis=2).T
            rows.append(self.row(context, scores, a - b, split))
        return rows


@pytest.fixture
def values():
    return np.random.default_rng(0).normal(size=(6, 2, 4))


@pytest.fixture
def scores():
    return make_scores(np.random.default_rng(1).uniform(0.1, 1, (6, 2, 4)), 3)


def test_values_of_prompts_are_resampled_over_templates_and_names(scores, values):
    """Every resample by a loop over items, groups and names."""
    templates, *names = scores.weights(0)
    draws = []
    for r in range(len(templates)):
        means = [
            np.mean([np.average(values[item, g], weights=names[g][r]) for g in (0, 1)])
            for item in range(6)
        ]
        draws.append(np.average(means, weights=templates[r, scores.template]))
    expected = estimate(np.array(draws), templates, *names)
    mean = scores.mean(values, 0)
    for end in ("value", "lo", "hi", "standard_error"):
        assert getattr(mean, end) == pytest.approx(getattr(expected, end), rel=1e-9)
    assert mean.value == pytest.approx(values.mean())


def test_absent_variations_do_not_count(scores, values):
    scores.present[:, 1, 3] = False
    values[:, 1, 3] = np.nan
    expected = (values[:, 0].mean(axis=1) + values[:, 1, :3].mean(axis=1)) / 2
    assert scores.mean(values, 0).value == pytest.approx(expected.mean())


def test_a_custom_metric_measures_rows(on_testbed):
    task = make_task()
    [row] = Gap().bound(task).measure(on_testbed, None)
    log_p = on_testbed.scores(task.test[0], None).log_p
    assert row.value == pytest.approx((log_p[:, 0] - log_p[:, 1]).mean())
    assert row.lo < row.value < row.hi
    assert (row.metric, row.dataset, row.split) == ("gap", task.test[0].name, "test")
