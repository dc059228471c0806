"""Units of work: what is recorded as a whole, or is done again.

Comes in: a run folder, and work that gives rows. Goes out: rows in the folder, under one progress
bar that says about how long the rest takes. What is said of time enters no row.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from countergen_edit.experiments.run_folder import RunFolder
from countergen_edit.experiments.work import Pace, Work
from countergen_edit.metrics.rows import Row
from countergen_edit.models.progress import Bar, announce, bar, watched

TRUST = 0.1
"""Share of the whole that must have run before its own pace counts as much as the trial's."""
SPREAD = 1.5
"""Factor within which the first estimate is meant to hold."""


NO_PACE = Pace(0, 0, 0, 0, 0, 0, 0)


class Run:
    """Runs units, those that the folder does not hold yet.

    Args:
        folder: where rows go.
        progress: the bar.
        pace: measures how fast the model is, when the first unit is about to be run; None says
            nothing of time.
        about: what is said with the first estimate.
        parts: rows by unit that another process has recorded, taken over as they are.
    """

    def __init__(
        self,
        folder: RunFolder,
        progress: Bar,
        pace: Callable[[], Pace] | None,
        about: str,
        parts: Mapping[str, Sequence[Row]],
    ) -> None:
        self._folder, self._bar, self._parts, self._about = folder, progress, parts, about
        self._try, self._pace = pace, None if pace else NO_PACE
        self._left = Work()
        self._spent = self._expected = self._whole = 0.0

    def __call__(
        self, unit: str, description: str, work: Callable[[], list[Row]], size: Work | None = None
    ) -> None:
        """Run a unit.

        Args:
            unit: its name in the folder.
            description: what a person reads while it runs.
            work: gives its rows.
            size: how much it is of what was to be expected.
        """
        if not self._folder.done(unit):
            recorded = self._parts.get(unit)
            if recorded is None:
                pace = self._pace_now()
                self._bar.show(description, self._spent, self.seconds_left())
                begin = time.monotonic()
                recorded = work()
                self._spent += time.monotonic() - begin
                self._expected += pace.seconds(size or Work())
            self._folder.record(unit, recorded)
        self._left -= size or Work()

    def expect(self, work: Work) -> None:
        """Say how much is left, as far as it is known now."""
        self._left = work

    def seconds_left(self) -> float:
        """About how long the rest takes: the trial's pace, put right by what has been run."""
        pace = self._pace_now()
        prior = TRUST * self._whole
        factor = (self._spent + prior) / (self._expected + prior) if prior else 1.0
        return factor * pace.seconds(self._left)

    def _pace_now(self) -> Pace:
        if self._pace is None:
            assert self._try is not None
            self._pace = self._try()
            self._whole = self._pace.seconds(self._left)
            low, high = self._whole / SPREAD, self._whole * SPREAD
            announce(
                f"{self._about}{duration(self._whole)} (from {duration(low)} to {duration(high)})"
            )
        return self._pace


def duration(seconds: float) -> str:
    """A time as people say it.

    >>> duration(4.2), duration(130), duration(7500)
    ('4 s', '2 min', '2 h 5 min')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"


@contextmanager
def units(
    folder: RunFolder,
    parts: Mapping[str, Sequence[Row]] | None = None,
    *,
    pace: Callable[[], Pace] | None = None,
    about: str = "",
) -> Iterator[Run]:
    """Run units that the folder does not hold yet, under one progress bar.

    Args:
        folder: where rows go.
        parts: rows by unit that another process has recorded, taken over as they are.
        pace: measures how fast the model is, which takes a while: only where somebody watches.
        about: what is said with the first estimate.
    """
    with bar() as progress:
        yield Run(folder, progress, pace if watched() else None, about, parts or {})
