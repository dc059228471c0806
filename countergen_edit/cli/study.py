"""The objects of audit, debias, edit and sweep, from their configuration."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from countergen_edit import api
from countergen_edit.cli.models import (
    Content,
    ModelSettings,
    ServedSettings,
    make_settings,
    model_settings,
    without_requesting,
)
from countergen_edit.cli.printing import say
from countergen_edit.core.conf_path import config_of
from countergen_edit.core.errors import UserError, unknown
from countergen_edit.core.typed import require
from countergen_edit.data.axis import DoesNotFitError
from countergen_edit.data.axis_config import OF_AXIS, axis_config, data_of
from countergen_edit.data.task import Task
from countergen_edit.erasers import ERASERS, BaseEraser
from countergen_edit.metrics.base import METRICS, Metric
from countergen_edit.models import LanguageModel, split_names
from countergen_edit.runs.baselines import BASELINES, Baseline
from countergen_edit.runs.candidates import Fitted
from countergen_edit.runs.files import quick_try
from countergen_edit.runs.fit_data import Positions

NO_ROW = ("run_dir", "memory_gib", "original")
"""Settings that no row depends on."""


@dataclass(frozen=True)
class EditSettings:
    """Where an erasure goes, and the tokens on which it is fitted."""

    site: str
    layers: tuple[int, ...] | None
    """None: the best one on the validation sets."""
    positions: Positions
    skip_attention_sinks: bool
    fitted: Fitted


@dataclass(frozen=True)
class StudySettings:
    """The settings of a study."""

    model: ModelSettings | ServedSettings
    axis: Content
    data: Content
    of_axis: frozenset[str]
    """The keys of `data` that are the axis's own."""
    texts: Content
    names: Content | None
    groups: tuple[str, ...] | str | None
    eraser: Mapping[str, Content]
    measured: Mapping[str, Content]
    """Metrics and costs."""
    baselines: Mapping[str, Content]
    edit: EditSettings
    seed: int
    limit: int | None
    run_dir: str | None
    config: Content
    """All settings on which rows depend."""

    def task(self, model: LanguageModel) -> Task:
        """The task; names are checked against the model's tokens if that is set.

        Raises:
            UserError: the words of the axis's own data are out of the model's vocabulary.
        """
        task = self.task_in_vocabulary(model)
        if task.out_of_vocabulary and not (task.fit and task.test):
            raise UserError(
                f"{model.name} was taught nothing about {task.axis.name}, such as the word "
                f"{task.out_of_vocabulary[0].words[0]!r}: name a model that was, "
                "or data in its words"
            )
        return task

    def task_in_vocabulary(self, model: LanguageModel) -> Task:
        """The task, without the axis's own sets whose words are out of the model's vocabulary."""
        shared: dict[str, Any] = {"texts": self.texts, "names": self.names, "seed": self.seed}
        task = api.task(self.axis, self.data, self.groups, **shared)
        say(task.remarks)
        task = api.in_vocabulary(model, task, self.of_axis)
        say(task.warnings)
        if self.limit is not None:
            task = task.limited(self.limit, self.seed)
            say([quick_try(self.limit)])
        if not {"fit", "test"} <= self.of_axis:
            say([task.summary(fits=bool(self.eraser))])
        if self.eraser and self.data.get("single_token_names"):
            require_single_token_names(model, task)
        return task

    def about(self, axis: str, data: str | Content | None) -> StudySettings:
        """The settings for another axis and its data; None takes the axis's own."""
        content = axis_config(axis)
        data, of_axis = data_of(content, config_of("data", OF_AXIS if data is None else data))
        return replace(self, axis=content, data=data, of_axis=of_axis)

    def by_axis(self, axes: Any) -> list[StudySettings]:
        """The settings for each of several axes, or these.

        Raises:
            UserError: `axes` is no mapping of axes to their data.
        """
        if axes is None:
            return [self]
        if not (isinstance(axes, Mapping) and axes):
            raise UserError(
                f"axes={axes!r}: write an axis and its data, such as {{gender: contexts}}"
            )
        return [self.about(axis, data) for axis, data in axes.items()]

    def make_erasers(self) -> dict[str, BaseEraser]:
        """The erasers by name."""
        return {name: ERASERS.make(name, settings) for name, settings in self.eraser.items()}

    def make_metrics(self) -> dict[str, Metric]:
        """The metrics by name."""
        return {name: METRICS.make(name, settings) for name, settings in self.measured.items()}

    def make_baselines(self) -> dict[str, Baseline]:
        """The baselines by name."""
        return {name: BASELINES.make(name, settings) for name, settings in self.baselines.items()}


def study_settings(config: Content, without: Collection[str] = ()) -> StudySettings:
    """The settings of a study, checked.

    Args:
        config: the composed configuration.
        without: further settings that no row depends on.
    """
    edit = {**config["edit"], "layers": best_or_layers(config["edit"].get("layers"))}
    groups = config["groups"]
    contents: dict[str, Any] = {"axis": axis_config(config["axis"])}
    contents["data"], of_axis = data_of(contents["axis"], config_of("data", config["data"]))
    contents["texts"] = config_of("texts", config["texts"])
    contents["model"] = without_requesting(config["model"])
    # An empty group is there or not, by how it was written.
    kept = {k: v for k, v in config.items() if k not in (*NO_ROW, *without) and v != {}}
    if not config.get("metric"):
        raise UserError("there is no metric: name at least one, such as metric=r")
    return StudySettings(
        model=model_settings(config["model"]),
        axis=contents["axis"],
        data=contents["data"],
        of_axis=of_axis,
        texts=contents["texts"],
        names=config["names"],
        groups=groups if groups is None or isinstance(groups, str) else tuple(groups),
        eraser=components(config, "eraser"),
        measured=components(config, "metric") | components(config, "cost"),
        baselines=components(config, "baseline"),
        edit=make_settings(EditSettings, "edit", edit),
        seed=config["seed"],
        limit=config.get("limit"),
        run_dir=config["run_dir"],
        config=kept | contents,
    )


def fitting(metrics: Mapping[str, Metric], task: Task) -> dict[str, Metric]:
    """The metrics, without default ones that do not fit the groups of a task.

    A metric that the user named is kept: binding it raises the error.
    """
    if any(word.partition("=")[0] in ("metric", "experiment") for word in sys.argv[1:]):
        return dict(metrics)
    kept = {}
    for name, metric in metrics.items():
        try:
            metric.bound(task)
        except DoesNotFitError as error:
            say([f"{name} is left out: {error}"])
        else:
            kept[name] = metric
    return kept


def searched_layers(value: Any, model: LanguageModel) -> tuple[int, ...] | None:
    """The layers of a search; None for all."""
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


def command_line(command: str, without: Sequence[str] = ()) -> list[str]:
    """The command, for a manifest; without the place of a checkpoint."""
    words = [word for word in sys.argv[1:] if word.partition("=")[0] not in without]
    return ["countergen-edit", command, *words, *(["save=DIR"] if without else [])]


def require_single_token_names(model: LanguageModel, task: Task) -> None:
    """Refuse a name of several tokens."""
    for data in task.fit:
        for name, count in split_names(model, data.names).items():
            if count != 1:
                tokens = " ".join(model.tokenizer.tokenize(f" {name}"))
                raise UserError(
                    f"name {name!r} of set {data.name!r} is {count} tokens for model "
                    f"{model.name!r} ({tokens}); choose another name, or set "
                    "data.single_token_names=false"
                )


def integers(key: str, value: Any) -> tuple[int, ...]:
    """Distinct whole numbers of one or a list; none for null."""
    numbers = value if isinstance(value, list) else [] if value is None else [value]
    for number in numbers:
        if isinstance(number, bool) or not isinstance(number, int):
            raise UserError(f"{key}: {number!r} is not a whole number")
    return tuple(dict.fromkeys(numbers))


def texts_in(value: Any) -> tuple[str, ...]:
    """Distinct texts of one or a list; none for null."""
    return tuple(dict.fromkeys([value] if isinstance(value, str) else value or ()))


def components(config: Content, group: str) -> dict[str, Content]:
    """The components of a group by name, with their settings."""
    section = config.get(group) or {}
    require(Mapping[str, Any], section, group)
    for name, content in section.items():
        require(Mapping[str, Any] | None, content, f"{group}.{name}")
    return {name: dict(content or {}) for name, content in section.items()}


def best_or_layers(value: Any) -> tuple[int, ...] | None:
    """The layers of an edit; None for the best one."""
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
