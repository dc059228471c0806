"""An eraser that is fitted on several groups erases all of them, from prompts to a verdict."""

from __future__ import annotations

import numpy as np
import pytest

from countergen_edit.core.errors import UserError
from countergen_edit.data.task import Task
from countergen_edit.erasers import make_eraser
from countergen_edit.models import LanguageModel, load
from countergen_edit.runs.baselines import BASELINES
from countergen_edit.runs.fit_data import FitData, capture_sites
from tests.tiny_models import tiny_model_dir

NAMES = {"fit": 12, "few": 12, "validation": 2, "test": 2}


def said(name: str, *templates: str) -> dict[str, object]:
    outputs = [" a nurse", " an engineer"]
    return {"source": "templates", "name": name, "templates": [*templates], "outputs": outputs}


TASK = Task.from_config(
    "race",
    {
        "fit": [said("a", "{name} is", "{name} was")],
        "test": [said("b", "{name} works as")],
        "keep": [],
    },
    groups="all",
    names=NAMES,
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LanguageModel:
    return load(tiny_model_dir("gpt2", tmp_path_factory.mktemp("gpt2")))


@pytest.fixture(scope="module")
def captured(model: LanguageModel) -> FitData:
    texts = ["The hospital is at the café.", "The firm asked why."]
    return capture_sites(
        model, TASK.fit, [], texts, sites=["resid_post"], layers=None, positions="outputs"
    )["resid_post"]


def gaps(rows: np.ndarray, group: np.ndarray) -> np.ndarray:
    """How far the mean of each group is from that of all."""
    means = np.stack([rows[group == name].mean(axis=0) for name in TASK.groups])
    return np.asarray(np.linalg.norm(means - means.mean(axis=0), axis=1))


def test_no_prompt_is_captured_twice(captured: FitData) -> None:
    assert set(captured.group) == set(TASK.groups)
    counts = [(captured.group == group).sum() for group in TASK.groups]
    assert len(set(counts)) == 1
    assert len(captured.pair) == len(TASK.groups) * len(set(captured.pair))


@pytest.mark.parametrize("name", ["leace", "preserving"])
def test_the_means_of_all_groups_become_one(name: str, captured: FitData) -> None:
    layer = captured.layers[1]
    fitted = captured.fit(make_eraser(name), layer)
    rows = np.asarray(captured.at(layer), dtype=float)
    before, after = gaps(rows, captured.group), gaps(fitted.transform(rows), captured.group)
    assert before.min() > 1e-3
    assert after.max() < 1e-4 * before.max()
    assert fitted.erasure_.rank <= len(TASK.groups) - 1 or name == "preserving"


def test_what_moves_one_group_to_another_is_refused(model: LanguageModel) -> None:
    with pytest.raises(UserError, match="4 are compared"):
        BASELINES.make("steering", {"strengths": [1.0]}).check(model, TASK)
