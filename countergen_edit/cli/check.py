"""`countergen-edit check`."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich.text import Text

from countergen_edit.cli.composing import checked_config
from countergen_edit.cli.overrides import overrides_of
from countergen_edit.cli.printing import console, say
from countergen_edit.core.conf_path import config_of
from countergen_edit.core.errors import UserError, command
from countergen_edit.data.axis import Axis
from countergen_edit.data.prompt_check import CheckedPrompt, check_prompts
from countergen_edit.data.text.substitution import Substitution


def run(config: Mapping[str, Any]) -> None:
    """Print both versions of each prompt.

    Raises:
        SystemExit: with code 1 if there is a warning, as of a linter.
    """
    path = config["file"]
    if not path:
        raise UserError("say which prompts: countergen-edit check FILE.jsonl")
    content = config_of("axis", config["axis"])
    axis = Axis.from_config(content)
    substitution = Substitution.from_config(axis, content.get("substitution"), config["groups"])
    prompts = check_prompts(path, substitution)
    for prompt in prompts:
        console.print(as_text(prompt, substitution.groups))
    count = f"{len(prompts)} prompt{'' if len(prompts) == 1 else 's'}"
    same = [word for word in sys.argv[1:] if re.match(r"(axis|groups)[.\w]*=", word)]
    words = [*same, f"data={path}"]
    findings, refused = [finding for prompt in prompts for finding in prompt.findings], []
    try:
        checked_config("audit", overrides_of("audit", words))
    except UserError as error:
        if not any(finding in str(error) for finding in findings):
            refused = [f"An audit refuses them: {error}"]
    if findings or refused:
        warned = sum(bool(prompt.findings) for prompt in prompts) or "none"
        say([f"{count}, {warned} with warnings.", *refused])
        raise SystemExit(1)
    say([f"{count}, no warnings.", f"Next: {command('audit', *words)}"])


def as_text(prompt: CheckedPrompt, groups: Sequence[str]) -> Text:
    """A prompt with its versions and warnings."""
    text = Text(f"{prompt.line}: {prompt.text}\n", style="bold" if prompt.findings else "")
    for group, side in zip(groups, prompt.sides, strict=True):
        for variation in side:
            text.append(f"  {group}: {variation}\n", style="")
    for finding in prompt.findings:
        text.append(f"  ! {finding}\n", style="yellow")
    return text
