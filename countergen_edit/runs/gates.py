"""How far the gate of an edit is open on held-out text: about nobody, to agree, and to be erased.

Comes in: a model, a task and one place of an edit. Goes out: `metrics.gates.Opening`, one for each
kind of text that the task has; none where the place has no gate. Texts are those of validation
data, which no gate was fitted on. A token that the edit leaves alone as a sink counts as closed.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from countergen_edit.data.task import Task
from countergen_edit.edits import Placement
from countergen_edit.metrics.gates import Opening, Texts, texts_of
from countergen_edit.models import LanguageModel, Scratch, capture
from countergen_edit.runs.fit_data import within


def openings(
    model: LanguageModel, task: Task, place: Placement, scratch: Scratch | None = None
) -> list[Opening]:
    """What the gate of a place does on validation data.

    Args:
        model: what the edit is attached to, unedited at the place and above.
        task: whose validation data are read.
        place: where the gate stands.
        scratch: memory and disk for activations, of which this takes and gives back its own.
    """
    if place.erasure.gate is None:
        return []
    own = None if scratch is None else replace(scratch)
    return [_opening(model, texts, place, own) for texts in texts_of(task)]


def _opening(
    model: LanguageModel, texts: Texts, place: Placement, scratch: Scratch | None
) -> Opening:
    gate = place.erasure.gate
    assert gate is not None
    activations = capture(
        model,
        [one.text for one in texts.each],
        sites=(place.site,),
        layers=[] if place.layer is None else [place.layer],
        starts=[0] * len(texts.each),
        positions="last" if texts.at_last else "onward",
        scratch=scratch,
    )
    [rows] = activations.values[place.site]
    opened = np.where(within(rows, place.limit), gate(rows), 0.0).astype(np.float64)
    return Opening(texts, opened, activations.row_text)
