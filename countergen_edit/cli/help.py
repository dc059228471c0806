"""Help, generated from `settings`, `conf/` and the docstrings of components."""

from __future__ import annotations

import json
import re
import shutil
import textwrap
from functools import cache
from inspect import signature
from itertools import groupby
from typing import Any

from countergen_edit.cli import settings
from countergen_edit.cli.settings import COMMANDS, NAMED_GROUPS, own_settings
from countergen_edit.core.conf_path import component_table, conf_dir, names_of, read_config
from countergen_edit.core.typed import parameters_of
from countergen_edit.reports.glossary import explain, glossary

FIRST = (
    *("prompts", "run", "runs", "checkpoint", "file", "save", "action", "model", "task", "axis"),
    *("data", "eraser", "metric", "lambda", "edit.layers", "layers", "groups", "limit"),
    *("run_dir", "names", "seed"),
)
"""The settings that most people change, ten of which come first in a command's help."""
UNDESCRIBED = ("experiment", "axis", "perturbation")
"""Groups whose files hold other settings than theirs."""
CONTENT = {
    "data": {"fit": "sets to fit on; own: a part of your prompts", "keep": "sets to leave alone"},
    "texts": {"neutral": "natural or FILE.txt; null as the model has it"},
    "cost": {"budget": "most that an edit may cost"},
    "task": {"most": "most words per slot of the templates, such as {name: 2}"},
}
"""Group → settings that people change and that no component has."""
COLUMN, PAGE_WIDTH = 34, 100


def usage() -> str:
    """The help of the program."""
    lines = ["usage: countergen-edit COMMAND [key=value …]", ""]
    lines += [f"  {name:<12} {command.__doc__}" for name, command in COMMANDS.items()]
    lines += [
        "",
        "countergen-edit COMMAND --help shows the ten main settings of a command.",
        "countergen-edit COMMAND --help all shows every setting and every choice.",
        "countergen-edit help TERM explains a term of the reports; without TERM it lists all.",
    ]
    return "\n".join(lines)


def page(command: str, *, every: bool = False) -> str:
    """The help of a command: its ten main settings, or every setting and choice."""
    lines = [f"usage: countergen-edit {command} {COMMANDS[command].USAGE}", ""]
    lines += [*wrapped(str(COMMANDS[command].__doc__)), ""]
    defaults, groups = defaults_of(command), COMMANDS[command].CHOICES
    if every:
        for group in groups:
            lines += entry(f"{group}={defaults[group]}", settings.GROUP_HELP[group])
            for name, text in choices_of(command, group).items():
                lines += entry(f"    {name}", text)
            lines.append("")
        shown = [key for key in defaults if key not in groups]
    else:
        searched = {"edit.layers"} if "layers" in defaults else set()
        main = [key for key in FIRST if key in defaults and key not in searched]
        shown = [*main, *(key for key in defaults if key not in main and "." not in key)][:10]
    for key in shown:
        lines += entry(f"{key}={defaults[key]}", help_of(command, key))
    hidden = len(defaults) - len(shown)
    if not every and (hidden or groups):
        lines += ["", f"countergen-edit {command} --help all: {hidden} more settings, all choices"]
    return "\n".join(lines)


def explained(word: str) -> str:
    """A term's meaning, limits and source; without a word, the list of terms."""
    if not word:
        lines = ["usage: countergen-edit help TERM", "", "Terms:"]
        for part, terms in groupby(glossary(), key=lambda term: term.of):
            lines += ["", part, *wrapped(", ".join(term.term for term in terms), "  ")]
        return "\n".join(lines)
    term = explain(word)
    also = f"  (also: {', '.join(term.aliases)})" if term.aliases else ""
    parts = {"Limits": term.limits, "Source": term.source}
    parts |= {"In results.jsonl": ", ".join(term.rows), "See": ", ".join(term.see)}
    texts = [term.says, *(f"{name}: {text}" for name, text in parts.items() if text)]
    return "\n".join([*wrapped(term.term + also), *(x for t in texts for x in wrapped(t, "  "))])


def defaults_of(command: str) -> dict[str, str]:
    """Every setting of a command with its default as it is written; groups come first."""
    choices = COMMANDS[command].CHOICES
    values = choices | own_settings(command)
    if "model" not in choices:
        values |= {f"model.{key}": value for key, value in values.pop("model", {}).items()}
    for group, chosen in choices.items():
        values |= _component_settings(group, chosen)
    values.pop(COMMANDS[command].OTHERS, None)
    return {key: as_typed(value) for key, value in values.items()}


def _component_settings(group: str, chosen: Any) -> dict[str, Any]:
    """The settings of a group's components, the chosen ones' values first."""
    values: dict[str, Any] = {}
    first = chosen if isinstance(chosen, list) else [chosen]
    names = [] if group in UNDESCRIBED else names_of(group)
    for name in sorted(names, key=lambda name: name not in first):
        content, prefix = read_config(group, name), group
        if group in NAMED_GROUPS:  # of variants of a component the settings are the component's
            content, prefix = content.get(name, {}), f"{group}.{name}"
        for key, value in content.items():
            if key in CONTENT.get(group, content) and key not in ("name", "defaults"):
                values.setdefault(f"{prefix}.{key}", value)
    return values


def help_of(command: str, key: str) -> str:
    """The description of a setting, with None as YAML writes it and without a capital."""
    group, _, name = key.partition(".")
    if name:  # of `edit` no component has to be imported
        texts = parameters_of(settings.EditSettings) if group == "edit" else component_help(group)
        text = texts.get(name) or texts.get(name.rpartition(".")[2], "")
    else:
        is_choice = group in COMMANDS[command].CHOICES
        text = (settings.GROUP_HELP if is_choice else _settings_help())[group]
    text = text.replace("None", "null")
    return text[:1].lower() + text[1:] if text[1:2].islower() else text


@cache
def _settings_help() -> dict[str, str]:
    texts: dict[str, str] = {}
    for command in COMMANDS.values():
        texts |= {key.rstrip("_"): text for key, text in parameters_of(command).items()}
    return texts


@cache
def component_help(group: str) -> dict[str, str]:
    """The descriptions of the settings of a group's components, by `NAME.KEY` and by key."""
    from countergen_edit import api  # late: imports torch
    from countergen_edit.erasers import ERASERS
    from countergen_edit.metrics.base import METRICS
    from countergen_edit.models import connect
    from countergen_edit.runs.baselines import BASELINES

    kinds: dict[str, Any] = {"eraser": ERASERS, "metric": METRICS, "baseline": BASELINES}
    components = {name: kinds[group].get(name) for name in kinds.get(group, ())}
    if group == "model":
        components = {"any": api.load, "served": connect}
    texts = dict(CONTENT.get(group, {}))
    for name, component in components.items():
        described = parameters_of(component)
        for key in signature(component).parameters:
            texts[f"{name}.{key}"] = described.get(key) or texts.get(key, "")
            texts.setdefault(key, texts[f"{name}.{key}"])
    return texts


def choices_of(command: str, group: str) -> dict[str, str]:
    """The choices of a group with their descriptions; of experiments those of the command."""
    of_command = f"{group}/{command}"
    group = of_command if (conf_dir() / of_command).is_dir() else group
    texts = {name: entry["says"] for name, entry in component_table().get(group, {}).items()}
    comment = re.compile("(?m)^# (?!@package|countergen-edit )(.*)")
    for path in (conf_dir() / group).glob("*.yaml"):
        texts[path.stem] = comment.findall(path.read_text("utf-8"))[0]
    return dict(sorted(texts.items()))


def as_typed(value: Any) -> str:
    """A default as it is written on a command line."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False).replace('"', "")


def entry(left: str, right: str) -> list[str]:
    """Lines of two columns."""
    left = left if len(left) < COLUMN else f"{left[: COLUMN - 2]}…"
    first, *lines = wrapped(right, " " * COLUMN) or [""]
    return [left.ljust(COLUMN) + first[COLUMN:], *lines]


def wrapped(text: str, indent: str = "") -> list[str]:
    """Lines as wide as the terminal, from 60 to 100 columns; words stay whole."""
    width = max(60, min(PAGE_WIDTH, shutil.get_terminal_size((PAGE_WIDTH, 24)).columns))
    whole: dict[str, Any] = {"break_on_hyphens": False, "break_long_words": False}
    return textwrap.wrap(text, width, initial_indent=indent, subsequent_indent=indent, **whole)
