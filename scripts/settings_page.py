"""Write the tables of all settings and choices into docs/commands.md: no arguments."""

from __future__ import annotations

from pathlib import Path

from countergen_edit.cli.help import defaults_of, described, description_of, summary_of
from countergen_edit.cli.settings import COMMANDS
from countergen_edit.core.conf_path import conf_dir

PAGE = Path(__file__).parents[1] / "docs" / "commands.md"
HEADING = "## Settings\n\n"
TABLE = ["| setting | default | description |", "|---|---|---|"]


def markdown() -> str:
    """The tables of all settings and choices, for the documentation."""
    lines: list[str] = []
    every: dict[str, str] = {}
    for command in COMMANDS:
        defaults = defaults_of(command)
        every = defaults | every
        lines += [f"### {command}", "", summary_of(command), ""]
        lines += [f"    countergen-edit {command} {COMMANDS[command].USAGE}", "", *TABLE]
        own = [key for key in defaults if "." not in key]
        lines += [*(row(f"`{key}`", f"`{defaults[key]}`", described(key)) for key in own), ""]
    lines += ["### Components", "", *TABLE]
    lines += [row(f"`{k}`", f"`{every[k]}`", described(k)) for k in every if "." in k]
    for group in dict.fromkeys(g for command in COMMANDS.values() for g in command.CHOICES):
        lines += ["", f"### {group}=", "", "| choice | description |", "|---|---|"]
        paths = sorted((conf_dir() / group).rglob("*.yaml"))
        lines += [row(f"`{path.stem}`", description_of(path)) for path in paths]
    return "\n".join(lines)


def row(*cells: str) -> str:
    """A row of a Markdown table."""
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


if __name__ == "__main__":
    before, _, _ = PAGE.read_text("utf-8").partition(HEADING)
    PAGE.write_text(f"{before}{HEADING}{markdown()}\n", "utf-8")
