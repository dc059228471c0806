"""Followers pass the rows of a run folder to trackers, each unit once.

The units that a tracker has seen are listed beside the rows. A kill between a call and its line in
the list repeats a unit; none is missed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from countergen_edit.core.reading import json_records
from countergen_edit.metrics.rows import Row
from countergen_edit.models.progress import announce
from countergen_edit.runs.tracking.base import (
    TRACKERS,
    TrackedRun,
    Tracker,
    figures_of,
    flat,
)

TOLD = "tracked"
"""Folder of a run that holds, by tracker, the units that it was told."""
_NO_NAME = re.compile(r"[^\w.-]+")
Chosen = Mapping[str, Mapping[str, Any] | None]


class Follower:
    """A tracker of one run; its failure leaves the run alone."""

    def __init__(self, name: str, make: Callable[[], Tracker], path: Path) -> None:
        self.name = name
        self._make = make
        self._list = path / TOLD / f"{_NO_NAME.sub('_', name)}.jsonl"
        self._told: dict[str, None] = {}
        self._tracker: Tracker | None = None

    def begin(self, run: TrackedRun, recorded: Callable[[], Sequence[Row]]) -> None:
        """Begin, and tell what was recorded and not yet told."""
        with self._whatever_happens():
            tracker = self._make()
            self._list.parent.mkdir(exist_ok=True)
            content = self._list.read_bytes() if self._list.is_file() else b""
            whole = content[: content.rfind(b"\n") + 1]  # a kill may have cut the last line
            self._list.write_bytes(whole)
            self._told = {str(r.get("unit")): None for _, r in json_records(whole, self._list)}
            tracker.begin(run)
            self._tracker = tracker
        for unit, rows in groupby(recorded(), key=lambda row: row.unit):
            if unit not in self._told:
                self.tell(unit, [*rows])

    def tell(self, unit: str, rows: Sequence[Row]) -> None:
        """Tell a unit's rows."""
        if self._tracker is None:
            return
        with self._whatever_happens():
            self._tracker.log(figures_of(rows), len(self._told), rows)
            with self._list.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"unit": unit}) + "\n")
            self._told[unit] = None

    def end(self, finished: bool) -> None:
        """Let go of the run."""
        if self._tracker is not None:
            with self._whatever_happens():
                self._tracker.end(finished)
        self._tracker = None

    @contextmanager
    def _whatever_happens(self) -> Iterator[None]:
        try:
            yield
        except (Exception, SystemExit) as error:  # somebody else's code, in its own ways
            self._tracker = None
            reason = next(iter(str(error).strip().splitlines()), "no reason given")
            announce(
                f"tracker={self.name} no longer follows this run, which goes on: "
                f"{type(error).__name__}: {reason}"
            )


@dataclass
class _Following:
    """The trackers that are chosen, and whom they follow."""

    makers: Mapping[str, Callable[[], Tracker]]
    followers: list[Follower] = field(default_factory=list)


_FOLLOWING: ContextVar[_Following | None] = ContextVar("following", default=None)


@contextmanager
def tracked(trackers: Chosen | Sequence[str] | str) -> Iterator[None]:
    """Let trackers follow every run folder that is opened in the block.

    Args:
        trackers: a name such as `tensorboard` or `mine.py:Mine`, several, or names with settings.

    Raises:
        UserError: a tracker, a setting or its library is missing.
    """
    names = [trackers] if isinstance(trackers, str) else trackers
    chosen = names if isinstance(names, Mapping) else dict.fromkeys(names)
    makers = {name: _maker(name, settings) for name, settings in chosen.items()}
    for make in makers.values():  # mistakes show before anything runs
        make()
    following, finished = _Following(makers), False
    token = _FOLLOWING.set(following)
    try:
        yield
        finished = True
    except SystemExit:  # a result of the command, told by its exit code
        finished = True
        raise
    finally:
        _FOLLOWING.reset(token)
        for follower in following.followers:
            follower.end(finished)


def followers(
    path: Path,
    settings: Mapping[str, Any],
    manifest: Mapping[str, Any],
    recorded: Callable[[], Sequence[Row]],
) -> Sequence[Follower]:
    """The followers of a run folder that is being opened; they get its recorded rows."""
    following = _FOLLOWING.get()
    if following is None:
        return ()
    about = {"model": manifest.get("model"), "command": manifest.get("command")}
    run = TrackedRun(
        path, path.resolve().name, str(manifest["fingerprint"]), flat({**about, **settings})
    )
    own = [Follower(name, make, path) for name, make in following.makers.items()]
    for follower in own:
        follower.begin(run, recorded)
    following.followers += own
    return own


def _maker(name: str, settings: Mapping[str, Any] | None) -> Callable[[], Tracker]:
    def make() -> Tracker:
        tracker: Tracker = TRACKERS.make(name, settings)
        return tracker

    return make
