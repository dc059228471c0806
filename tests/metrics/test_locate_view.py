"""The view of activation patching shows the rows of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import countergen_edit as ce
from countergen_edit.metrics.locate import AGREEMENT, BIAS, DIFFERENCE, MOVED, Locate
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import Row
from countergen_edit.models import LanguageModel
from countergen_edit.reports.render.figures import NOT_SIGNIFICANT, draw
from countergen_edit.reports.views.locate import LocateView

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


def test_places_that_carry_bias_and_little_agreement_come_first(results: Results) -> None:
    places = [record["place"] for record in VIEW.records(results)]
    assert places == ["head 0.1", "head 1.1", "head 0.0"]  # 1.0 carries less than one percent


def test_sentences_name_what_is_significant_alone(results: Results) -> None:
    said = VIEW.sentences(results)
    assert (
        said[0]
        == "Of biased sets, most moves with head 0.0 (70 % [50, 90]) and head 0.1 (30 % [10, 50])."
    )
    assert "head 1.0 (60 % [40, 80])" in said[1]
    assert said[2].endswith("than of agreement moves with head 0.1 (25 % [5, 45]).")
    unsure = [row(MOVED, BIAS, (0, 0), 0.7, p=0.2)]
    assert VIEW.sentences(Results(unsure)) == []


def test_cells_whose_interval_contains_0_are_grey(results: Results) -> None:
    from matplotlib.colors import to_rgba

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
