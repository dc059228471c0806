"""What a long command says before it begins, while the heavy imports have not been made.

Comes in: a composed config. Goes out: one line: the model, who is compared on what, what is tried,
and on which machine.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from countergen_edit.core.errors import UserError

LONG = ("audit", "debias", "sweep", "edit")
"""Commands that load a model and search."""
AT_ONCE = ("check", "new", "runs")
"""Commands that answer within a second."""


def opening(command: str, config: Mapping[str, Any]) -> str:
    """The first words of a command; empty where it has none.

    >>> config = {"model": {"name": "m", "device": "cpu"}, "eraser": {"rlace": {}, "leace": {}}}
    >>> opening("audit", config).partition("; on ")[0]
    'audit of m: rlace, leace'
    >>> opening("report", config), opening("runs", config)
    ('report: loading …', '')
    """
    if command not in LONG:
        return "" if command in AT_ONCE else f"{command}: loading …"
    model = config.get("model") or {}
    named = [", ".join(config.get(key) or {}) for key in ("eraser", "metric", "cost")]
    costs = "costs " if named[0] else "also "
    words = (("", named[0]), ("measured by ", named[1]), (costs, named[2]))
    tried = "; ".join(f"{about}{names}" for about, names in words if names)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    device = model.get("device", "auto")
    who = _compared(config)
    place = f"{cores} cores" if device in ("cpu", "auto") else str(device)
    limit = config.get("limit")
    few = f"; at most {limit} prompts of each set" if limit else ""
    return f"{command} of {model.get('name', '')}: {who}{tried}{few}; on {place}. Loading …"


def _compared(config: Mapping[str, Any]) -> str:
    """The axis and the groups; empty where they are wrong, which the command then says."""
    from countergen_edit.data.axis import Axis  # late: commands that answer at once do without
    from countergen_edit.data.axis_config import axis_config

    try:
        axis = Axis.from_config(axis_config(config["axis"]))
        groups = axis.chosen(config.get("groups"))
    except (KeyError, UserError):
        return ""
    of_how_many = axis.of_how_many(len(groups))
    named = " / ".join(group.name.replace("_", " ") for group in groups)
    return f"{axis.name}: {named}{f' ({of_how_many})' if of_how_many else ''}; "
