"""Units of work: what is recorded as a whole, or is done again.

Comes in: a run folder, and work that gives rows. Goes out: rows in the folder, under one progress
bar.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from countergen_edit.experiments.run_folder import RunFolder
from countergen_edit.metrics.rows import Row
from countergen_edit.models.progress import steps

Run = Callable[[str, str, Callable[[], list[Row]]], None]
"""Runs a unit: its name, what a person reads while it runs, and the work."""


@contextmanager
def units(
    folder: RunFolder, total: int, parts: Mapping[str, Sequence[Row]] | None = None
) -> Iterator[Run]:
    """Run units that the folder does not hold yet, under one progress bar.

    Args:
        folder: where rows go.
        total: how many units are expected.
        parts: rows by unit that another process has recorded, taken over as they are.
    """
    with steps(total) as step:

        def run(unit: str, description: str, work: Callable[[], list[Row]]) -> None:
            with step(description):
                if not folder.done(unit):
                    recorded = (parts or {}).get(unit)
                    folder.record(unit, work() if recorded is None else recorded)

        yield run
