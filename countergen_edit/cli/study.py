"""The objects of audit, debias, edit and sweep, from their configuration."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from countergen_edit import api
from countergen_edit.cli.composing import task_of
from countergen_edit.cli.printing import say
from countergen_edit.cli.settings import EditSettings, Integers, own_settings
from countergen_edit.core.conf_path import config_of
from countergen_edit.core.errors import UserError, require_known
from countergen_edit.core.registry import Registry
from countergen_edit.core.typed import hints_of, require, require_arguments, require_keys
from countergen_edit.data.axis import DoesNotFitError, axis_config, data_of
from countergen_edit.data.task import SetDesign, Task
from countergen_edit.erasers import ERASERS, BaseEraser
from countergen_edit.metrics.base import METRICS, Metric
from countergen_edit.models import LanguageModel, connect
from countergen_edit.models.capture import EVERYWHERE
from countergen_edit.runs.baselines import BASELINES, Baseline
from countergen_edit.runs.design import designed, drawn
from countergen_edit.runs.files import quick_try
from countergen_edit.runs.fit_data import Positions
from countergen_edit.runs.folder import RunFolder
from countergen_edit.runs.manifest import make_manifest
from countergen_edit.runs.plan import Fitted, where

Content = Mapping[str, Any]
BEST = "best"
NO_ROW = ("run_dir", "memory_gib", "original", "save", "form", "overwrite", "run", "recipe")
"""Settings that no row depends on."""
REQUESTING = ("parallel", "attempts", "cache")
"""Settings of a served model that no row depends on."""


class Study:
    """The objects of a configuration of audit, debias, edit or sweep, which `words` gave.

    `UserError` if a setting is wrong.
    """

    def __init__(self, content: Content, words: Sequence[str] = ()) -> None:
        if not content.get("metric"):
            raise UserError("there is no metric: name at least one, such as metric=r")
        self.content, self.words = content, words
        self.run_dir, self.seed, self.limit = (content[k] for k in ("run_dir", "seed", "limit"))
        axis, texts = axis_config(content["axis"]), config_of("texts", content["texts"])
        data = config_of("data", content["data"])
        data, self.of_axis = data_of(axis, data, texts.get("prompts"))
        # An empty group is there or not, by how it was written.
        settings = {key: value for key, value in recorded(content).items() if value != {}}
        self.config = settings | {"axis": axis, "data": data, "texts": texts}
        """All settings on which rows depend."""
        layers = _layers_in("edit.layers", content["edit"].get("layers"), BEST, EVERYWHERE)
        place = {**content["edit"], "layers": None if layers == BEST else layers}
        if layers == EVERYWHERE:
            [place["site"]], place["layers"] = where([place.get("site", "")], layers)
        require_keys(place, hints_of(EditSettings), "edit setting", "edit.")
        self.place = EditSettings(**place)
        require(Positions, self.place.positions, "edit.positions")
        require(Fitted, self.place.fitted, "edit.fitted")
        self.erasers: dict[str, BaseEraser] = components(content, "eraser", ERASERS)
        self.metrics: dict[str, Metric] = components(content, "metric", METRICS)
        self.metrics |= components(content, "cost", METRICS)
        self.baselines: dict[str, Baseline] = components(content, "baseline", BASELINES)
        self.load = model_loader(content["model"])

    @property
    def how(self) -> dict[str, Any]:
        """The settings that `api.audit` and `api.search` take alike."""
        fitting = ("positions", "skip_attention_sinks", "fitted")
        return {
            **{key: getattr(self.place, key) for key in fitting},
            "successive_halving": self.content["successive_halving"],
            "seed": self.seed,
            "config": self.config,
        }

    def task(self, model: LanguageModel) -> Task:
        """The task; `UserError` if the model lacks its words."""
        task = self.task_in_vocabulary(model)
        if task.is_out_of_vocabulary:
            of = task.test[0].name if task.test else task.axis.name
            raise UserError(
                f"words of {of}, such as {task.out_of_vocabulary[0].words[0]!r}, are "
                f"out of the vocabulary of {model.name}: name another model"
            )
        return task

    def task_in_vocabulary(self, model: LanguageModel, design: Sequence[SetDesign] = ()) -> Task:
        """The task, without the axis's own sets whose words are out of the model's vocabulary.

        Test sets are drawn as in `design`, or as a pilot finds.
        """
        task = task_of(self.content)
        say(task.remarks)
        task = api.in_vocabulary(model, task, self.of_axis)
        say(task.warnings)
        measures_bias = any(metric.kind == "bias" for metric in self.metrics.values())
        if design:
            task = drawn(task, design)
        elif self.limit is None and not model.no_likelihoods and measures_bias:
            task = designed(model, task, self.content["precision"], self.content["passes"])
            if sets := task.design:
                passes, pilot = (sum(getattr(d, key) for d in sets) for key in ("passes", "pilot"))
                say([f"Test sets have {passes:,} prompts, by a pilot of {pilot:,}."])
        if self.limit is not None:
            task = task.limited(self.limit, self.seed)
            say([quick_try(self.limit)])
        if not {"fit", "test"} <= self.of_axis:
            say([task.summary(fits=bool(self.erasers))])
        return task

    def searched_layers(self, model: LanguageModel) -> tuple[int, ...] | None:
        """The layers of a search; None for all."""
        value = self.content["layers"]
        if value == "middle":
            return (model.n_layers // 2 - 1,)
        layers = _layers_in("layers", value, "all", "middle")
        return layers if isinstance(layers, tuple) else None


def fitting_metrics(
    metrics: Mapping[str, Metric], task: Task, words: Sequence[str]
) -> dict[str, Metric]:
    """The metrics, without default ones that do not fit the groups of a task.

    Metrics that the words of a command name are kept: binding one raises the error.
    """
    if any(word.partition("=")[0] in ("metric", "experiment") for word in words):
        return dict(metrics)
    fitting = {}
    for name, metric in metrics.items():
        try:
            metric.bound(task)
        except DoesNotFitError as error:
            say([f"{name} is left out: {error}"])
        else:
            fitting[name] = metric
    return fitting


def command_line(command: str, words: Sequence[str]) -> list[str]:
    """The command, for a manifest; without the place of a checkpoint."""
    words = [word for word in words if word.partition("=")[0] not in ("save", "overwrite")]
    save = ["save=DIR"] if "save" in own_settings(command) else []
    return ["countergen-edit", command, *words, *save]


def new_run(
    command: Sequence[str], config: Content, names: Sequence[str], **facts: Any
) -> RunFolder:
    """The folder of a run, called by names and its fingerprint; `facts` are of `make_manifest`."""
    settings = recorded(config)
    manifest = make_manifest(config=settings, command=command, seed=config["seed"], **facts)
    label = "-".join([*names, manifest["fingerprint"][:8]])
    path = config["run_dir"] or Path("runs") / command[1] / label
    return RunFolder(Path(path), settings, manifest)


def listed(value: Any) -> tuple[Any, ...]:
    """Distinct values of one or a list; none for null."""
    values = value if isinstance(value, list) else [] if value is None else [value]
    return tuple(dict.fromkeys(values))


def components(config: Content, group: str, registry: Registry[Any]) -> dict[str, Any]:
    """The components of a group by name."""
    section = config.get(group) or {}
    require(Mapping[str, Mapping[str, Any] | None], section, group)
    return {name: registry.make(name, content) for name, content in section.items()}


def _layers_in(key: str, value: Any, *words: str) -> tuple[int, ...] | str:
    if isinstance(value, str):
        require_known(key, value, words)
        return value
    require(Integers | None, value, key)
    layers = listed(value)
    if not layers:
        raise UserError(f"{key} names no layer: write {key}={words[0]}, or a list such as [2,3]")
    return layers


def model_loader(content: Content) -> Callable[[], LanguageModel]:
    """A function that loads a model, or connects to one; its settings are checked first."""
    load: Callable[..., LanguageModel] = api.load
    settings = dict(content)
    if "served_name" in settings:
        load, settings["url"] = connect, settings.pop("name")
    for key in settings:
        require_known("model setting", key, inspect.signature(load).parameters)
    require_arguments(load, settings, "model")
    return partial(load, **settings)


def recorded(content: Content) -> dict[str, Any]:
    """The settings of a command on which rows depend."""
    settings = {key: value for key, value in content.items() if key not in NO_ROW}
    return settings | {"model": {k: v for k, v in content["model"].items() if k not in REQUESTING}}
