"""What pages print for people to type: blocks of code by language, commands, files."""

from __future__ import annotations

import re
import shlex

from hydra.core.override_parser.overrides_parser import OverridesParser

from countergen_edit.cli.composing import completed
from countergen_edit.cli.overrides import overrides_of
from countergen_edit.cli.settings import COMMANDS, NAMED_GROUPS
from countergen_edit.reports.glossary import explain

BLOCK = re.compile(r"^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"# (\S+\.(?:py|yaml))\n")
"""How a block begins that is a file and has no title."""
_WITHIN = r"(?:[^][{}]|\{[^{}]*\}|\[[^][]*\])*"
SETTING = re.compile(
    r"(?<![\w./$-])([a-z_]+(?:\.[A-Za-z_]\w*)+)="
    rf"(\{{{_WITHIN}\}}|\[{_WITHIN}\]|\"[^\"]*\"|[^][\s`,;)'\"{{}}…]*)"
)
"""KEY.KEY=VALUE."""


def blocks(text: str, language: str) -> list[str]:
    return [block[3] for block in BLOCK.finditer(text) if block[1] == language]


def files(text: str) -> dict[str, str]:
    named = {}
    for block in BLOCK.finditer(text):
        head = NAMED.match(block[3])
        if name := block[2] or (head[1] if head else ""):
            named[name] = block[3].removeprefix(head[0] if head else "")
    return named


def lines(text: str) -> list[str]:
    """The lines of a page's shell blocks, those that go on joined, with variables put in."""
    variables: dict[str, str] = {}
    printed = []
    for block in blocks(text, "sh"):
        for line in block.replace("\\\n", " ").splitlines():
            for name, value in variables.items():
                line = line.replace(f'"${name}"', shlex.quote(value)).replace(f"${name}", value)
            if assigned := re.fullmatch(r"([A-Z]+)=(.+)", line):
                [variables[assigned[1]]] = shlex.split(assigned[2])
            elif line and not line.startswith("#"):
                printed.append(line)
    return printed


def commands(text: str) -> list[str]:
    """The commands of this package that a page prints, in blocks and within sentences."""
    inline = re.findall(r"`(countergen-edit [^`]+)`", text)
    return [line for line in (*lines(text), *inline) if line.startswith("countergen-edit ")]


def settings(text: str) -> dict[str, str]:
    """The settings of components that a text prints, wherever it does, by their keys.

    The value is null where a text leaves it out, or it is cut by a line or another language.
    """
    return {key: value or "null" for key, value in SETTING.findall(text)}


def chosen(key: str) -> tuple[str, list[str]]:
    """The command that has a setting, and the choice without which it has none."""
    group, component, *rest = key.split(".")
    if rest[:1] == ["perturber"] and rest[1:]:
        return "audit", ["experiment=fairpair_llm"]
    if group in NAMED_GROUPS:
        return "audit", [f"{group}={component}"]
    if group == "model":
        return "audit", ["model=served" if component == "served_name" else "model=gpt2"]
    return ("gate" if group == "margin" else "audit"), []


def first_job(overrides: list[str]) -> list[str]:
    parsed = OverridesParser.create().parse_overrides(overrides)
    return [
        f"{o.key_or_group}={next(o.sweep_string_iterator())}" if o.is_sweep_override() else given
        for o, given in zip(parsed, overrides, strict=True)
    ]


def require_composes(line: str) -> None:
    """Fail where a command's settings do not compose, or its term is none."""
    _, command, *words = shlex.split(line, comments=True)
    if command == "help":
        assert words == ["TERM"] or explain(" ".join(words))
        return
    if command == "COMMAND":
        assert words == ["--help"]
        return
    assert command in COMMANDS
    flags = ("--help", "all", "--multirun")
    overrides = overrides_of(command, [word for word in words if word not in flags])
    if "--multirun" in words:
        overrides = first_job(overrides)
    without = [o for o in overrides if not o.startswith(("hydra/launcher=", "hydra.launcher."))]
    assert completed(command, without)[0]
