"""Help, generated from `settings` and `conf/`."""

from __future__ import annotations

import json
import shutil
import textwrap
from fnmatch import fnmatch
from itertools import groupby
from pathlib import Path
from typing import Any

from countergen_edit.cli.settings import COMMANDS, DESCRIPTIONS, own_settings
from countergen_edit.core.conf_path import conf_dir
from countergen_edit.core.reading import shipped_yaml
from countergen_edit.reports.glossary import explain, glossary

FIRST = (
    *("prompts", "run", "runs", "checkpoint", "file", "save", "action", "model", "task", "axis"),
    *("data", "eraser", "metric", "lambda", "edit.layers", "layers", "groups", "limit"),
    *("run_dir", "names", "seed"),
)
"""The settings that most people change; the first ten of a command come first in its help."""
NAMED = ("eraser", "metric", "cost", "baseline", "tracker")
"""Groups whose files hold their settings under a name."""
UNDESCRIBED = ("experiment", "launcher", "axis", "perturbation")
"""Groups whose files hold other settings than their own."""
COLUMN, WIDTH = 34, 100


def usage() -> str:
    """The help of the program."""
    return "\n".join(
        [
            *("usage: countergen-edit COMMAND [key=value …]", ""),
            *(f"  {name:<12} {summary_of(name)}" for name in COMMANDS),
            "",
            "countergen-edit COMMAND --help shows the ten main settings of a command.",
            "countergen-edit COMMAND --help all shows every setting and every choice.",
            "countergen-edit help TERM explains a term of the reports; without TERM it lists all.",
        ]
    )


def page(command: str, *, every: bool = False) -> str:
    """The help of a command: its ten main settings, or every setting and choice."""
    lines = [f"usage: countergen-edit {command} {COMMANDS[command].USAGE}", ""]
    lines += [*wrapped(summary_of(command)), ""]
    defaults, groups = defaults_of(command), COMMANDS[command].CHOICES
    if every:
        for group in groups:
            lines += entry(f"{group}={defaults[group]}", described(group))
            for path in choices_of(command, group):
                lines += entry(f"    {path.stem}", description_of(path))
            lines.append("")
        shown = [key for key in defaults if key not in groups]
    else:
        searched = {"edit.layers"} if "layers" in defaults else set()
        main = [key for key in FIRST if key in defaults and key not in searched]
        shown = [*main, *(key for key in defaults if key not in main and "." not in key)][:10]
    for key in shown:
        lines += entry(f"{key}={defaults[key]}", described(key))
    rest = len(defaults) - len(shown)
    if not every and (rest or groups):
        about = f"{rest} more settings, all choices"
        lines += ["", f"countergen-edit {command} --help all: {about}"]
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
    lines = [*wrapped(term.term + also), *wrapped(term.says, "  ")]
    parts = {
        "Limits": term.limits,
        "Source": term.source,
        "In results.jsonl": ", ".join(term.rows),
        "See": ", ".join(term.see),
    }
    for name, text in parts.items():
        lines += wrapped(f"{name}: {text}", "  ") if text else []
    return "\n".join(lines)


def defaults_of(command: str) -> dict[str, str]:
    """Every setting of a command with its default as it is written; groups come first."""
    choices = COMMANDS[command].CHOICES
    values: dict[str, Any] = {**choices}
    for key, value in own_settings(command).items():
        if key in ("edit", "model") and isinstance(value, dict):
            values |= {f"{key}.{inner}": entry for inner, entry in value.items()}
        elif key not in choices:
            values[key] = value
    for group in choices:
        values |= component_settings(group, choices[group])
    return {key: written(value) for key, value in values.items()}


def component_settings(group: str, chosen: Any) -> dict[str, Any]:
    """The described settings of a group's components, the chosen ones' values first."""
    names = chosen if isinstance(chosen, list) else [chosen]
    paths = sorted((conf_dir() / group).glob("*.yaml"), key=lambda path: path.stem not in names)
    found: dict[str, Any] = {}
    for path in paths if group not in UNDESCRIBED else ():
        content = shipped_yaml(path) or {}
        for name, settings in content.items() if group in NAMED else [("", content)]:
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


def wrapped(text: str, indent: str = "") -> list[str]:
    """Lines as wide as the terminal, from 60 to 100 columns; words stay whole."""
    width = max(60, min(WIDTH, shutil.get_terminal_size((WIDTH, 24)).columns))
    whole: dict[str, Any] = {"break_on_hyphens": False, "break_long_words": False}
    return textwrap.wrap(text, width, initial_indent=indent, subsequent_indent=indent, **whole)
