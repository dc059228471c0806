"""What a command on a checkpoint takes over from its making: the texts that tell what it cost.

Comes in: a composed config, and the words it was composed of. Goes out: the config; where it is
about a checkpoint of this package and names no texts, with those of the checkpoint's record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from countergen_edit.core.reading import json_mapping
from countergen_edit.models.locating import RECORD

TEXTS = "texts"
NAMING = (TEXTS, "experiment")
"""Words that choose texts."""


def taken_over(config: dict[str, Any], words: Sequence[str]) -> dict[str, Any]:
    """The config with the texts of the checkpoint that it is about.

    Raises:
        UserError: the checkpoint's record is damaged.
    """
    model = config.get("model")
    keys = (word.lstrip("+~").partition("=")[0].partition(".")[0] for word in words)
    if TEXTS not in config or not isinstance(model, Mapping) or {*keys} & {*NAMING}:
        return config
    path = Path(str(model.get("name"))).expanduser() / RECORD
    made_with = json_mapping(path).get("config") if path.is_file() else None
    texts = made_with.get(TEXTS) if isinstance(made_with, Mapping) else None
    return {**config, TEXTS: texts} if isinstance(texts, Mapping) else config
