"""Contrastive input decoding of two prompts, and runs of perturbation effects."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from countergen_edit.core.writing import whole
from countergen_edit.edits import NamedEdit, load_edit
from countergen_edit.edits.record import RECORD
from countergen_edit.metrics.cid.perturbations import (
    Perturbation,
    Similarity,
    effects,
    perturbation_rows,
)
from countergen_edit.metrics.rows import Row
from countergen_edit.models import LanguageModel, contrastive_generate, token_texts
from countergen_edit.runs.folder import RunFolder

EFFECTS = "effects.jsonl"


def saved_edit(directory: Path) -> NamedEdit:
    """The edit of a folder; one that a run did not name is named after its tensors."""
    if (directory / RECORD).is_file():
        return NamedEdit.load(directory)
    return NamedEdit.of(load_edit(directory), "saved")


def compare_prompts(
    model: LanguageModel, prompts: tuple[str, str], strengths: Sequence[float], **how: Any
) -> list[tuple[list[str], tuple[float, ...], float]]:
    """The tokens, their Δ and the mean divergence of each λ and prompt, x and x' in turn.

    `how` holds keyword arguments of `contrastive_generate`.
    """
    own, others = [*prompts] * len(strengths), [*prompts[::-1]] * len(strengths)
    each = [strength for strength in strengths for _ in prompts]
    texts = contrastive_generate(model, own, others, each, **how)
    return [
        (token_texts(model, prompt, text.tokens), text.delta, float(np.mean(text.divergence)))
        for prompt, text in zip(own, texts, strict=True)
    ]


def perturbation_effect(
    model: LanguageModel,
    pairs: Sequence[Perturbation],
    similarity: Similarity,
    folder: RunFolder,
    seed: int = 0,
    **how: Any,
) -> list[Row]:
    """λ* of every perturbation (kept in `effects.jsonl`), as rows by kind and by λ.

    `how` holds the keyword arguments of `effects`, τ and the grid among them.
    """
    if not folder.done("effect"):
        values = effects(model, pairs, similarity, **how)
        with whole(folder.path / EFFECTS) as file:
            known = ({} if isfinite(e.strength) else {"strength": None} for e in values)
            lines = (asdict(e) | own for e, own in zip(values, known, strict=True))
            text = "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines)
            file.write_text(text, "utf-8")
        rows = perturbation_rows(values, how["grid"], how["tau"], seed)
        folder.record("effect", [replace(row, split="test") for row in rows])
    return folder.rows()
