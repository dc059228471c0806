"""Logs of other tools, lm-evaluation-harness and Inspect: scores of single items of one model."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from countergen_edit.core.errors import UserError, unknown
from countergen_edit.metrics.items import Item


@dataclass
class Log:
    """Scores that a tool measured on one model.

    `versions` are settings of each task that make its scores comparable, `prompts` hashes by task
    and item, `unread` tasks and metrics whose items have no numeric score.
    """

    tool: str
    model: str
    items: list[Item] = field(default_factory=list)
    versions: dict[str, dict[str, str]] = field(default_factory=dict)
    prompts: dict[tuple[str, str], str] = field(default_factory=dict)
    unread: dict[str, None] = field(default_factory=dict)


def read_log(path: Path, cluster: str | None = None) -> Log | None:
    """The log in a file or folder; None where there is no log of a known tool.

    `cluster` is the column of an item's own data that names its cluster. Raises `UserError` for a
    log that is damaged, unfinished, or without the scores of single items.
    """
    from countergen_edit.runs.logs import inspect_ai, lm_eval

    for tool in (lm_eval, inspect_ai):
        found = [f for pattern in tool.FILES for f in sorted(path.glob(pattern)) if f.is_file()]
        files = [path] if path.is_file() else found
        logs = [log for file in files if tool.is_log(file) for log in tool.tasks(file, cluster)]
        if not logs:
            continue
        if len(models := dict.fromkeys(log.model for log in logs)) > 1:
            raise UserError(f"{path} holds logs of several models: {', '.join(models)}")
        whole = Log(logs[0].tool, logs[0].model)
        for log in logs:
            if twice := log.versions.keys() & whole.versions:
                raise UserError(f"{path} holds {min(twice)} twice: name one of its files")
            whole.items += log.items
            whole.versions |= log.versions
            whole.prompts |= log.prompts
            whole.unread |= log.unread
        return whole
    return None


def begins(path: Path, pattern: bytes) -> bool:
    """Whether a JSON file begins so."""
    if path.suffix != ".json":
        return False
    with path.open("rb") as file:
        return re.match(pattern, file.read(200)) is not None


def cluster_in(columns: object, cluster: str | None, where: str) -> str | None:
    """The cluster of an item, from its own data; raises `UserError` where the column is missing."""
    if cluster is None:
        return None
    own = columns if isinstance(columns, Mapping) else {}
    if cluster not in own:
        raise UserError(f"{where}{unknown('cluster', cluster, own)}")
    return str(own[cluster])
