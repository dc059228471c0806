"""Settings, checked once at the door: from composed Hydra config to typed values and objects.

Goes out: frozen dataclasses that make the objects which `api` takes. Refused: a missing or unknown
key, a value of the wrong type.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
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
from countergen_edit.core.conf_path import config_of
from countergen_edit.core.errors import UserError, unknown
from countergen_edit.core.typed import require
from countergen_edit.data.account import account
from countergen_edit.data.axis_data import OF_AXIS, data_of
from countergen_edit.data.crossing import axis_config
from countergen_edit.data.task import Task
from countergen_edit.erasers import ERASERS, BaseEraser
from countergen_edit.metrics.base import METRICS, Metric
from countergen_edit.models import LanguageModel, generate_neutral_text, split_names
from countergen_edit.runs.baselines import BASELINES, Baseline
from countergen_edit.runs.candidates import Fitted
from countergen_edit.runs.fit_data import Positions, Sinks
from countergen_edit.runs.folder import quick_try
from countergen_edit.runs.halving import EFFORTS, Effort

PLACES = ("run_dir", "scratch", "original")
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
    of_axis: frozenset[str]
    """The keys of `data` that nobody named: they are the axis's own."""
    texts: Content
    """What is measured and kept beside the bias, where data do not say."""
    names: Content | None
    """How many names of each group are drawn."""
    groups: tuple[str, ...] | str | None
    """Those that are compared, or `all`; None leaves it to the axis."""
    eraser: Mapping[str, Content]
    measured: Mapping[str, Content]
    """Metrics, costs among them."""
    baselines: Mapping[str, Content]
    """What is measured beside edits."""
    edit: EditSettings
    seed: int
    limit: int | None
    """Most prompts of each set; None takes all."""
    run_dir: str | None
    config: Content
    """All settings that rows depend on."""

    def task(self, model: LanguageModel) -> Task:
        """What is asked of whom; names are checked against the model's tokens where that is set.

        Raises:
            UserError: the model was taught nothing that the axis asks by itself.
        """
        task = self.known_task(model)
        if task.out_of_vocabulary and not (task.fit and task.test):
            raise UserError(
                f"{model.name} was taught nothing about {task.axis.name}, such as the word "
                f"{task.out_of_vocabulary[0].words[0]!r}: name a model that was, "
                "or data in its words"
            )
        return task

    def known_task(self, model: LanguageModel) -> Task:
        """The task, without the axis's own sets whose words the model was never taught.

        What it lacks is said.
        """
        texts = dict(self.texts)
        if texts.get("neutral") == WRITTEN:
            texts["neutral"] = {"source": "texts", "texts": generate_neutral_text(model, self.seed)}
        shared: dict[str, Any] = {"texts": texts, "names": self.names, "seed": self.seed}
        task = api.task(self.axis, self.data, self.groups, **shared)
        say(task.remarks)
        task = api.in_vocabulary(model, task, self.of_axis)
        say(task.warnings)
        if self.limit is not None:
            task = task.limited(self.limit, self.seed)
            say([quick_try(self.limit)])
        if not {"fit", "test"} <= self.of_axis:  # somebody named data
            say([account(task, fits=bool(self.eraser))])
        if self.eraser and self.data.get("single_token_names"):
            require_single_token_names(model, task)
        return task

    def about(self, axis: str, data: str | Content | None) -> StudySettings:
        """The same of another axis and its data, the axis's own where none are named."""
        own = axis_config(axis)
        content, of_axis = data_of(own, config_of("data", OF_AXIS if data is None else data))
        return replace(self, axis=own, data=content, of_axis=of_axis)

    def erasers(self) -> dict[str, BaseEraser]:
        """The erasers by their names in the run."""
        return {name: ERASERS.make(name, settings) for name, settings in self.eraser.items()}

    def metrics(self) -> dict[str, Metric]:
        """The metrics by their names in the run."""
        return {name: METRICS.make(name, settings) for name, settings in self.measured.items()}

    def ways(self) -> dict[str, Baseline]:
        """What is measured beside edits, by its name in the run."""
        return {name: BASELINES.make(name, settings) for name, settings in self.baselines.items()}


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
    require(Texts, groups, "groups")
    contents = {group: config_of(group, config[group]) for group in ("data", "texts")}
    contents["axis"] = axis_config(config["axis"])
    contents["data"], of_axis = data_of(contents["axis"], contents["data"])
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
        of_axis=of_axis,
        groups=groups if groups is None or isinstance(groups, str) else tuple(groups),
        eraser=_by_name(config, "eraser"),
        measured=_by_name(config, "metric") | _by_name(config, "cost"),
        baselines=_by_name(config, "baseline"),
        edit=make_settings(EditSettings, "edit", edit),
        seed=integer("seed", config["seed"]),
        limit=config.get("limit"),
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
