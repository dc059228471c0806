"""How much there is to run: characters through so many blocks, fits and certificates.

Comes in: a study and what of it is to be measured. Goes out: `Work`, which adds up, and which a
`Pace` turns into seconds. Counts are of characters, since tokens would cost a pass of their own;
what matters is only that the trial of `forecast` counts as the run does.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING

import numpy as np

from countergen_edit.data.axis import Split
from countergen_edit.data.counterfactual import CounterfactualSet
from countergen_edit.data.task import Task
from countergen_edit.experiments.refinement import step_characters
from countergen_edit.metrics.base import MeasuredSplit

if TYPE_CHECKING:
    from countergen_edit.experiments.cells import Cell
    from countergen_edit.experiments.study import Study


@dataclass(frozen=True)
class Work:
    """What is to be run, in characters; of sets and of running text, which is read everywhere."""

    read: float = 0.0
    """Of sets: what does not depend on the edit's layer."""
    run: float = 0.0
    """Of sets: characters times the share of the blocks that they go through."""
    read_texts: float = 0.0
    run_texts: float = 0.0
    captured: float = 0.0
    """Characters whose activations are captured."""
    fits: float = 0.0
    certificates: float = 0.0

    def __add__(self, other: Work) -> Work:
        return Work(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def __sub__(self, other: Work) -> Work:
        """What is left when the other is done; nothing is less than none."""
        return Work(*(max(a - b, 0) for a, b in zip(astuple(self), astuple(other), strict=True)))

    def __rmul__(self, times: float) -> Work:
        return Work(*(times * part for part in astuple(self)))


@dataclass(frozen=True)
class Pace:
    """Seconds for one of each."""

    read: float
    run: float
    read_texts: float
    run_texts: float
    captured: float
    fits: float
    certificates: float

    def seconds(self, work: Work) -> float:
        """How long it takes.

        >>> Pace(1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0).seconds(Work(read=1.0, run=0.5))
        2.0
        """
        return float(np.dot(astuple(self), astuple(work)))


def characters(sets: Iterable[CounterfactualSet]) -> float:
    """Characters of all prompts, each once, and of all outputs after each of them."""
    total = 0
    for data in sets:
        for sample in data.samples:
            outputs = sum(map(len, sample.outputs))
            total += sum(len(v.text) + outputs for v in sample.variations)
    return float(total)


def measured(task: Task, split: Split) -> tuple[float, float]:
    """Characters that are scored to measure a split, of sets and of running text.

    Test figures are also of the sets that were fitted on, and of those of other axes.
    """
    sets = [*task.sets(split), *((*task.fit, *task.other_axes) if split == "test" else ())]
    agreement = task.agreement.get(split)
    texts = task.neutral.get(split, ())
    every = [*sets, *([agreement] if agreement else []), *task.facts.get(split, ())]
    return characters(every), float(sum(map(len, texts)))


def captured(task: Task) -> float:
    """Characters that are captured to fit erasers on."""
    return characters([*task.fit, *task.keep]) + sum(map(len, task.weighed))


def recapturing(study: Study, cell: Cell) -> Work:
    """Capturing anew what a cell is fitted on, where it is fitted under others."""
    return Work(captured=captured(study.task)) if cell.after else Work()


def refining(study: Study, cell: Cell) -> Work:
    """Refining a cell's map: every step runs its texts forward, and about twice as much back."""
    characters = 3.0 * cell.eraser.n_steps * step_characters(study.task)
    blocks = study.model.n_layers
    lowest = cell.lowest
    depth = 1.0 if lowest is None else (blocks - 1 - lowest) / blocks
    return Work(characters, characters * depth)


def measuring(
    study: Study, split: MeasuredSplit, layer: int | None, names: int | None = None
) -> Work:
    """Measuring an edit at a layer, from which the model goes on; None runs all of it.

    Args:
        study: whose data.
        split: what is measured.
        layer: of the edit.
        names: how many validation names a group; None takes all.
    """
    share = 1.0 if names is None else min(names / max(study.task.most_names, 1), 1.0)
    sets, texts = (share * count for count in study.characters(split))
    blocks = study.model.n_layers
    depth = 1.0 if layer is None else (blocks - 1 - layer) / blocks
    return Work(sets, sets * depth, texts, texts * depth)
