"""When a run was made, how long it took, and on which hardware."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from countergen_edit.reading import json_mapping


def now() -> datetime:
    """The time in UTC."""
    return datetime.now(UTC)


def ran(manifest: Path, begin: datetime) -> dict[str, Any]:
    """A session's entry `ran` of a manifest, added to those of earlier sessions.

    Args:
        manifest: the run's file; its entry, if any, is of sessions that were stopped.
        begin: of this session.

    Returns:
        `begin` of the first session and `end` of this one (UTC), `seconds` of all sessions that
        were not killed, and `hardware`.
    """
    known: Mapping[str, Any] = json_mapping(manifest).get("ran", {})
    end = now()
    return {
        "begin": known.get("begin", begin.isoformat(timespec="seconds")),
        "end": end.isoformat(timespec="seconds"),
        "seconds": round(known.get("seconds", 0.0) + (end - begin).total_seconds(), 1),
        "hardware": hardware(),
    }


def hardware() -> str:
    """Processor, cores that this process may use, memory, and accelerators if there are any."""
    import torch

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    parts = [f"{_processor()}, {cores} cores"]
    if hasattr(os, "sysconf"):
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        parts.append(f"{memory / 2**30:.0f} GiB of memory")
    parts += [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return "; ".join(parts)


def _processor() -> str:
    """The processor's model where Linux says it, else its architecture."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text("utf-8").splitlines() if info.is_file() else []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.machine())


def in_words(manifest: Mapping[str, Any]) -> str:
    """Date, duration and hardware in one line; empty if the run did not end.

    >>> in_words({"ran": {"begin": "2026-11-24T08:00:00+00:00", "seconds": 61.8, "hardware": "x"}})
    '2026-11-24 08:00 UTC, 62 s on x'
    """
    entry = manifest.get("ran")
    if not entry:
        return ""
    begin = datetime.fromisoformat(entry["begin"])
    return f"{begin:%Y-%m-%d %H:%M} UTC, {duration(entry['seconds'])} on {entry['hardware']}"


def duration(seconds: float) -> str:
    """Seconds, minutes or hours.

    >>> duration(4.2), duration(130), duration(7500)
    ('4 s', '2 min', '2 h 5 min')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"
