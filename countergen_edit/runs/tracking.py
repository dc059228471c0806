"""Trackers show a run elsewhere while it goes on: TensorBoard, Weights & Biases."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

from countergen_edit.core.errors import UserError
from countergen_edit.core.registry import Registry
from countergen_edit.core.writing import digest
from countergen_edit.metrics.rows import Row
from countergen_edit.models.progress import announce

LONGEST = 240
"""Characters of a figure's name."""
_NO_NAME = re.compile(r"[^\w\-. :/]", re.ASCII)
"""What some trackers take in no name."""
_CHOSEN: ContextVar[Mapping[str, Mapping[str, Any] | None]] = ContextVar("trackers")


@dataclass(frozen=True)
class TrackedRun:
    """The run that a tracker shows; a resumed one keeps its fingerprint."""

    path: Path
    name: str
    fingerprint: str
    settings: Mapping[str, str]
    """By dotted key."""


class Tracker(ABC):
    """Shows one run elsewhere; one is made for each run folder.

    Settings are the arguments of `__init__`, which is called before anything runs and refuses
    invalid ones. A later failure ends the tracker and not the run.
    """

    library: ClassVar[str] = ""
    """The package that it needs, and the extra that installs it."""

    @abstractmethod
    def begin(self, run: TrackedRun) -> None:
        """Show the run, or go on showing it where it was shown before."""

    @abstractmethod
    def log(self, figures: Mapping[str, float], step: int, rows: Sequence[Row]) -> None:
        """Show a recorded unit of work: values of its rows and ends of their intervals, by name.

        `step` is the number of units recorded before.
        """

    @abstractmethod
    def end(self, finished: bool) -> None:
        """End the run; it may continue later unless it is finished."""


TRACKERS: Registry[type[Tracker]] = Registry(
    "tracker",
    "countergen_edit.trackers",
    {
        "tensorboard": f"{__name__}:TensorBoard",
        "wandb": f"{__name__}:WandB",
    },
)
"""Every tracker by its name in config; a package enters its own as an entry point of the group."""


@dataclass
class TensorBoard(Tracker):
    """Writes event files, which `tensorboard --logdir` shows.

    They go into the run folder, or into one of the run's name in `directory`.
    """

    directory: str | None = None
    library = "tensorboard"

    def begin(self, run: TrackedRun) -> None:
        from torch.utils.tensorboard import SummaryWriter

        place = Path(self.directory) / run.name if self.directory else run.path / "tensorboard"
        self._writer: Any = SummaryWriter(str(place))
        self._writer.add_text("settings", "\n\n".join(f"{k}: {v}" for k, v in run.settings.items()))

    def log(self, figures: Mapping[str, float], step: int, rows: Sequence[Row]) -> None:
        for name, value in figures.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def end(self, finished: bool) -> None:
        self._writer.close()


@dataclass
class WandB(Tracker):
    """Sends to Weights & Biases, or with $WANDB_MODE=offline writes what `wandb sync` sends later.

    Neither what is printed, nor the machine, nor the source is sent. Runs stand under `project`.
    """

    project: str = "countergen_edit"
    library = "wandb"

    def begin(self, run: TrackedRun) -> None:
        wandb: Any = import_module("wandb")  # whose types depend on whether it is installed
        private = {"disable_git": True, "x_disable_meta": True, "x_disable_stats": True}
        self._run = wandb.init(
            project=self.project,
            name=run.name,
            id=run.fingerprint[:32],
            resume="allow",
            config=dict(run.settings),
            dir=str(run.path),
            reinit="create_new",
            settings=wandb.Settings(console="off", silent=True, save_code=False, **private),
        )

    def log(self, figures: Mapping[str, float], step: int, rows: Sequence[Row]) -> None:
        self._run.log(dict(figures), step=step)

    def end(self, finished: bool) -> None:
        self._run.finish(exit_code=0 if finished else 1)


@contextmanager
def tracked(
    trackers: Mapping[str, Mapping[str, Any] | None] | Sequence[str] | str,
) -> Iterator[None]:
    """Let trackers follow every run folder that is opened in the block.

    `trackers` are a name such as `tensorboard` or `mine.py:Mine`, several, or names with settings.
    `UserError` if a tracker, a setting or its library is missing.
    """
    names = [trackers] if isinstance(trackers, str) else trackers
    chosen = names if isinstance(names, Mapping) else dict.fromkeys(names)
    for name, settings in chosen.items():  # mistakes show before anything runs
        library = getattr(TRACKERS.make(name, settings), "library", "")
        if library and find_spec(library) is None:
            extra = f"pip install 'countergen-edit[{library}]'"
            raise UserError(f"tracker={name} needs {library}: {extra}")
    token = _CHOSEN.set(chosen)
    try:
        yield
    finally:
        _CHOSEN.reset(token)


class Followers:
    """The chosen trackers of one run; one that fails is left out, and the run goes on."""

    def __init__(
        self, path: Path, settings: Mapping[str, Any], manifest: Mapping[str, Any], step: int
    ) -> None:
        self._step = step
        self._trackers = {n: TRACKERS.make(n, own) for n, own in _CHOSEN.get({}).items()}
        flat = _flat({**{key: manifest.get(key) for key in ("model", "command")}, **settings})
        self._tell("begin", TrackedRun(path, path.resolve().name, manifest["fingerprint"], flat))

    def log(self, rows: Sequence[Row]) -> None:
        self._tell("log", figures_of(rows), self._step, rows)
        self._step += 1

    def end(self, finished: bool) -> None:
        self._tell("end", finished)

    def _tell(self, what: str, *args: object) -> None:
        for name, tracker in [*self._trackers.items()]:
            try:
                getattr(tracker, what)(*args)
            except Exception as error:  # of another package, or a user's own
                del self._trackers[name]
                reason = f"{type(error).__name__}: {error}".splitlines()[0]
                announce(f"tracker={name} no longer follows this run, which goes on: {reason}")


def figures_of(rows: Sequence[Row]) -> dict[str, float]:
    """The values of rows by name, and under `lo` and `hi` the ends of their intervals.

    >>> figures_of([Row("mean_abs_r", 0.5, dataset="jobs", split="test", lo=0.4)])
    {'mean_abs_r/jobs/test/none': 0.5, 'mean_abs_r/jobs/test/none/lo': 0.4}
    """
    return {
        _name(row) + end: float(value)
        for row in rows
        for value, end in ((row.value, ""), (row.lo, "/lo"), (row.hi, "/hi"))
        if value is not None and math.isfinite(value)
    }


def _name(row: Row) -> str:
    """The key of a row in characters that every tracker accepts."""
    groups = "-".join(filter(None, (row.group_a, row.group_b)))
    facets = (f"{key} {value}" for key, value in row.facets.items())
    parts = (row.metric, row.task, row.dataset, *facets, groups, row.split, row.edit)
    whole = "/".join(part.replace("/", "_") for part in parts if part)
    name = _NO_NAME.sub("_", whole)[:LONGEST]
    # A digest distinguishes long values.
    return name if name == whole else f"{name[: LONGEST - 9]}.{digest(whole)[:8]}"


def _flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    lines: dict[str, str] = {}
    for key, value in settings.items():
        own = _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {}
        lines |= own or {f"{prefix}{key}": str(value)}
    return lines
