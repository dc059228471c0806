"""Settings, checked once at the door: from composed Hydra config to typed values and objects.

Goes out: frozen dataclasses that make the objects which `api` takes. Refused: a missing or unknown
key, a value of the wrong type.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from countergen_edit import api
from countergen_edit.cli.checked import WRITTEN
from countergen_edit.cli.declared import Texts
from countergen_edit.cli.models import (
    ModelSettings,
    ServedSettings,
    make_settings,
    model_settings,
    told,
)
from countergen_edit.cli.printing import say
from countergen_edit.conf_path import config_of
from countergen_edit.data.task import Task
from countergen_edit.erasers import ERASERS, BaseEraser
from countergen_edit.errors import UserError, unknown
from countergen_edit.experiments.beside import BESIDE, Beside
from countergen_edit.experiments.cells import Fitted
from countergen_edit.experiments.fit_data import Positions, Sinks
from countergen_edit.experiments.halving import EFFORTS, Effort
from countergen_edit.metrics.base import METRICS, Metric
from countergen_edit.models import LanguageModel, Scratch, split_names, written
from countergen_edit.typed import require

PLACES = ("run_dir", "scratch")
"""Settings that no row depends on."""
Content = Mapping[str, Any]


@dataclass(frozen=True)
class EditSettings:
    """Where an erasure goes and at which tokens it is fitted."""

    site: str
    layers: tuple[int, ...] | None
    """None: the best one on the validation sets."""
    positions: Positions
    sinks: Sinks
    fitted: Fitted


@dataclass(frozen=True)
class StudySettings:
    """Everything an experiment is told, whatever it does."""

    model: ModelSettings | ServedSettings
    axis: Content
    data: Content
    texts: Content
    """What is measured and kept beside the bias, where data do not say."""
    names: Content | None
    """How many names of each group are drawn."""
    groups: tuple[str, str] | None
    eraser: Mapping[str, Content]
    measured: Mapping[str, Content]
    """Metrics, costs among them."""
    beside: Mapping[str, Content]
    """What is measured beside edits."""
    edit: EditSettings
    seed: int
    run_dir: str | None
    config: Content
    """All settings that rows depend on."""

    def task(self, model: LanguageModel) -> Task:
        """What is asked of whom; names are checked against the model's tokens where that is set."""
        task = self.task_of(model, self.axis, self.data)
        if self.eraser and self.data.get("single_token_names"):
            require_single_token_names(model, task)
        return task

    def task_of(self, model: LanguageModel, axis: Content | str, data: Content | str) -> Task:
        """The task of an axis and its data; what it lacks is said."""
        texts = dict(self.texts)
        if texts.get("neutral") == WRITTEN:
            texts["neutral"] = {"source": "texts", "texts": written(model, self.seed)}
        task = api.task(axis, data, self.groups, texts=texts, names=self.names, seed=self.seed)
        say(task.remarks)
        return task

    def erasers(self) -> dict[str, BaseEraser]:
        """The erasers by their names in the run."""
        return {name: ERASERS.make(name, settings) for name, settings in self.eraser.items()}

    def metrics(self) -> dict[str, Metric]:
        """The metrics by their names in the run."""
        return {name: METRICS.make(name, settings) for name, settings in self.measured.items()}

    def ways(self) -> dict[str, Beside]:
        """What is measured beside edits, by its name in the run."""
        return {name: BESIDE.make(name, settings) for name, settings in self.beside.items()}


def study_settings(config: Content, without: Collection[str] = ()) -> StudySettings:
    """Check a composed config.

    Args:
        config: as Hydra composed it.
        without: further settings that no row depends on.

    Raises:
        UserError: a key is unknown or missing, or a value has the wrong type.
    """
    edit = {**config["edit"], "layers": _best_or_layers(config["edit"].get("layers"))}
    groups = config["groups"]
    require(tuple[str, str] | None, groups, "groups")
    contents = {group: config_of(group, config[group]) for group in ("axis", "data", "texts")}
    contents["model"] = told(config["model"])
    # A group of which nothing is chosen is there or not by how that was written.
    kept = {k: v for k, v in config.items() if k not in (*PLACES, *without) and v != {}}
    if not config.get("metric"):
        raise UserError("there is no metric: name at least one, such as metric=r")
    return StudySettings(
        model=model_settings(config["model"]),
        axis=contents["axis"],
        data=contents["data"],
        texts=contents["texts"],
        names=config["names"],
        groups=None if groups is None else (str(groups[0]), str(groups[1])),
        eraser=_by_name(config, "eraser"),
        measured=_by_name(config, "metric") | _by_name(config, "cost"),
        beside=_by_name(config, "beside"),
        edit=make_settings(EditSettings, "edit", edit),
        seed=integer("seed", config["seed"]),
        run_dir=config["run_dir"],
        config=kept | contents,
    )


def command_line(command: str, without: Sequence[str] = ()) -> list[str]:
    """The words of this command, for a manifest; where a checkpoint went is nobody's business."""
    words = [word for word in sys.argv[1:] if word.partition("=")[0] not in without]
    return ["countergen-edit", command, *words, *(["save=DIR"] if without else [])]


def require_single_token_names(model: LanguageModel, task: Task) -> None:
    """Refuse a name that the tokenizer splits.

    Raises:
        UserError: naming the name and its tokens.
    """
    for data in task.fit:
        for name, count in split_names(model, data.names).items():
            if count != 1:
                tokens = " ".join(model.tokenizer.tokenize(f" {name}"))
                raise UserError(
                    f"name {name!r} of set {data.name!r} is {count} tokens for model "
                    f"{model.name!r} ({tokens}); choose another name, or set "
                    "data.single_token_names=false"
                )


def integer(key: str, value: Any) -> int:
    """The value, if it is a whole number.

    Raises:
        UserError: it is not.
    """
    require(int, value, key)
    return int(value)


def integers(key: str, value: Any) -> tuple[int, ...]:
    """One whole number or several, each once; none for null.

    Raises:
        UserError: one is none.
    """
    if value is None:
        return ()
    numbers = value if isinstance(value, list) else [value]
    for number in numbers:
        if isinstance(number, bool) or not isinstance(number, int):
            raise UserError(f"{key}: {number!r} is not a whole number")
    return tuple(dict.fromkeys(numbers))


def words(key: str, value: Any) -> tuple[str, ...]:
    """One word or several, each once; none for null.

    Raises:
        UserError: it is neither.
    """
    require(Texts, value, key)
    return tuple(dict.fromkeys([value] if isinstance(value, str) else value or ()))


def axes_of(value: Any) -> Mapping[str, Any] | None:
    """Several axes, each with its data; None where there is the one of `axis`.

    Raises:
        UserError: it names no axis with its data.
    """
    if value is not None and not (isinstance(value, Mapping) and value):
        raise UserError(f"axes={value!r}: write an axis and its data, such as {{gender: contexts}}")
    return value


def effort(value: Any) -> Effort:
    """How thoroughly candidates are measured.

    Raises:
        UserError: there is no such effort.
    """
    if value not in EFFORTS:
        raise unknown("effort", str(value), EFFORTS)
    checked: Effort = value
    return checked


def searched_layers(value: Any, model: LanguageModel) -> tuple[int, ...] | None:
    """The layers that a setting names; None for all.

    Raises:
        UserError: it is neither `all` nor `middle` nor a list of numbers.
    """
    if value == "all":
        return None
    if value == "middle":
        return (model.n_layers // 2 - 1,)
    if isinstance(value, str):
        raise unknown("layers", value, ("all", "middle"))
    layers = integers("layers", value)
    if not layers:
        raise UserError("layers=[] names no layer: write layers=all, or a list such as [2,3]")
    return layers


def scratch(content: Content) -> Scratch:
    """Memory and disk for activations.

    Raises:
        UserError: the memory is no number.
    """
    memory = content["memory_gib"]
    require(float, memory, "scratch.memory_gib")
    directory = content["directory"]
    return Scratch(int(memory * 2**30), Path(directory) if directory else None)


def _by_name(config: Content, group: str) -> dict[str, Content]:
    """What a group holds under each name, such as an eraser's settings."""
    section = config.get(group) or {}
    require(Mapping[str, Any], section, group)
    for name, content in section.items():
        require(Mapping[str, Any] | None, content, f"{group}.{name}")
    return {name: dict(content or {}) for name, content in section.items()}


def _best_or_layers(value: Any) -> tuple[int, ...] | None:
    if value == "best":
        return None
    try:
        layers = integers("edit.layers", value)
    except UserError as error:
        raise UserError(
            f"edit.layers={value!r}: write edit.layers=best, a number, or a list such as [2,3]"
        ) from error
    if not layers:
        raise UserError("edit.layers=[] names no layer: write edit.layers=best, or a list")
    return layers
