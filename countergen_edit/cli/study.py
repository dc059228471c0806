"""The objects of audit, debias, edit and sweep, from their configuration."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from countergen_edit import api
from countergen_edit.cli.printing import say
from countergen_edit.cli.settings import Integers
from countergen_edit.core.conf_path import config_of
from countergen_edit.core.errors import UserError, unknown
from countergen_edit.core.registry import Registry
from countergen_edit.core.typed import hints_of, require
from countergen_edit.data.axis import DoesNotFitError
from countergen_edit.data.axis_config import axis_config, data_of
from countergen_edit.data.design import SetDesign
from countergen_edit.data.task import Task
from countergen_edit.erasers import ERASERS, BaseEraser
from countergen_edit.metrics.base import METRICS, Metric
from countergen_edit.models import Bos, LanguageModel, connect, split_names
from countergen_edit.models.capture import EVERYWHERE
from countergen_edit.runs.baselines import BASELINES, Baseline
from countergen_edit.runs.design import designed, drawn
from countergen_edit.runs.files import quick_try
from countergen_edit.runs.fit_data import Positions
from countergen_edit.runs.folder import RunFolder
from countergen_edit.runs.manifest import make_manifest
from countergen_edit.runs.plan import Fitted, where

T = TypeVar("T")
Content = Mapping[str, Any]
BEST = "best"
NO_ROW = ("run_dir", "memory_gib", "original")
"""Settings that no row depends on."""
REQUESTING = ("parallel", "attempts", "cache")
"""Settings of a served model that no row depends on."""


@dataclass(frozen=True)
class ModelSettings:
    """A model on this machine; the arguments of `api.load`."""

    name: str
    device: str
    dtype: str
    device_map: str | None
    max_memory: dict[int | str, int | str] | None
    quantization: str | None
    revision: str | None
    adapter: str | None
    bos: Bos
    template: str
    instruction: str | None

    def load(self) -> LanguageModel:
        """Load the model."""
        return api.load(**asdict(self))


@dataclass(frozen=True)
class ServedSettings:
    """A model behind a server; the arguments of `connect`."""

    name: str
    """Address of the server."""
    served_name: str | None
    template: str
    log_probs: str
    parallel: int
    attempts: int
    cache: str

    def load(self) -> LanguageModel:
        """Connect to the server."""
        return connect(self.name, **{k: v for k, v in asdict(self).items() if k != "name"})


@dataclass(frozen=True)
class EditSettings:
    """Where an erasure goes, and the tokens on which it is fitted."""

    site: str
    layers: tuple[int, ...] | None
    """None: the best one on the validation sets."""
    positions: Positions
    skip_attention_sinks: bool
    fitted: Fitted

    @property
    def how(self) -> dict[str, Any]:
        """The settings of fitting, as `api.audit` and `api.search` take them."""
        return {key: getattr(self, key) for key in ("positions", "skip_attention_sinks", "fitted")}


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
    erasers: Mapping[str, BaseEraser]
    metrics: Mapping[str, Metric]
    """With costs."""
    baselines: Mapping[str, Baseline]
    edit: EditSettings
    precision: float | None
    passes: int | None
    seed: int
    limit: int | None
    run_dir: str | None
    config: Content
    """All settings on which rows depend."""

    def task(self, model: LanguageModel, design: Sequence[SetDesign] = ()) -> Task:
        """The task; `UserError` if its words are out of the model's vocabulary."""
        task = self.task_in_vocabulary(model, design)
        if task.is_out_of_vocabulary:
            of = task.test[0].name if task.test else task.axis.name
            raise UserError(
                f"words of {of}, such as {task.out_of_vocabulary[0].words[0]!r}, are "
                f"out of the vocabulary of {model.name}: name another model"
            )
        return task

    @property
    def fits_maps(self) -> bool:
        """Whether an eraser maps activations, whose form of saving depends on their place."""
        return any(not eraser.trains_weights for eraser in self.erasers.values())

    @property
    def _measures_bias(self) -> bool:
        return any(metric.kind == "bias" for metric in self.metrics.values())

    def task_in_vocabulary(self, model: LanguageModel, design: Sequence[SetDesign] = ()) -> Task:
        """The task, without the axis's own sets whose words are out of the model's vocabulary.

        Test sets are drawn as in `design`, or as a pilot finds.
        """
        shared: dict[str, Any] = {"texts": self.texts, "names": self.names, "seed": self.seed}
        task = api.task(self.axis, self.data, self.groups, **shared)
        say(task.remarks)
        task = api.in_vocabulary(model, task, self.of_axis)
        say(task.warnings)
        if design:
            task = drawn(task, design)
        elif self.limit is None and not model.no_likelihoods and self._measures_bias:
            task = designed(model, task, self.precision, self.passes)
        if task.design and not design:
            passes, pilot = (
                sum(getattr(d, key) for d in task.design) for key in ("passes", "pilot")
            )
            say([f"Test sets have {passes:,} prompts, by a pilot of {pilot:,}."])
        if self.limit is not None:
            task = task.limited(self.limit, self.seed)
            say([quick_try(self.limit)])
        if not {"fit", "test"} <= self.of_axis:
            say([task.summary(fits=bool(self.erasers))])
        if self.erasers and self.data.get("single_token_names"):
            require_single_token_names(model, task)
        return task


def study_settings(config: Content, without: Collection[str] = ()) -> StudySettings:
    """The settings of a study, checked; no row depends on those of `without`."""
    layers = layers_in("edit.layers", config["edit"].get("layers"), BEST, EVERYWHERE)
    edit = {**config["edit"], "layers": None if layers == BEST else layers}
    if layers == EVERYWHERE:
        [edit["site"]], edit["layers"] = where([edit.get("site", "")], layers)
    groups = config["groups"]
    contents: dict[str, Any] = {"axis": axis_config(config["axis"])}
    texts = contents["texts"] = config_of("texts", config["texts"])
    data = config_of("data", config["data"])
    contents["data"], of_axis = data_of(contents["axis"], data, texts.get("prompts"))
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
        erasers=components(config, "eraser", ERASERS),
        metrics=components(config, "metric", METRICS) | components(config, "cost", METRICS),
        baselines=components(config, "baseline", BASELINES),
        edit=make_settings(EditSettings, "edit", edit),
        precision=config["precision"],
        passes=config["passes"],
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
    if value == "middle":
        return (model.n_layers // 2 - 1,)
    layers = layers_in("layers", value, "all", "middle")
    return layers if isinstance(layers, tuple) else None


def command_line(command: str, without: Sequence[str] = ()) -> list[str]:
    """The command, for a manifest; without the place of a checkpoint."""
    words = [word for word in sys.argv[1:] if word.partition("=")[0] not in without]
    return ["countergen-edit", command, *words, *(["save=DIR"] if without else [])]


def new_run(
    command: str, config: Content, run_dir: str | None, about: Sequence[str], **facts: Any
) -> RunFolder:
    """The folder of a run, named after what it is about; `facts` are of `make_manifest`."""
    manifest = make_manifest(config=config, command=command_line(command), **facts)
    label = "-".join([*about, manifest["fingerprint"][:8]])
    return RunFolder(Path(run_dir or Path("runs") / command / label), config, manifest)


def require_single_token_names(model: LanguageModel, task: Task) -> None:
    """Refuse a name of several tokens."""
    for data in task.fit:
        for name, count in split_names(model, data.names).items():
            if count != 1:
                raise UserError(
                    f"name {name!r} of {data.name} is {count} tokens for {model.name}: choose "
                    "another, or set data.single_token_names=false"
                )


def integers(key: str, value: Any) -> tuple[int, ...]:
    """Distinct whole numbers of one or a list; none for null."""
    require(Integers | None, value, key)
    numbers = value if isinstance(value, list) else [] if value is None else [value]
    return tuple(dict.fromkeys(numbers))


def texts_in(value: Any) -> tuple[str, ...]:
    """Distinct texts of one or a list; none for null."""
    return tuple(dict.fromkeys([value] if isinstance(value, str) else value or ()))


def components(config: Content, group: str, registry: Registry[Any]) -> dict[str, Any]:
    """The components of a group by name."""
    section = config.get(group) or {}
    require(Mapping[str, Any], section, group)
    for name, content in section.items():
        require(Mapping[str, Any] | None, content, f"{group}.{name}")
    return {name: registry.make(name, content) for name, content in section.items()}


def layers_in(key: str, value: Any, *words: str) -> tuple[int, ...] | str:
    """Layers by number, or one of the words."""
    if isinstance(value, str):
        if value not in words:
            raise unknown(key, value, words)
        return value
    layers = integers(key, value)
    if not layers:
        raise UserError(f"{key} names no layer: write {key}={words[0]}, or a list such as [2,3]")
    return layers


def model_settings(content: Content) -> ModelSettings | ServedSettings:
    """The settings of either kind of model."""
    if "served_name" in content:
        return make_settings(ServedSettings, "model", content)
    return make_settings(ModelSettings, "model", content)


def without_requesting(content: Content) -> dict[str, Any]:
    """The settings of a model on which rows depend."""
    return {key: value for key, value in content.items() if key not in REQUESTING}


def make_settings(cls: type[T], section: str, content: Content) -> T:
    """A dataclass from a section of the configuration."""
    hints = hints_of(cls)
    for key, value in content.items():
        if key not in hints:
            raise unknown(f"{section} setting", key, hints)
        require(hints[key], value, f"{section}.{key}")
    for key in hints:
        if key not in content:
            raise UserError(f"{section}.{key} is missing from the configuration")
    return cls(**content)
