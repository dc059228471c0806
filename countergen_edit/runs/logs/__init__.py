"""Logs of other tools, one reader each: what they scored, item by item, and of which model."""

from __future__ import annotations

from pathlib import Path

from countergen_edit.core.registry import Registry
from countergen_edit.runs.logs.log import Log, Reader

LOGS: Registry[type[Reader]] = Registry(
    "log",
    "countergen_edit.logs",
    {
        "lm_eval": "countergen_edit.runs.logs.lm_eval:LmEval",
        "inspect": "countergen_edit.runs.logs.inspect_ai:InspectAi",
    },
    Reader,
)
"""Readers by the name of their tool; an installed package may enter its own."""


def read_log(path: Path, cluster: str | None = None) -> Log | None:
    """What a log says; None of what is no log of a tool that is known.

    Args:
        path: a file or folder.
        cluster: the column of an item's own data that names its cluster.

    Raises:
        UserError: it is damaged, unfinished, or without the scores of single items.
    """
    readers = (LOGS.get(name)() for name in LOGS)
    reader = next((reader for reader in readers if reader.knows(path)), None)
    return None if reader is None else reader.read(path, cluster)


__all__ = ["LOGS", "Log", "Reader", "read_log"]
