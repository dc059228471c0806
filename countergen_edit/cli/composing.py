"""The configuration of a command, composed by Hydra from settings, `conf/` and overrides."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from countergen_edit.cli.help import component_help
from countergen_edit.cli.overrides import MULTIRUN
from countergen_edit.cli.settings import COMMANDS, NAMED_GROUPS, own_settings, require_settings
from countergen_edit.core import conf_path
from countergen_edit.core.conf_path import conf_dir, config_of, names_of
from countergen_edit.core.errors import UserError, require_known, unknown
from countergen_edit.core.locating import RECIPE
from countergen_edit.core.reading import json_mapping, nearest_to, yaml_mapping
from countergen_edit.data.task import Task
from countergen_edit.runs.files import require_free
from countergen_edit.testbed import TESTBED

FLAGS = (*MULTIRUN, "--cfg", "--help")
HYDRA: dict[str, Any] = {
    **{"run": {"dir": "."}, "output_subdir": None},
    "sweep": {"dir": "runs/.multirun", "subdir": "."},
}
NO_PLUGIN = re.compile(r"Could not find 'hydra/launcher/([a-z]+)\w*'")
UNKNOWN_CHOICE = re.compile(r"(?:In '\w+': )?Could not (?:find|load) '([\w/]+)/([^/']+)'")
UNKNOWN_KEY = re.compile(r"(?:Could not override|Key) '([^']+)'")
FULL_KEY = re.compile(r"full_key: (\S+)")
BUDGET_WORDS = dict.fromkeys(("tolerance", "loss", "max"), "budget")
"""Common words for a budget."""
READ = ("run", "runs", "saved_edit", "checkpoint", "recipe")
"""Settings that name a folder or a file (a log, a recipe) that must exist."""
EXPERIMENT = "experiment"
"""The group that overrides settings of its command, and is the last of its choices."""
OF_TASK = ("axis", "data", "texts", "names", "groups", "seed")
"""The settings of a task."""


def _store() -> None:
    """Enter the commands, and the choices that have no file, into Hydra's store."""
    store = ConfigStore.instance()
    silent = [{f"override hydra/{key}": "none"} for key in ("job_logging", "hydra_logging")]
    for name, command in COMMANDS.items():
        defaults: list[Any] = [{k: choice} for k, choice in command.CHOICES.items()]
        defaults.insert(len(defaults) - (EXPERIMENT in command.CHOICES), "_self_")
        settings = {"defaults": defaults + silent, **own_settings(name), "hydra": HYDRA}
        store.store(name, settings)
    for group, choices in conf_path.component_table().items():
        for name in choices:
            store.store(name, conf_path.read_config(group, name), group)


_store()


def composed(command: str, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """The configuration of a command as plain values, unchecked."""
    with initialize_config_dir(str(conf_dir()), version_base="1.3"):
        config = compose(command, [*overrides])
    return plain_config(command, config)


def plain_config(command: str, config: DictConfig) -> dict[str, Any]:
    """A composed configuration as plain values, with the texts of its model."""
    content: Any = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
    if "texts" in COMMANDS[command].CHOICES:
        content["texts"] = _model_texts(content.get("model")) | (content.get("texts") or {})
    return dict(content)


def checked_config(command: str, overrides: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """The configuration of a command, checked, and the overrides without flags, with every `+`.

    Of `--multirun` it is that of the first job, and all are composed. `UserError` if an override is
    wrong.
    """
    flags = [override for override in overrides if override.startswith("-")]
    for flag in flags:
        require_known("flag", flag, FLAGS)
    overrides = [override for override in overrides if override not in flags]
    _require_choices(command, overrides)
    config, overrides = completed(command, overrides, bool({*flags} & {*MULTIRUN}))
    require_valid(command, config)
    return config, overrides


def completed(
    command: str, overrides: Sequence[str], sweeps: bool = False
) -> tuple[dict[str, Any], list[str]]:
    """The first configuration of some overrides, unchecked, and the overrides with every `+`.

    Arguments of a chosen component that are not in its file need none. `UserError` if an override
    is wrong.
    """
    while True:
        try:
            parsed = OverridesParser.create().parse_overrides([*overrides])
            jobs = BasicSweeper.split_arguments(parsed, None)[0] if sweeps else [overrides]
            config, *_ = [composed(command, job) for job in jobs]
            return config, [*overrides]
        except UserError:
            raise
        except (HydraException, OmegaConfBaseException, ValueError) as error:
            key = _refused_key(error)
            ends = f"{key}=", f"{key}."
            added = [f"+{x}" if f"{x}=".startswith(ends) else x for x in overrides]
            if added == overrides or not _is_argument(key):
                raise _in_one_line(command, error) from error
            overrides = added


def require_valid(command: str, config: Mapping[str, Any]) -> None:
    """Refuse a configuration with a wrong key, type, file, folder or task."""
    for key in config:
        if key not in {*COMMANDS[command].CHOICES, *own_settings(command)}:
            raise _unknown_setting(command, key)
    require_settings(command, config)
    for key in READ:
        value = config.get(key) or ()
        for folder in [value] if isinstance(value, str) else value:
            path = Path(folder).expanduser()
            is_read = key in ("runs", "recipe") or (key == "run" and path.suffix == ".csv")
            if not (path.is_dir() or (is_read and path.is_file())):
                problem = "is a file, not a folder" if path.exists() else "is not there"
                raise UserError(f"{key}: {folder!r} {problem}{nearest_to(path)}")
    if config.get("run_dir"):
        require_free(Path(config["run_dir"]))
    if config.get("action") == "compare":
        prompts = config["prompts"]
        if (count := len(prompts) if isinstance(prompts, list) else 1) != 2:
            usage = 'countergen-edit cid "PROMPT" "PROMPT"'
            raise UserError(f"cid compares two prompts, not {count}: {usage}")
    if "perturbation" in config:
        config_of("perturbation", config["perturbation"])
    if config.get("template_file"):
        yaml_mapping(config["template_file"])
    if "data" in config:
        _task_of.cache_clear()  # a file may have changed since
        task = task_of(config)
        if config.get("eraser"):
            task.check_leakage()


def task_of(config: Mapping[str, Any]) -> Task:
    """The task of a configuration; `UserError` if its axes and data make none."""
    return _task_of(json.dumps({key: config[key] for key in OF_TASK}))


@lru_cache(maxsize=2)
def _task_of(config: str) -> Task:
    return Task.from_config(**json.loads(config))


def _model_texts(model: Any) -> dict[str, Any]:
    """The texts on record for a checkpoint, the testbed's for the testbed, else natural ones."""
    name = str(model.get("name")) if isinstance(model, Mapping) else ""
    record = Path(name).expanduser() / RECIPE
    config = json_mapping(record).get("config") if record.is_file() else None
    recorded = config.get("texts") if isinstance(config, Mapping) else None
    if isinstance(recorded, Mapping):
        return dict(recorded)
    return conf_path.read_config("texts", "testbed" if name == TESTBED else "natural")


def _require_choices(command: str, overrides: Sequence[str]) -> None:
    """Refuse overrides that Hydra answers with a trace."""
    for override in overrides:
        key, _, value = override.partition("=")
        if not key:
            raise UserError(f"{override!r} names no setting: write key=value")
        groups = COMMANDS[command].CHOICES
        if key.startswith("~") and key[1:] in groups:
            raise UserError(f"{key}: {key[1:]} cannot be taken away, but another can be chosen")
        if key in groups and re.fullmatch(r"[-+]?[\d.]+|true|false", value):
            raise unknown(key, value, names_of(key))


def _refused_key(error: Exception) -> str:
    """The key of an error that Hydra raises for an unknown one; empty for another error."""
    key = UNKNOWN_KEY.match(str(error))
    full = FULL_KEY.search(str(error.__cause__))
    return (full or key)[1] if key else ""


def _is_argument(key: str) -> bool:
    """Whether a key is an argument of a component, such as `eraser.inlp.tol` or `model.cache`."""
    group, _, argument = key.partition(".")
    is_whole = ("." in argument) if group in NAMED_GROUPS else group == "model"
    return is_whole and argument in component_help(group)


def _in_one_line(command: str, error: Exception) -> UserError:
    """An error of Hydra or OmegaConf as one line with the remedy."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith(("Config search path", "provider="))]
    if missing := NO_PLUGIN.search(lines[0]):
        package = f"hydra-{missing[1]}-launcher"
        return UserError(f"this launcher is not installed here: pip install {package}")
    if choice := UNKNOWN_CHOICE.match(lines[0]):
        return unknown(choice[1].partition("/")[0], choice[2], names_of(choice[1]))
    if key := _refused_key(error):
        return _unknown_setting(command, key)
    return UserError(f"{' '.join(lines)} (see countergen-edit {command} --help all)")


def _unknown_setting(command: str, key: str) -> UserError:
    group, _, name = key.partition(".")
    if group in NAMED_GROUPS and name in names_of(group):
        return UserError(f"{group} {name!r} has settings, but is not chosen: write {group}={name}")
    nearest = nearest_setting(command, key)
    where = f"countergen-edit {command} --help all"
    return UserError(f"unknown setting {key!r}: did you mean {nearest!r}? See {where}")


def nearest_setting(command: str, key: str) -> str:
    """The setting that shares most words with a key, or else letters."""
    from pandas import json_normalize

    keys = [*map(str, json_normalize(composed(command)).columns), *COMMANDS[command].CHOICES]
    group, _, argument = key.partition(".")
    if group in NAMED_GROUPS and "." in argument:
        name = argument.partition(".")[0]
        keys = [f"{group}.{x}" for x in component_help(group) if x.split(".")[0] == name] or keys
    meant = {BUDGET_WORDS.get(word, word) for word in re.split(r"[._]", key)}

    def likeness(name: str) -> tuple[int, float]:
        return len({*re.split(r"[._]", name)} & meant), SequenceMatcher(None, key, name).ratio()

    return max(keys, key=likeness)
