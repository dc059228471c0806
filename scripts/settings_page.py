"""Write the tables of all settings and choices into docs/commands.md: no arguments."""

from __future__ import annotations

from pathlib import Path

from countergen_edit.cli.help import choices_of, defaults_of, help_of
from countergen_edit.cli.settings import COMMANDS

PAGE = Path(__file__).parents[1] / "docs" / "commands.md"
HEADING = "## Settings\n\n"
TABLE = ["| setting | default | description |", "|---|---|---|"]


def markdown() -> str:
    """The tables of all settings and choices, for the documentation."""
    lines: list[str] = []
    every: dict[str, tuple[str, str]] = {}
    choices: dict[str, dict[str, str]] = {}
    for name, command in COMMANDS.items():
        lines += [f"### {name}", "", str(command.__doc__), ""]
        lines += [f"    countergen-edit {name} {command.USAGE}", "", *TABLE]
        for key, default in defaults_of(name).items():
            every.setdefault(key, (default, help_of(name, key)))
            lines += [row(f"`{key}`", f"`{default}`", help_of(name, key))] * ("." not in key)
        lines.append("")
        for group in command.CHOICES:
            choices[group] = choices.get(group, {}) | choices_of(name, group)
    lines += ["### Components", "", *TABLE]
    lines += [row(f"`{k}`", f"`{v}`", text) for k, (v, text) in every.items() if "." in k]
    for group, texts in choices.items():
        lines += ["", f"### {group}=", "", "| choice | description |", "|---|---|"]
        lines += [row(f"`{name}`", text) for name, text in texts.items()]
    return "\n".join(lines)


def row(*cells: str) -> str:
    """A row of a Markdown table."""
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


if __name__ == "__main__":
    before, _, _ = PAGE.read_text("utf-8").partition(HEADING)
    PAGE.write_text(f"{before}{HEADING}{markdown()}\n", "utf-8")
