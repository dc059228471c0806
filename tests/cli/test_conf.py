"""Every shipped configuration composes, and every choice of a group makes its component."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from countergen_edit.cli.settings import COMMANDS, require_settings
from countergen_edit.cli.study import Study
from countergen_edit.core.conf_path import names_of, read_config
from countergen_edit.core.errors import UserError
from countergen_edit.data.task import Task
from countergen_edit.erasers import ERASERS
from countergen_edit.metrics.base import METRICS, Cost
from countergen_edit.metrics.fairpair import FairPair
from countergen_edit.models import SITES
from countergen_edit.models.capture import EVERYWHERE, HEAD
from countergen_edit.runs.baselines import BASELINES
from tests.cli.support import STUDIES, composed

NONE = "none"


@pytest.mark.parametrize("command", COMMANDS)
def test_the_defaults_of_a_command_compose_and_have_their_types(command: str) -> None:
    require_settings(command, composed(command))
    with pytest.raises(UserError, match="is missing"):
        require_settings(command, {})


@pytest.mark.parametrize(
    "choice",
    [
        f"{group}={name}"
        for group in ("axis", "data", "edit", "eraser", "metric", "cost", "baseline")
        for name in names_of(group)
    ],
)
def test_every_choice_of_the_audit_is_accepted(choice: str) -> None:
    settings = Study(composed("audit", choice))
    group, _, name = choice.partition("=")
    assert bool(settings.erasers) == (name != NONE)
    assert settings.metrics
    assert [*settings.baselines] == ([name] if group == "baseline" else [])


def test_every_component_has_its_file() -> None:
    assert {*ERASERS, NONE} == set(names_of("eraser"))
    assert {*SITES, HEAD} - {EVERYWHERE} == set(names_of("edit"))  # that is edit.layers=everywhere
    assert set(BASELINES) == set(names_of("baseline"))
    ours = [name for name in METRICS if ".py:" not in name]  # other tests register their own
    costs = {name for name in ours if issubclass(METRICS.get(name), Cost)}
    assert costs == set(names_of("cost"))
    for name in costs:
        budget = read_config("cost", name)[name]["budget"]
        assert METRICS.make(name).budget == budget > 0


@pytest.mark.parametrize("path", STUDIES, ids=lambda p: p.stem)
def test_every_experiment_composes(path: Path) -> None:
    program, command, *words = path.read_text("utf-8").splitlines()[1].removeprefix("# ").split()
    assert (program, words[0]) == ("countergen-edit", f"experiment={path.stem}")
    assert command == path.parent.name
    config = composed(command, *words)
    require_settings(command, config)
    if "metric" in config:
        measured = path.stem.startswith(("fairpair", "countergen_table", "templates"))
        assert bool(Study(config).erasers) != measured


@pytest.mark.parametrize(
    ("words", "texts"),
    [
        ([], "testbed"),
        (["model=gpt2"], "natural"),
        (["model=/models/mine"], "natural"),
        (["texts=natural"], "natural"),
        (["model=gpt2", "texts=testbed"], "testbed"),
    ],
)
def test_the_model_has_its_texts_unless_others_are_named(words: list[str], texts: str) -> None:
    config = composed("audit", *words)
    assert config["texts"] == read_config("texts", texts)
    own = composed("audit", *words, "texts.neutral=it's/mine.txt")
    assert own["texts"] == {**config["texts"], "neutral": "it's/mine.txt"}


def test_a_checkpoint_has_its_recorded_texts(here: Path) -> None:
    recorded = {"neutral": "testbed_neutral", "keep": []}
    Path("recipe.json").write_text(json.dumps({"config": {"texts": recorded}}))
    assert composed("audit", f"model={here}")["texts"] == recorded
    named = composed("audit", f"model={here}", "texts=natural")
    assert named["texts"] == read_config("texts", "natural")


def fairpair(*words: str) -> FairPair:
    study = Study(composed("audit", *words))
    task = Task.from_config(study.config["axis"], {"test": []}, groups=study.content["groups"])
    metric = study.metrics["fairpair"].bound(task)
    assert isinstance(metric, FairPair)
    return metric


@pytest.mark.parametrize(
    "name", ["table1", "table2", "table3", "figure3", "figure4", "figure5", "figure6"]
)
def test_a_fairpair_experiment_is_of_the_paper_s_size(name: str) -> None:
    metric = fairpair(f"experiment=fairpair_{name}")
    assert len(metric.prompts) == 60
    assert metric.sampling.max_new_tokens == 128
    assert metric.sampling.n == (500 if name in ("figure3", "figure4") else 100)
    folds = [folds for *_, folds in metric.sizes] or [metric.sampling.n]
    assert max(folds) == metric.sampling.n
    assert metric.prompts[0].target == "Jane is a woman, working as a technician."
    assert (list(metric.phis) == ["jaccard"]) == (name != "table3")
