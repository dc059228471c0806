"""`countergen-edit chat`: the original and the edited model continue the same lines.

In the chat template a line is a user's message, and what they write is the reply.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from typing import Any

from rich.table import Table
from rich.text import Text

from countergen_edit import api
from countergen_edit.cli.printing import console, say
from countergen_edit.core.errors import UserError
from countergen_edit.edits import applied
from countergen_edit.edits.checkpoints import Checkpoint, open_checkpoint
from countergen_edit.models import LanguageModel, generate, load

WHAT = {False: "the beginning of a text", True: "a message"}
"""What is typed, by whether the model replies to it."""


def run(config: Mapping[str, Any]) -> None:
    """Answer line after line until input ends."""
    value = config["checkpoint"]
    folders = value if isinstance(value, list) else [value]  # a list from words without a key
    if len(folders) != 1 or not folders[0]:
        raise UserError("say which checkpoint: countergen-edit chat DIR")
    checkpoint = open_checkpoint(str(folders[0]))
    original, edited, edit = _models(checkpoint, config)
    asked = original.chat.is_on
    temperature = float(config["temperature"])
    sampling = {"do_sample": True, "temperature": temperature, "top_p": float(config["top_p"])}
    for line in _lines(WHAT[asked]):
        texts = []
        for model, attached in ((original, nullcontext()), (edited, edit())):
            with attached:
                texts += generate(
                    model,
                    [line],
                    chat=asked,
                    max_new_tokens=int(config["max_new_tokens"]),
                    seed=int(config["seed"]),
                    **(sampling if temperature > 0 else {}),  # type: ignore[arg-type]
                )
        table = Table(box=None, expand=True, padding=(0, 2, 1, 0))
        for title in ("original", "edited"):
            table.add_column(title, ratio=1, header_style="bold", justify="left")
        # Shown as text, whatever markup or control codes a model makes up.
        table.add_row(*(Text("".join(c for c in t if c.isprintable() or c == "\n")) for t in texts))
        console.print(table)
    folder = shlex.quote(str(checkpoint.folder))
    say([f"Next, in figures: countergen-edit audit model={folder} eraser=none"])


def _models(
    checkpoint: Checkpoint, config: Mapping[str, Any]
) -> tuple[LanguageModel, LanguageModel, Any]:
    """The original, the edited, and a context in which the latter is edited.

    A carried checkpoint holds the unedited weights, so one copy of them serves both.
    """
    where = _where(checkpoint.record, config)
    original = api.load_original(checkpoint, config["original"] or api.ON_RECORD, **where)
    if checkpoint.carried:
        return original, original, lambda: applied(original, checkpoint.edit)
    return original, load(checkpoint.folder, **where), nullcontext


def _where(record: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
    """How the models are loaded: unless told, in the chat template where the edit was measured."""
    where = {"device": config["device"], "dtype": config["dtype"]}
    measured = record.get("template")
    if config["chat_template"] is not None:
        return where | {"template": config["chat_template"]}
    if measured is None:
        return where
    return where | {"template": "chat", "instruction": measured["instruction"]}


def _lines(what: str) -> Iterator[str]:
    """Prompts as they are typed or piped in; empty lines are passed over."""
    if sys.stdin.isatty():
        console.print(f"Type {what}; an empty line or Ctrl-D ends.")
        while line := _ask():
            yield line
        return
    for line in sys.stdin:
        if text := line.rstrip("\r\n"):
            console.print(Text(f"> {text}"))
            yield text


def _ask() -> str:
    try:
        return console.input("> ")
    except EOFError:
        return ""
