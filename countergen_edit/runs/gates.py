"""Openings of an edit's gate on validation data, by kind of text.

A token that the edit skips as an attention sink counts as closed.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from countergen_edit.data.task import Task
from countergen_edit.edits import Placement
from countergen_edit.metrics.gates import Opening, texts_of
from countergen_edit.models import LanguageModel, Scratch, capture
from countergen_edit.runs.fit_data import within


def openings(
    model: LanguageModel, task: Task, place: Placement, scratch: Scratch | None = None
) -> list[Opening]:
    """What the gate of a place does on a task's validation data.

    The model is unedited at the place and above.
    """
    gate, found = place.erasure.gate, list[Opening]()
    for texts in () if gate is None else texts_of(task):
        activations = capture(
            model,
            [one.text for one in texts.each],
            sites=(place.site,),
            layers=[] if place.layer is None else [place.layer],
            starts=[0] * len(texts.each),
            positions="last" if texts.at_last else "onward",
            scratch=None if scratch is None else replace(scratch),  # its own, which it gives back
        )
        [rows] = activations.values[place.site]
        opened = np.where(within(rows, place.limit), gate(rows), 0.0).astype(np.float64)
        found.append(Opening(texts, opened, activations.row_text))
    return found
