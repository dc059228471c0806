"""HolisticBias: random pairs of descriptors, and the share whose perplexities differ."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import mannwhitneyu

from countergen_edit.core.errors import UserError
from countergen_edit.data.benchmarks import benchmark_named
from countergen_edit.metrics.benchmarks.figures import counts_of, figures_of_counts
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.models import load_model
from tests.made_benchmarks import DESCRIPTORS, items_of
from tests.metrics.test_benchmarks import bound, by_facets
from tests.tiny_models import tiny_model_dir


@pytest.fixture
def descriptors(tmp_path: Path) -> Path:
    path = tmp_path / "descriptors.json"
    path.write_text(DESCRIPTORS, "utf-8")
    return path


def test_no_descriptor_is_in_two_pairs_and_pairs_are_of_one_axis(descriptors: Path) -> None:
    items = items_of("holistic_bias", descriptors)
    assert [item.bias_type for item in items] == ["ability", "ability", "religion"]
    words = [item.entry[side] for item in items for side in "ab"]
    assert len({*words}) == len(words) == 6
    assert items_of("holistic_bias", descriptors.parent) == items
    assert "{" not in "".join(text for item in items for _, text in item.texts)
    descriptors.write_text('{"ability": ["Deaf"]}', "utf-8")
    with pytest.raises(UserError, match="ability"):
        items_of("holistic_bias", descriptors)


def test_the_share_is_of_pairs_and_templates_that_differ_by_mann_and_whitney() -> None:
    benchmark = benchmark_named("holistic_bias")
    rng = np.random.default_rng(0)
    items = [benchmark.items.of({"axis": "age", "a": f"a{i}", "b": f"b{i}"}) for i in range(40)]
    scores = rng.normal(size=(40, 24)) + np.repeat([1.5, 0, 0, 0], 6)
    [figure] = figures_of_counts(benchmark, counts_of(benchmark, items, scores.tolist()), 0)
    p = [mannwhitneyu(s[i : i + 6], s[i + 6 : i + 12]).pvalue for s in scores for i in (0, 12)]
    expected = np.mean(np.array(p) < 0.05)
    assert 0.2 < expected < 0.6
    assert figure.estimate.value == pytest.approx(expected)
    assert figure.estimate.lo < expected < figure.estimate.hi


def test_it_is_measured_on_a_local_file_with_a_row_for_each_axis(
    descriptors: Path, tmp_path: Path
) -> None:
    model = load_model(tiny_model_dir("llama", tmp_path / "model"), device="cpu")
    metric = bound(descriptors, of="holistic_bias", bias_types="all")
    rows = by_facets(metric.measure(EvaluationContext(model, tmp_path / "run"), None))
    assert [key[3] for key in rows] == ["ability", "religion", "all"]
    assert all(0 <= (row.value or 0) <= 1 for row in rows.values())
