"""`countergen-edit check`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from rich.text import Text

from countergen_edit.cli.composing import checked_config
from countergen_edit.cli.overrides import overrides_of
from countergen_edit.cli.printing import console, say
from countergen_edit.core.characters import printable
from countergen_edit.core.conf_path import config_of, prompt_source
from countergen_edit.core.errors import UserError, command
from countergen_edit.data.axis import Axis
from countergen_edit.data.prompt_check import CheckedPrompt, check_prompts
from countergen_edit.data.sources import load_set
from countergen_edit.data.text.substitution import Substitution


def run_check(config: Mapping[str, Any], words: Sequence[str]) -> None:
    """Print both versions of each prompt; as a linter, exit with code 1 if there is a warning."""
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
    same = [word for word in words if re.match(r"(axis|groups)[.\w]*=", word)]
    words = [*same, f"data={path}"]
    findings = [finding for prompt in prompts for finding in prompt.findings]
    refused = []
    try:
        checked_config("audit", overrides_of("audit", words))
    except UserError as error:
        if not any(finding in str(error) for finding in findings):
            refused = [f"An audit refuses them: {error}"]
    if findings or refused:
        warned = sum(bool(prompt.findings) for prompt in prompts) or "none"
        say([f"{count}, {warned} with warnings.", *refused])
        raise SystemExit(1)
    if any(len(side) > 1 for prompt in prompts for side in prompt.sides):
        _say_smallest_p(path, substitution)
    say([f"{count}, no warnings.", f"Next: {command('audit', *words)}"])


def _say_smallest_p(path: str, substitution: Substitution) -> None:
    """Print the smallest P that the names of a file can give; exit code 1 if it is above 0.05."""
    from countergen_edit.decisions.significance import smallest_p  # late: imports torch

    source = {"source": prompt_source(path), "path": path}
    test = smallest_p(load_set(source, substitution.axis, substitution, "test"))
    if p := test.get("least_p_adjusted"):
        needed = test.get("names_to_test", 0)
        end = f"; a significant bias needs {needed}" if needed else ""
        say([f"{test['people']} names per group: the smallest possible P is {p:.2g}{end}."])
        if needed:
            raise SystemExit(1)


def as_text(prompt: CheckedPrompt, groups: Sequence[str]) -> Text:
    """A prompt with its versions and warnings."""
    text = Text(printable(f"{prompt.line}: {prompt.text}\n"), "bold" if prompt.findings else "")
    for group, side in zip(groups, prompt.sides, strict=True):
        for variation in side:
            text.append(printable(f"  {group}: {variation}\n"), style="")
    for finding in prompt.findings:
        text.append(printable(f"  ! {finding}\n"), style="yellow")
    return text
