"""What a command's own settings may hold, key by key; a key means the same in every command.

Comes in: a composed config. Goes out: nothing. Refused, before a model or torch is loaded: a value
of another type, a setting that was taken away. What belongs to a group (`model`, `edit`, an eraser)
is held against the class that it makes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from annotated_types import Ge, Gt, Le

from countergen_edit.core.errors import UserError
from countergen_edit.core.typed import require

Texts = Sequence[str] | str | None
Numbers = Sequence[float] | float
WholeNumbers = Sequence[int] | int
Count = Annotated[int, Gt(0)]
TYPES: Mapping[str, Any] = {
    "action": str,
    "axes": Any,  # asked where both of an axis and its data are looked up
    "batch_size": WholeNumbers,
    "card": bool,
    "chat_template": str | None,
    "checkpoint": Texts,
    "cluster": str | None,
    "combine": Count,
    "compared": str,
    "csv": str | None,
    "device": str,
    "directory": str | None,
    "dtype": str,
    "edit": Mapping[str, Any],
    "effort": str,
    "figures": Texts,
    "file": str | None,
    "flagged": bool,
    "folder": str | None,
    "form": str,
    "grid": Numbers,
    "groups": Texts,
    "inputs": str | None,
    "labels": Sequence[str | int] | Mapping[str, str | int] | None,
    "lambda": Numbers,
    "layers": WholeNumbers | str,
    "limit": Count | None,
    "max_dissimilarity": Annotated[float, Ge(0), Le(1)],
    "max_new_tokens": Count,
    "most": Count | None,
    "names": Mapping[str, int | None] | int | None,
    "original": str | None,
    "overwrite": bool,
    "page": str | None,
    "per_kind": Count,
    "private": bool,
    "prompts": Sequence[str] | str,
    "push": str | None,
    "ranks": Any,  # asked number by number
    "raters": Sequence[str] | str,
    "request": str,
    "paraphrase_request": str,
    "paraphrases": Annotated[int, Ge(0)],
    "run": str | None,
    "run_dir": str | None,
    "run_task": str | None,
    "runs": Sequence[str] | str,
    "save": str | None,
    "saved_edit": str | None,
    "scratch": Mapping[str, Annotated[float, Gt(0)] | str | None],
    "seed": int,
    "sentence": bool,
    "sheets": str,
    "similarity": str | None,
    "sites": Texts,
    "splits": Sequence[str] | str,
    "tables": Texts,
    "tau": Numbers,
    "temperature": Annotated[float, Ge(0)],
    "template_file": str | None,
    "templates": Sequence[str] | str,
    "top_k": Count,
    "top_p": Annotated[float, Gt(0), Le(1)],
    "what": Texts,
    "within": str,
}


def require_settings(config: Mapping[str, Any], own: Sequence[str]) -> None:
    """Refuse what a command's own settings cannot hold.

    Args:
        config: as it was composed, with nothing left to look up.
        own: the settings that the command's file has.

    Raises:
        UserError: one is not there, or of another type.
    """
    for key in own:
        if key not in config:
            raise UserError(f"the setting {key!r} is missing: leave ~{key} out")
        require(TYPES[key], config[key], key)
