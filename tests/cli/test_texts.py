"""The file of a model says what its costs are measured on; the command line may say otherwise."""

from __future__ import annotations

from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from countergen_edit.cli.help import choices_of
from countergen_edit.cli.overrides import as_overrides
from countergen_edit.core.conf_path import conf_dir, read_config
from countergen_edit.data.people import DRAWN

COMMANDS = ("audit", "debias", "sweep", "edit")
ASKED = {
    "": "testbed",
    "model=gpt2": "natural",
    "model=/models/mine": "natural",
    "texts=natural": "natural",
    "model=gpt2 texts=testbed": "testbed",
}


def composed(command: str, words: str) -> dict[str, Any]:
    overrides = [o for word in words.split() for o in as_overrides(command, word)]
    with initialize_config_dir(str(conf_dir()), version_base="1.3"):
        config: Any = OmegaConf.to_container(compose(command, overrides))
    return dict(config)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("words", ASKED)
def test_the_model_brings_its_texts_unless_others_are_named(command: str, words: str) -> None:
    assert composed(command, words)["texts"] == read_config("texts", ASKED[words])


def test_a_study_of_another_model_has_that_model_s_texts() -> None:
    config = composed("audit", "experiment=fairpair_table3")
    assert config["model"]["name"] == "gpt2"
    assert config["texts"] == read_config("texts", "natural")


@pytest.mark.parametrize("command", COMMANDS)
def test_one_s_own_text_and_count_of_names(command: str) -> None:
    config = composed(command, "model=gpt2 texts.neutral=it's/mine.txt names.test=5")
    assert config["texts"]["neutral"] == "it's/mine.txt"
    assert config["names"] == {**DRAWN, "test": 5}
    assert composed(command, "names=null")["names"] is None


@pytest.mark.parametrize("command", COMMANDS)
def test_help_marks_the_texts_that_the_model_brings(command: str) -> None:
    [texts] = [choice for choice in choices_of(command) if choice.group == "texts"]
    assert texts.chosen == ("testbed",)
