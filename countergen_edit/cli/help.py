"""Help and the settings page of the documentation, generated from `settings` and `conf/`."""

from __future__ import annotations

import json
import shutil
import textwrap
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from countergen_edit.cli.settings import COMMANDS, DESCRIPTIONS, own_settings
from countergen_edit.core.conf_path import conf_dir
from countergen_edit.core.reading import shipped_yaml

FIRST = (
    *("prompts", "run", "runs", "checkpoint", "file", "save", "action", "model", "task", "axis"),
    *(
        "data",
        "eraser",
        "metric",
        "lambda",
        "edit.layers",
        "layers",
        "groups",
        "limit",
        "run_dir",
        "names",
        "seed",
    ),
)
"""The settings that most people change; the first ten of a command come first in its help."""
NAMED = ("eraser", "metric", "cost", "baseline", "tracker")
"""Groups whose files hold their settings under a name."""
COLUMN, WIDTH = 34, 100


def usage() -> str:
    """The help of the program."""
    lines = [f"  {name:<12} {summary_of(name)}" for name in COMMANDS]
    return "\n".join(
        [
            *("usage: countergen-edit COMMAND [key=value …]", "", *lines, ""),
            "countergen-edit COMMAND --help shows the ten main settings of a command.",
            "countergen-edit COMMAND --help all shows every setting and every choice.",
            "countergen-edit help TERM explains a term of the reports; without TERM it lists all.",
        ]
    )


def page(command: str, *, every: bool = False) -> str:
    """The help of a command: its ten main settings, or every setting and choice."""
    lines = [f"usage: countergen-edit {command} {COMMANDS[command].USAGE}", ""]
    lines += [*wrapped(summary_of(command), ""), ""]
    defaults = defaults_of(command)
    if not every:
        searched = {"edit.layers"} if "layers" in defaults else set()
        keys = [key for key in FIRST if key in defaults and key not in searched]
        keys = [*keys, *(key for key in defaults if key not in keys and "." not in key)][:10]
        for key in keys:
            lines += entry(f"{key}={defaults[key]}", described(key))
        rest = len(defaults) - len(keys)
        if rest or COMMANDS[command].CHOICES:
            lines += [
                "",
                f"countergen-edit {command} --help all: {rest} more settings, all choices",
            ]
        return "\n".join(lines)
    for group in COMMANDS[command].CHOICES:
        lines += [*entry(f"{group}={defaults[group]}", described(group))]
        for path in choices_of(command, group):
            lines += entry(f"    {path.stem}", description_of(path))
        lines.append("")
    for key, default in defaults.items():
        if key not in COMMANDS[command].CHOICES:
            lines += entry(f"{key}={default}", described(key))
    return "\n".join(lines)


def markdown() -> str:
    """The tables of all settings and choices, for the documentation."""
    lines = []
    for command in COMMANDS:
        lines += [f"### {command}", "", f"{summary_of(command)}", ""]
        lines += [f"    countergen-edit {command} {COMMANDS[command].USAGE}", ""]
        lines += ["| setting | default | description |", "|---|---|---|"]
        defaults = defaults_of(command)
        own = [key for key in defaults if "." not in key]
        lines += [row(f"`{key}`", f"`{defaults[key]}`", described(key)) for key in own]
        lines.append("")
    lines += ["### Components", "", "| setting | default | description |", "|---|---|---|"]
    every: dict[str, str] = {}
    for command in COMMANDS:
        every = defaults_of(command) | every
    lines += [row(f"`{k}`", f"`{every[k]}`", described(k)) for k in every if "." in k]
    for group in dict.fromkeys(g for command in COMMANDS.values() for g in command.CHOICES):
        lines += ["", f"### {group}=", "", "| choice | description |", "|---|---|"]
        paths = sorted((conf_dir() / group).rglob("*.yaml"))
        lines += [row(f"`{path.stem}`", description_of(path)) for path in paths]
    return "\n".join(lines)


def row(*cells: str) -> str:
    """A row of a Markdown table."""
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def defaults_of(command: str) -> dict[str, str]:
    """Every setting of a command with its default as it is written; groups come first."""
    choices = COMMANDS[command].CHOICES
    own = {key: value for key, value in own_settings(command).items() if key not in choices}
    values = choices | own
    for group in choices:
        values |= component_settings(group, choices[group])
    return {key: written(value) for key, value in flat(values)}


def flat(values: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Settings, with those of `edit` and `model` that a command has itself in their place."""
    for key, value in values.items():
        if key in ("edit", "model") and isinstance(value, dict):
            yield from ((f"{key}.{inner}", entry) for inner, entry in value.items())
        else:
            yield key, value


def component_settings(group: str, chosen: Any) -> dict[str, Any]:
    """The described settings of a group's components; values are of the chosen one if it has them.

    >>> component_settings("cost", ["kl"])["cost.kl.budget"]
    0.05
    """
    names = chosen if isinstance(chosen, list) else [chosen]
    paths = sorted((conf_dir() / group).glob("*.yaml"), key=lambda path: path.stem not in names)
    found: dict[str, Any] = {}
    for path in paths if group not in ("experiment", "launcher", "axis", "perturbation") else ():
        content = shipped_yaml(path) or {}
        items = content.items() if group in NAMED else [("", content)]
        for name, settings in items:
            prefix = f"{group}.{name}." if name else f"{group}."
            for key, value in (settings or {}).items():
                if pattern_of(f"{prefix}{key}"):
                    found.setdefault(f"{prefix}{key}", value)
    return found


def pattern_of(key: str) -> str:
    """The key of `DESCRIPTIONS` for a setting.

    >>> pattern_of("eraser.rlace.rank"), pattern_of("seed")
    ('eraser.*.rank', 'seed')
    """
    if key in DESCRIPTIONS:
        return key
    return next((known for known in DESCRIPTIONS if "*" in known and fnmatch(key, known)), "")


def described(key: str) -> str:
    """The description of a setting."""
    return DESCRIPTIONS[pattern_of(key)]


def summary_of(command: str) -> str:
    """The description of a command."""
    return str(COMMANDS[command].__doc__)


def choices_of(command: str, group: str) -> list[Path]:
    """The files of a group; of experiments those of the command."""
    own = conf_dir() / group / command
    return sorted((own if own.is_dir() else conf_dir() / group).glob("*.yaml"))


def description_of(path: Path) -> str:
    """The first comment line of a file that is no command."""
    comments = (line for line in path.read_text("utf-8").splitlines() if line.startswith("# "))
    skipped = ("# @package", "# countergen-edit ")
    return next((c.removeprefix("# ") for c in comments if not c.startswith(skipped)), "")


def written(value: Any) -> str:
    """A default as it is written on a command line."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False).replace('"', "")


def entry(left: str, right: str) -> list[str]:
    """Lines of two columns."""
    left = left if len(left) < COLUMN else f"{left[: COLUMN - 2]}…"
    first, *rest = wrapped(right, " " * COLUMN) or [""]
    return [left.ljust(COLUMN) + first[COLUMN:], *rest]


def wrapped(text: str, indent: str) -> list[str]:
    """Lines as wide as the terminal, from 60 to 100 columns; words stay whole."""
    width = max(60, min(WIDTH, shutil.get_terminal_size((WIDTH, 24)).columns))
    return textwrap.wrap(
        text,
        width,
        initial_indent=indent,
        subsequent_indent=indent,
        break_on_hyphens=False,
        break_long_words=False,
    )


if __name__ == "__main__":
    print(markdown())
