"""A run that nothing stands in the way of: its settings and model are checked, it has not begun.

Comes in: where it goes, what it depends on, its work. Goes out: rows in a run folder. Refused: a
folder that holds something else. Several runs are all prepared before the first of them begins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from countergen_edit.runs.run_folder import RunFolder, check_folder


@dataclass(frozen=True)
class Prepared:
    """A run before it begins; it holds no model, so that many fit into memory."""

    path: Path
    """Where it lies."""
    config: Mapping[str, Any]
    manifest: Mapping[str, Any]
    load: Callable[[], Any]
    """Gives the model."""
    work: Callable[[Any, RunFolder], object]
    """Does what is left of the run, on the model."""

    def at(self, path: Path) -> Prepared:
        """The same run in another folder."""
        return replace(self, path=path)

    def check(self) -> None:
        """Find out whether the folder may be written to, without writing.

        Raises:
            UserError: it belongs to another run, or holds something else.
        """
        check_folder(self.path, self.manifest)

    def run(self, model: Any = None) -> Path:
        """Run it, or what is left of it; its folder.

        Args:
            model: where it is at hand already.
        """
        with self.open() as folder:
            self.work(self.load() if model is None else model, folder)
        return self.path

    def open(self, *, wait: bool = False) -> RunFolder:
        """Its folder, open for more; another process that has it open is waited for or refused."""
        return RunFolder(self.path, self.config, self.manifest, wait=wait)
