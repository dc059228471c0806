"""`countergen-edit check`: prompts of one's own, both versions of each, and warnings.

Comes in: a composed config. Goes out: every prompt on the screen; exit code 1 where any wants a
look, as of a linter. Refused: a file that cannot be read.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from rich.text import Text

from countergen_edit.cli.printing import console, say
from countergen_edit.core.conf_path import config_of
from countergen_edit.core.errors import UserError
from countergen_edit.data.axis import Axis
from countergen_edit.data.prompt_check import CheckedPrompt, check_prompts
from countergen_edit.data.text.substitution import Substitution

USUAL = "gender"
"""The axis of commands that name none."""


def run(config: Mapping[str, Any]) -> None:
    """Show the prompts.

    Raises:
        SystemExit: with code 1 where there is a warning.
    """
    path = config["file"]
    if not path:
        raise UserError("say which prompts: countergen-edit check FILE.jsonl")
    content = config_of("axis", config["axis"])
    axis = Axis.from_config(content)
    substitution = Substitution.from_config(axis, content.get("substitution"), config["groups"])
    checked = check_prompts(path, substitution)
    flagged = [one for one in checked if one.findings]
    for one in flagged if config["flagged"] else checked:
        console.print(_shown(one, substitution.groups))
    count = f"{len(checked)} prompt{'' if len(checked) == 1 else 's'}"
    if not flagged:
        own = f" axis={_written(config['axis'])}" if content["name"] != USUAL else ""
        line = f"Next: countergen-edit audit{own} data={shlex.quote(path)}"
        say([f"{count}, no warnings.", line])
        return
    say([f"{count}, {len(flagged)} with warnings."])
    raise SystemExit(1)


def _written(axis: Mapping[str, Any]) -> str:
    """The axis as it is named on a command line."""
    return shlex.quote(str(axis.get("file") or axis["name"]))


def _shown(one: CheckedPrompt, groups: Sequence[str]) -> Text:
    """A prompt with its sides and findings; they may hold any sign, so nothing is markup."""
    text = Text(f"{one.line}: {one.text}\n", style="bold" if one.findings else "")
    for group, side in zip(groups, one.sides, strict=True):
        for variation in side:
            text.append(f"  {group}: {variation}\n", style="")
    for finding in one.findings:
        text.append(f"  ! {finding}\n", style="yellow")
    return text
