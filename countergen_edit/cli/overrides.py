"""Command-line arguments as Hydra's overrides.

Prompts and paths are quoted, so that they are literal; any model, `FILE.yaml` and `FILE.py:Class`
stand beside the names of shipped files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from countergen_edit.cli.settings import COMMANDS, NAMED_GROUPS, own_settings, types_of
from countergen_edit.core.conf_path import CONFIG_FILES, OWN_CODE, names_of, prompt_source
from countergen_edit.core.errors import UserError
from countergen_edit.core.locating import refuse_page

MULTIRUN = ("--multirun", "-m")
LITERAL = ("model.name", "model.adapter", "model.served_name", "model.cache", "texts.neutral")
"""Settings of components that hold a path or a name."""
REPLACED = ("baseline.prompting.requests", "metric.benchmarks.limit", "metric.cid.templates")
"""Mappings that a value replaces instead of merging with the default."""
FILES = ("axis", "data", "perturbation")
"""Groups that take a YAML file."""
LATE = ("texts.", *(f"{group}." for group in FILES))
"""Keys that are unknown before the model is, or the file is read."""
ASSIGNMENT = re.compile(r"[+~]{0,2}[A-Za-z_][\w./@:-]*=|~(?!/)|-")
REFERENCE = re.compile(r"\$\{[\s.]*([\w.]+)\s*\}")


def overrides_of(command: str, arguments: Sequence[str]) -> list[str]:
    """The arguments of a command as Hydra's overrides.

    >>> overrides_of("report", ["my run", "files=csv"])
    ['files=csv', "run='my run'"]
    >>> overrides_of("cid", ["Jane works as", "John works as", "lambda=0,10"])
    ['lambda=[0,10]', "prompts=['Jane works as','John works as']"]
    >>> overrides_of("gate", ["runs/one", "group_effect=0.3", "strict=false"])
    ["++limits.group_effect='0.3'", 'strict=false', "run='runs/one'"]
    >>> overrides_of("audit", ["-m", "model=mine,gpt2-xl"])
    ['-m', 'model=any', "model.name='mine','gpt2-xl'"]
    >>> overrides_of("audit", ["--cfg", "job"])
    ['--cfg']
    """
    key = COMMANDS[command].ARGUMENT
    overrides, positional = list[str](), list[str]()
    for before, argument in pairwise(["", *arguments]):
        if (before, argument) == ("--cfg", "job"):  # as Hydra writes it
            continue
        section, _, value = argument.partition("=")
        is_known = _is_known(command, section)
        if key and not (ASSIGNMENT.match(argument) and (is_known or not exists(argument))):
            positional.append(quoted(argument))
            continue
        for name in REFERENCE.findall(value):
            if name == section or (_is_known(command, name) and not section.startswith("hydra")):
                raise UserError(f"{argument} refers to the setting {name!r}: write its value")
        if section == "model" and "," in value and {*MULTIRUN} & {*arguments}:
            names = [value] if exists(value) else value.split(",")
            overrides += ["model=any", f"model.name={','.join(map(quoted, names))}"]
        elif COMMANDS[command].OTHERS and value and not is_known:
            overrides.append(f"++{COMMANDS[command].OTHERS}.{section}={quoted(value)}")
        else:
            overrides += _as_overrides(command, argument)
    if key.endswith("[]") and positional:
        key, positional = key.removesuffix("[]"), [f"[{','.join(positional)}]"]
    overrides += [f"{key}={value}" for value in positional]
    return [text if text.startswith(("hydra", "-")) else escaped(text) for text in overrides]


def _as_overrides(command: str, argument: str) -> list[str]:
    """One argument as Hydra's overrides, with interpolations.

    >>> _as_overrides("audit", "model=/models/mine")
    ['model=any', "model.name='/models/mine'"]
    >>> _as_overrides("audit", "model=http://127.0.0.1:8000/v1")
    ['model=served', "model.name='http://127.0.0.1:8000/v1'"]
    >>> _as_overrides("audit", "axis=[gender,nationality]")
    ['axis=[]', '+axis.cross=[gender,nationality]']
    >>> _as_overrides("audit", "experiment=fairpair_table3")
    ['experiment=audit/fairpair_table3']
    """
    key, _, value = argument.partition("=")
    if not value:
        return [argument]
    if key == "model" and key in COMMANDS[command].CHOICES and value not in names_of(key):
        refuse_page(value)
        kind = "served" if value.startswith(("http://", "https://")) else "any"
        return [f"model={kind}", f"model.name={quoted(value)}"]
    if key == "axis" and value[0] == "[" and value[-1] == "]" and value != "[]":
        return ["axis=[]", f"+axis.cross={value}"]
    if key in FILES and value.endswith(CONFIG_FILES):
        return [f"{key}=[]", f"+{key}.file={quoted(value)}"]
    if key == "data" and (source := prompt_source(value)):
        return ["data=prompts", f"data.test=[{{source:{source},path:{quoted(value)}}}]"]
    if key == "lambda" and not value.startswith("["):
        return [f"lambda=[{value}]"]
    if key == "experiment" and "/" not in value and value != "null":
        return [f"experiment={command}/{value}"]
    if key in NAMED_GROUPS:
        return choices(key, value)
    if key in REPLACED and value[0] in "{[":
        return [f"~{key}", f"+{key}={value}"]
    name = f"++{key}" if key.startswith(LATE) else key
    is_literal = key in LITERAL or "Path" in str(types_of(command).get(key))
    if _is_text(value) or (is_literal and value != "null" and value[0] not in "'\""):
        return [f"{name}={quoted(value)}"]
    return [f"{name}={value}"]


def _is_text(value: str) -> bool:
    """Whether a value has no meaning in Hydra's grammar, or is a path with a comma."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    try:
        parsed = OverridesParser.create().parse_override(f"key={escaped(value)}")
    except HydraException:
        return value[0] not in "[{"
    return parsed.is_sweep_override() and exists(value)


def exists(path: str) -> bool:
    """Whether a file or folder is there; of FILE.py:Class the file."""
    return os.access(OWN_CODE.sub(r"\1", path), os.F_OK)


def _is_known(command: str, key: str) -> bool:
    """Whether a key is a setting, config group, flag or sign of Hydra's."""
    names = {*own_settings(command), *COMMANDS[command].CHOICES, "hydra"}
    return key[:1] in ("+", "~", "-") or key.partition(".")[0] in names


def choices(group: str, value: str) -> list[str]:
    """Choices of a group: names of shipped files, custom components, or a mapping of names.

    >>> choices("eraser", "[rlace,my.py:Mine]")
    ['eraser=[rlace]', "+eraser.Mine={kind:'my.py:Mine'}"]
    """
    if value == "null":
        return [f"{group}=[]"]
    if value.startswith("{"):
        from hydra.core.override_parser.overrides_parser import OverridesParser
        from hydra.core.override_parser.types import Override

        as_text = Override._get_value_element_as_str
        content: Any = OverridesParser.create().parse_override(f"{group}={value}").value()
        entries = (f"+{group}.{key}={as_text(entry)}" for key, entry in content.items())
        return [f"{group}=[]", *entries]
    is_path = exists(value)  # a comma may be in it
    if "," in value and not value.startswith("[") and not is_path:
        return [f"{group}={value}"]  # jobs of --multirun
    names = [value] if is_path else value.strip("[]").split(",")
    names = [name.strip(" '\"") for name in names if name.strip()]
    shipped = [name for name in names if name in names_of(group)]
    if group == "eraser" and "none" in shipped and names != ["none"]:
        erasers = ", ".join(name for name in names if name != "none")
        raise UserError(f"eraser=none stands alone, not beside {erasers}: write one or the other")
    if shipped == names:
        return [f"{group}={value}"]
    custom = (name for name in names if name not in shipped)
    added = (f"+{group}.{n.rpartition(':')[2]}={{kind:{quoted(n)}}}" for n in custom)
    return [f"{group}=[{','.join(shipped)}]", *added]


def quoted(value: str) -> str:
    r"""A text in quotes that Hydra gives back as it is.

    >>> print(quoted("it's"))
    'it\'s'
    """
    value = re.sub(r"(\\*)'", r"\1\1\\'", value)
    return "'" + re.sub(r"(\\+)$", r"\1\1", value) + "'"


def escaped(value: str) -> str:
    """A text without interpolations."""
    return re.sub(r"(\\*)\$\{", r"\1\1\\${", value)
