"""When a run was made, how long it took, on which hardware, and in which conversation."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from countergen_edit.core.typed import built


def now() -> datetime:
    """The time in UTC."""
    return datetime.now(UTC)


@dataclass(frozen=True)
class Ran:
    """The entry `ran` of a manifest, over all sessions; times are in UTC."""

    begin: datetime
    end: datetime
    """Of the last unit."""
    seconds: float
    hardware: tuple[str, ...]
    """Each machine, in the order of use."""

    @property
    def entry(self) -> dict[str, Any]:
        """As a manifest holds it."""
        times = {key: getattr(self, key).isoformat(timespec="seconds") for key in ("begin", "end")}
        return {"ran": {**times, "seconds": self.seconds, "hardware": [*self.hardware]}}


def ran_of(manifest: Mapping[str, Any], where: str = "") -> Ran | None:
    """When and where a run was made; None without a recorded unit."""
    return built(Ran, manifest["ran"], f"{where}ran.") if "ran" in manifest else None


def until_now(earlier: Ran | None, begin: datetime) -> Ran:
    """The entry at this moment of a session that began then, added to earlier sessions."""
    end = now()
    known = earlier or Ran(begin, end, 0.0, ())
    seconds = round(known.seconds + (end - begin).total_seconds(), 1)
    return Ran(known.begin, end, seconds, tuple(dict.fromkeys((*known.hardware, hardware()))))


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

    >>> begin, end = datetime(2026, 11, 24, 8), datetime(2026, 11, 24, 9)
    >>> in_words(Ran(begin, end, 61.8, ("x", "y")).entry)
    '2026-11-24 08:00 UTC, 62 s on x and y'
    """
    ran = ran_of(manifest)
    if ran is None:
        return ""
    machines = " and ".join(ran.hardware)
    return f"{ran.begin:%Y-%m-%d %H:%M} UTC, {duration(ran.seconds)} on {machines}"


def conversation_in_words(manifest: Mapping[str, Any]) -> str:
    """The conversation that contains the texts; empty for plain texts."""
    if not (template := manifest.get("template")):
        return ""
    beside = "texts are plain, and those of test data" if "beside" in template else "texts"
    too = " too" if "beside" in template else ""
    reply = f"{beside} stand in the model's chat template{too}, as the beginning of its reply to"
    thought = ", which begins after an empty thought" if "thought" in template else ""
    told = f" (the template is told {template['closing']})" if "closing" in template else ""
    return f"{reply} “{template['instruction']}”{thought}{told}"


def duration(seconds: float) -> str:
    """Seconds, minutes or hours.

    >>> duration(4.2), duration(130), duration(7500)
    ('4 s', '2 min', '2 h 5 min')
    """
    minutes = round(seconds / 60)
    if seconds < 100 or minutes < 100:
        return f"{seconds:.0f} s" if seconds < 100 else f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min"
