"""What `countergen-edit COMMAND --help` prints, made from the settings that it describes.

Comes in: the files under `conf`. Goes out: a page with every setting, its default and its meaning,
and a line for each choice of each group. A setting's meaning is the comment on its line, or on the
line of the same setting in another file of its group, so that each is told once.
"""

from __future__ import annotations

import re
import shutil
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import cache
from pathlib import Path

import yaml

from countergen_edit.core.conf_path import conf_dir
from countergen_edit.core.reading import SHIPPED, shipped_yaml

NAMED_IN_FILE = ("eraser", "metric", "cost", "baseline", "tracker")
"""Groups whose files hold their settings under a name."""
COLUMN = 34
LONGEST = 40
COMMENT = re.compile(r"^[^#]*?(?:^|\s)#\s*(.*)$")
FOOT = (
    "Names of your own stand beside the names above: FILE.py:Class, or what an installed package "
    "enters. --cfg job prints the whole configuration."
)


@dataclass(frozen=True)
class Setting:
    """One setting: its dotted key, its default as YAML has it, and what it means."""

    key: str
    default: str
    meaning: str


@dataclass(frozen=True)
class Choice:
    """A group of a command's defaults: what is chosen of it, and what the choice means."""

    group: str
    chosen: tuple[str, ...]
    meaning: str
    folder: Path


def page(command: str) -> str:
    """The help of a command."""
    usage, *description = _head(_file(command))
    lines = [f"usage: {usage}", "", *wrapped(" ".join(description), "")]
    if choices := choices_of(command):
        lines += ["", "Choices: GROUP=NAME, where * is taken unless another is named"]
    for choice in choices:
        lines += ["", *_entry(choice.group, choice.meaning)]
        for path in sorted(choice.folder.glob("*.yaml")):
            mark = "*" if path.stem in choice.chosen else " "
            lines += _entry(f"  {mark} {path.stem}", summary(path))
    lines += ["", "Settings: KEY=VALUE, with what is taken unless another value is given", ""]
    for setting in settings_of(command):
        lines += _entry(f"{setting.key}={_short(setting.default)}", setting.meaning)
    return "\n".join([*lines, "", *wrapped(FOOT, "")])


def choices_of(command: str) -> list[Choice]:
    """The groups that a command lets one choose from."""
    path = _file(command)
    text = path.read_text("utf-8")
    node = _composed(text)
    entries = next(value for key, value in node.value if key.value == "defaults").value
    choices = []
    for entry in entries:
        if not isinstance(entry, yaml.MappingNode):
            continue
        [(key, value)] = entry.value
        if key.value.startswith("override "):
            continue
        several = isinstance(value, yaml.SequenceNode)
        chosen = [v.value for v in value.value] if several else [value.value]
        folder = conf_dir() / key.value
        own = folder / command  # studies stand in a folder for each command
        meaning = _comment(text, value)
        choices.append(Choice(key.value, tuple(chosen), meaning, own if own.is_dir() else folder))
    overrides = {group: name for choice in choices for group, name in _overrides(choice).items()}
    return [
        replace(choice, chosen=(overrides.get(choice.group, choice.chosen[0]), *choice.chosen[1:]))
        for choice in choices
    ]


def _overrides(choice: Choice) -> dict[str, str]:
    """What the chosen files of a group choose of other groups."""
    files = [choice.folder / f"{name}.yaml" for name in choice.chosen]
    contents = [shipped_yaml(file) or {} for file in files if file.is_file()]
    entries = [entry for content in contents for entry in content.get("defaults", ())]
    return {
        key.removeprefix("override /").partition("@")[0]: str(value)
        for entry in entries
        if isinstance(entry, dict)
        for key, value in entry.items()
        if key.startswith("override /")
    }


def settings_of(command: str) -> list[Setting]:
    """Every setting of a command: those of the chosen files, then its own."""
    settings: dict[str, Setting] = {}
    for choice in choices_of(command):
        for name in choice.chosen:
            path = choice.folder / f"{name}.yaml"
            if not path.is_file():
                continue
            prefix = "" if choice.group in NAMED_IN_FILE else f"{choice.group}."
            for setting in explained(path):
                if setting.key == "defaults":
                    continue  # what else is chosen, not a setting
                key = prefix + setting.key
                own = f"{choice.group}.{key}" if not prefix else key
                settings[own] = replace(setting, key=own)
    for setting in _settings(_file(command), frozenset(settings)):
        if setting.key.partition(".")[0] not in ("defaults", "hydra"):
            before = settings.get(setting.key)
            meaning = before.meaning if before else setting.meaning
            settings[setting.key] = replace(setting, meaning=meaning)
    return [*settings.values()]


def own_settings(command: str) -> list[str]:
    """The settings that a command's file has itself, beside the groups it chooses from.

    >>> own_settings("report")
    ['run', 'figures', 'tables', 'card', 'folder']
    """
    return [key for key in shipped_yaml(_file(command)) if key not in ("defaults", "hydra")]


BUDGET_WORDS = {"tolerance": "budget", "loss": "budget"}
"""What budgets were called in version 0.1."""


def nearest_setting(command: str, key: str) -> str:
    """The setting that a key most likely means: by words they share, then by letters.

    Of settings that share as much, one that holds a plain value comes before one that does not.

    >>> nearest_setting("debias", "max_agreement_loss")
    'cost.agreement.budget'
    """
    groups = [choice.group for choice in choices_of(command)]
    settings = settings_of(command)
    several = {setting.key for setting in settings if setting.default[:1] in ("{", "[")}
    keys = [*(setting.key for setting in settings), *groups]
    meant = {BUDGET_WORDS.get(word, word) for word in _words(key)}
    frequency = Counter(word for known in keys for word in {*_words(known)})

    def likeness(known: str) -> tuple[float, bool, float]:
        shared = {*_words(known)} & meant  # the rarer a word, the more it says
        says = sum(1 / frequency[word] for word in shared)
        return says, known not in several, SequenceMatcher(None, key, known).ratio()

    return max(keys, key=likeness)


def _words(key: str) -> list[str]:
    return re.split(r"[._]", key)


def explained(path: Path) -> list[Setting]:
    """The settings of a file, with meanings that another file of the group may tell.

    Where none of a mapping's entries is explained by itself, the mapping is one setting.
    """
    shared = _meanings(path.parent) if path.parent != conf_dir() else {}
    return [
        setting if setting.meaning else replace(setting, meaning=shared.get(setting.key, ""))
        for setting in _settings(path, frozenset(shared))
    ]


@cache
def _meanings(folder: Path) -> dict[str, str]:
    """What the files of a group say that settings of a name mean."""
    meanings: dict[str, str] = {}
    for path in sorted(folder.glob("*.yaml")):
        for setting in _settings(path, frozenset()):
            if setting.meaning:
                meanings.setdefault(setting.key, setting.meaning)
    return meanings


@cache
def _settings(path: Path, known: frozenset[str]) -> list[Setting]:
    text = path.read_text("utf-8")
    node = _composed(text)
    return list(_walk(text, node, "", known)) if isinstance(node, yaml.MappingNode) else []


def _composed(text: str) -> yaml.Node:
    node = yaml.compose(text, Loader=SHIPPED)
    assert node is not None
    return node


def _walk(
    text: str, node: yaml.MappingNode, prefix: str, known: frozenset[str]
) -> Iterator[Setting]:
    for key, value in node.value:
        name = f"{prefix}{key.value}"
        block = isinstance(value, yaml.MappingNode | yaml.SequenceNode) and not value.flow_style
        meaning = _comment(text, key if block else value)
        if isinstance(value, yaml.MappingNode):
            if not (value.value or meaning):
                continue  # nothing to set
            inner = list(_walk(text, value, f"{name}.", known))
            if any(setting.key in known or (block and setting.meaning) for setting in inner):
                yield from inner
                continue
        yield Setting(name, _default(text, value), meaning)


def _default(text: str, node: yaml.Node) -> str:
    """A value in one line."""
    if isinstance(node, yaml.ScalarNode):
        return text[node.start_mark.index : node.end_mark.index]
    if isinstance(node, yaml.SequenceNode):
        return f"[{', '.join(_default(text, entry) for entry in node.value)}]"
    entries = (f"{key.value}: {_default(text, value)}" for key, value in node.value)
    return f"{{{', '.join(entries)}}}"


def _comment(text: str, node: yaml.Node) -> str:
    """The comment on the line where a node ends."""
    rest = text[node.end_mark.index :].partition("\n")[0]
    hit = COMMENT.match(rest)
    return hit[1].strip() if hit else ""


def _head(path: Path) -> list[str]:
    """The comment lines that a file begins with, without those for Hydra."""
    lines = []
    for line in path.read_text("utf-8").splitlines():
        if not line.startswith("#"):
            break
        if not line.startswith("# @package"):
            lines.append(line.removeprefix("#").strip())
    return lines


def summary(path: Path) -> str:
    """What a file is: the first of its comment lines that is no command."""
    return next((line for line in _head(path) if not line.startswith("countergen-edit ")), "")


def _file(command: str) -> Path:
    return conf_dir() / f"{command}.yaml"


def _short(default: str) -> str:
    return default if len(default) <= LONGEST else default[: LONGEST - 1] + "…"


def _entry(left: str, right: str) -> list[str]:
    """A line of two columns; what does not fit goes on below."""
    if not right:
        return [left]
    first, *rest = wrapped(right, " " * COLUMN) or [""]
    if len(left) + 2 > COLUMN:
        return [left, first, *rest]
    return [left.ljust(COLUMN) + first[COLUMN:], *rest]


def wrapped(text: str, indent: str) -> Sequence[str]:
    """Lines of a text as wide as the terminal, from 60 signs to 110, broken between words."""
    width = max(60, min(110, shutil.get_terminal_size((100, 24)).columns))
    # A word stays whole: it may be a flag or a value to be copied.
    return textwrap.wrap(
        text,
        width,
        initial_indent=indent,
        subsequent_indent=indent,
        break_on_hyphens=False,
        break_long_words=False,
    )
