"""The first line of a long command, printed before the heavy imports."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from countergen_edit.core.errors import UserError

LONG = ("audit", "debias", "sweep", "edit")
FAST = ("check", "new")


def opening(command: str, config: Mapping[str, Any]) -> str:
    """Model, groups, components and machine of a command; empty for a fast one.

    >>> config = {"model": {"name": "m", "device": "cpu"}, "eraser": {"rlace": {}, "leace": {}}}
    >>> opening("audit", config).partition("; on ")[0]
    'audit of m: rlace, leace'
    >>> opening("report", config), opening("new", config)
    ('report: loading …', '')
    """
    if command not in LONG:
        return "" if command in FAST else f"{command}: loading …"
    model = config.get("model") or {}
    labels = {"eraser": "", "metric": "measured by ", "cost": "costs "}
    chosen = {key: ", ".join(config.get(key) or {}) for key in labels}
    parts = [compared(config), *(f"{labels[key]}{names}" for key, names in chosen.items() if names)]
    if limit := config.get("limit"):
        parts.append(f"at most {limit} prompts of each set")
    device = model.get("device", "auto")
    parts.append(f"on {f'{os.cpu_count()} cores' if device in ('cpu', 'auto') else device}")
    return f"{command} of {model.get('name', '')}: {'; '.join(filter(None, parts))}. Loading …"


def compared(config: Mapping[str, Any]) -> str:
    """The axis and its groups; empty if they are invalid, which the command then reports."""
    from countergen_edit.data.axis import Axis  # late: fast commands do without
    from countergen_edit.data.axis_config import axis_config

    try:
        axis = Axis.from_config(axis_config(config["axis"]))
        groups = axis.chosen(config.get("groups"))
    except (KeyError, UserError):
        return ""
    of_how_many = axis.of_how_many(len(groups))
    named = " / ".join(group.name.replace("_", " ") for group in groups)
    return f"{axis.name}: {named}{f' ({of_how_many})' if of_how_many else ''}"
