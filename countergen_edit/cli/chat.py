"""`countergen-edit chat`: a line is a message in the chat template, else the start of a text."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from typing import Any

from rich.table import Table
from rich.text import Text

from countergen_edit import api
from countergen_edit.cli.printing import console, say
from countergen_edit.core.characters import printable, require_encodable
from countergen_edit.core.errors import UserError, command
from countergen_edit.edits import applied
from countergen_edit.edits.checkpoints import Checkpoint, open_checkpoint
from countergen_edit.models import LanguageModel, generate, load_model


def run_chat(config: Mapping[str, Any], words: Sequence[str] = ()) -> None:
    """Answer each line until input ends."""
    if not config["checkpoint"]:
        raise UserError("say which checkpoint: countergen-edit chat DIR")
    checkpoint = open_checkpoint(str(config["checkpoint"]))
    original, edited, edit = models_of(checkpoint, config)
    is_chat, longest = original.chat.is_on, config["max_new_tokens"]
    for line in lines("a message" if is_chat else "the beginning of a text"):
        texts = []
        for model, context in ((original, nullcontext()), (edited, edit())):
            with context:
                texts += generate(model, [line], chat=is_chat, max_new_tokens=longest)
        table = Table(box=None, expand=True, padding=(0, 2, 1, 0))
        for title in ("original", "edited"):
            table.add_column(title, ratio=1, header_style="bold", justify="left")
        # Plain text, whatever markup or control codes a model generates.
        table.add_row(*(Text(printable(text)) for text in texts))
        console.print(table)
    again = command("audit", f"model={checkpoint.folder}", "eraser=none")
    say([f"Next, in figures: {again}"])


def models_of(
    checkpoint: Checkpoint, config: Mapping[str, Any]
) -> tuple[LanguageModel, LanguageModel, Any]:
    """The unedited model, the edited one, and a context that edits the latter.

    An edit that is put on the unedited weights needs one copy of them.
    """
    where = dict(config["model"])
    measured = checkpoint.record.get("template")
    if where["template"] is None:
        del where["template"]
        if measured is not None:
            where |= {"template": "chat", "instruction": measured["instruction"]}
    original = api.load_original(checkpoint, config["original"] or api.ON_RECORD, **where)
    if not checkpoint.is_folded:
        return original, original, lambda: applied(original, checkpoint.edit)
    return original, load_model(checkpoint.folder, **where), nullcontext


def lines(kind: str) -> Iterator[str]:
    """Lines that are typed or piped in, without empty ones."""
    if sys.stdin.isatty():
        console.print(f"Type {kind}; an empty line or Ctrl-D ends.")
        with suppress(EOFError):
            while line := console.input("> "):
                yield line
        return
    for number, line in enumerate(sys.stdin, 1):
        if text := line.rstrip("\r\n"):
            require_encodable(text, f"standard input, line {number}: ")
            console.print(Text(f"> {printable(text)}"))
            yield text
