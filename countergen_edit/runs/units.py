"""Units of work: a unit is recorded as a whole, or run again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from countergen_edit.runs.run_folder import RunFolder
from countergen_edit.metrics.rows import Row
from countergen_edit.models.progress import Bar, bar
from countergen_edit.core.stages import stage


class Run:
    """Runs the units that the folder does not hold yet, under one progress bar.

    Args:
        folder: where rows go.
        progress: the bar, which counts the units of a stage.
        parts: rows by unit that another process has recorded; they are copied.
    """

    def __init__(
        self, folder: RunFolder, progress: Bar, parts: Mapping[str, Sequence[Row]]
    ) -> None:
        self._folder, self._bar, self._parts = folder, progress, parts

    def stage(self, name: str, units: int | None = None) -> None:
        """Begin a stage of so many units, or of a number that is not known yet."""
        self._bar.begin(name, units)
        stage(name if units is None else f"{name}: {units} {'unit' if units == 1 else 'units'}")

    def __call__(self, unit: str, description: str, work: Callable[[], list[Row]]) -> None:
        """Run a unit, unless the folder holds it.

        Args:
            unit: its name in the folder.
            description: shown while it runs.
            work: gives its rows.
        """
        if not self._folder.done(unit):
            recorded = self._parts.get(unit)
            if recorded is None:
                self._bar.show(description)
                recorded = work()
            self._folder.record(unit, recorded)
        self._bar.advance()


@contextmanager
def units(folder: RunFolder, parts: Mapping[str, Sequence[Row]] | None = None) -> Iterator[Run]:
    """Run units under one progress bar.

    Args:
        folder: where rows go.
        parts: rows by unit that another process has recorded; they are copied.
    """
    with bar() as progress:
        yield Run(folder, progress, parts or {})
