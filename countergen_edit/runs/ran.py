"""When a run was made, how long it took, its hardware and its conversation."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any


def now() -> datetime:
    """The time in UTC."""
    return datetime.now(UTC)


@dataclass
class Ran:
    """The entry `ran` of a manifest, over all sessions; times are in UTC."""

    begin: datetime
    end: datetime
    """Of the last unit."""
    seconds: float
    hardware: Sequence[str]
    """Each machine, in the order of use."""


def until_now(earlier: Mapping[str, Any] | None, begin: datetime) -> dict[str, Any]:
    """The entry now, of a session that began then added to earlier ones."""
    end = now()
    earlier = earlier or {}
    return {
        "begin": earlier.get("begin", begin.isoformat(timespec="seconds")),
        "end": end.isoformat(timespec="seconds"),
        "seconds": round(earlier.get("seconds", 0.0) + (end - begin).total_seconds(), 1),
        "hardware": [*dict.fromkeys((*earlier.get("hardware", ()), hardware()))],
    }


@cache
def hardware() -> str:
    """Processor, cores and accelerators."""
    import torch

    info = Path("/proc/cpuinfo")
    named = re.search(r"model name\s*: (.+)", info.read_text("utf-8")) if info.is_file() else None
    parts = [f"{named[1] if named else platform.machine()}, {os.cpu_count()} cores"]
    parts += [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return "; ".join(parts)


def in_words(manifest: Mapping[str, Any]) -> str:
    """Date, duration and hardware in one line; empty if the run has no unit.

    >>> ran = {"begin": "2026-11-24T08:00:00+00:00", "seconds": 61.8, "hardware": ["x", "y"]}
    >>> in_words({"ran": ran})
    '2026-11-24 08:00 UTC, 62 s on x and y'
    """
    if (ran := manifest.get("ran")) is None:
        return ""
    begin = datetime.fromisoformat(ran["begin"])
    machines = " and ".join(ran["hardware"])
    return f"{begin:%Y-%m-%d %H:%M} UTC, {duration(ran['seconds'])} on {machines}"


def conversation_in_words(manifest: Mapping[str, Any]) -> str:
    """The conversation that contains the texts; empty for plain texts."""
    if not (template := manifest.get("template")):
        return ""
    texts = "texts are plain, and those of test data" if "beside" in template else "texts"
    too = " too" if "beside" in template else ""
    reply = f"{texts} stand in the model's chat template{too}, as the beginning of its reply to"
    thought = ", which begins after an empty thought" if "thought" in template else ""
    closing = f" (the template is told {template['closing']})" if "closing" in template else ""
    return f"{reply} “{template['instruction']}”{thought}{closing}"


def duration(seconds: float) -> str:
    """Seconds, minutes or hours.

    >>> duration(4.2), duration(130), duration(7500)
    ('4 s', '2 min', '2 h 5 min')
    """
    minutes = round(seconds / 60)
    if seconds < 100 or minutes < 100:
        return f"{seconds:.0f} s" if seconds < 100 else f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min"
