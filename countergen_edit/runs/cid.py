"""Runs of contrastive input decoding: template audits and perturbation effects."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from countergen_edit.core.writing import whole
from countergen_edit.edits import NamedEdit, load_edit
from countergen_edit.edits.record import RECORD
from countergen_edit.metrics.cid.metric import Cid
from countergen_edit.metrics.cid.perturbation_effect import effects, perturbation_rows
from countergen_edit.metrics.cid.perturbations import Perturbation, Similarity
from countergen_edit.metrics.context import EvaluationContext, id_of
from countergen_edit.metrics.results import STORE
from countergen_edit.metrics.rows import Row
from countergen_edit.models import LanguageModel, contrastive_generate, token_texts
from countergen_edit.runs.folder import RunFolder

EFFECTS = "effects.jsonl"


def saved_edit(directory: Path) -> NamedEdit:
    """The edit of a folder; one that a run did not name is named after its tensors."""
    if (directory / RECORD).is_file():
        return NamedEdit.load(directory)
    return NamedEdit.of(load_edit(directory), "saved")


def template_audit(
    model: LanguageModel, metric: Cid, edit: NamedEdit | None, folder: RunFolder, seed: int = 0
) -> list[Row]:
    """Audit templates on the unedited model and, if there is one, under an edit."""
    metric.check(model)
    task = metric.task.name
    context = EvaluationContext(model, folder.path / STORE / task, seed)
    if edit is not None and not folder.has_edit(edit.id):
        folder.keep(edit)
    for subject in dict.fromkeys((None, edit)):
        if not folder.done(unit := id_of(subject)):
            columns: dict[str, Any] = {"task": task, "split": "test", "seed": seed}
            columns |= {} if subject is None else subject.record.columns
            rows = metric.measure(context, subject)
            folder.record(unit, [replace(row, **columns) for row in rows])
    return folder.rows()


def compare(
    model: LanguageModel,
    prompts: tuple[str, str],
    strengths: Sequence[float],
    *,
    max_new_tokens: int,
    top_k: int,
    sentence: bool,
) -> list[tuple[list[str], tuple[float, ...], float]]:
    """The tokens, their Δ and the mean divergence of each λ and prompt, x and x' in turn."""
    own = [*prompts] * len(strengths)
    texts = contrastive_generate(
        model,
        own,
        [*prompts[::-1]] * len(strengths),
        [strength for strength in strengths for _ in prompts],
        max_new_tokens=max_new_tokens,
        top_k=top_k,
        sentence=sentence,
    )
    return [
        (token_texts(model, prompt, text.tokens), text.delta, float(np.mean(text.divergence)))
        for prompt, text in zip(own, texts, strict=True)
    ]


@dataclass(frozen=True)
class EffectPlan:
    """What perturbations to measure; below a similarity of `tau` continuations count as apart."""

    perturbations: tuple[Perturbation, ...]
    similarity: Similarity
    tau: float
    grid: tuple[float, ...]
    max_new_tokens: int
    top_k: int
    seed: int


def perturbation_effect(model: LanguageModel, plan: EffectPlan, folder: RunFolder) -> list[Row]:
    """λ* of every perturbation (kept in `effects.jsonl`), as rows by kind and by λ."""
    if not folder.done("effect"):
        values = effects(
            model,
            plan.perturbations,
            plan.similarity,
            tau=plan.tau,
            grid=plan.grid,
            max_new_tokens=plan.max_new_tokens,
            top_k=plan.top_k,
        )
        with (
            whole(folder.path / EFFECTS) as temporary,
            temporary.open("w", encoding="utf-8") as file,
        ):
            for effect in values:
                strength = effect.strength if effect.strength != float("inf") else None
                line = asdict(effect) | {"strength": strength}
                file.write(json.dumps(line, ensure_ascii=False) + "\n")
        rows = perturbation_rows(values, plan.grid, plan.tau, plan.seed)
        folder.record("effect", [replace(row, split="test") for row in rows])
    return folder.rows()
