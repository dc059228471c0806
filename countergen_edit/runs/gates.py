"""Openings of an edit's gate on validation data, by kind of text.

A token that the edit skips as an attention sink counts as closed.
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
