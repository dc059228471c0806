"""Runs of contrastive input decoding: template audits, ratings and perturbation effects."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from countergen_edit.core.errors import UserError
from countergen_edit.core.writing import whole
from countergen_edit.edits import NamedEdit, load_edit
from countergen_edit.edits.record import RECORD
from countergen_edit.metrics.cid.metric import DATASET, Cid, Continuation, read_continuations
from countergen_edit.metrics.cid.perturbation_effect import effect_rows, effects
from countergen_edit.metrics.cid.perturbations import Perturbation, Similarity
from countergen_edit.metrics.cid.ratings import (
    Store,
    items_of,
    rated_rows,
    read_sheet,
    write_ratings,
    write_sheet,
)
from countergen_edit.metrics.context import EvaluationContext, id_of
from countergen_edit.metrics.results import STORE, Results
from countergen_edit.metrics.rows import Row
from countergen_edit.models import LanguageModel, contrastive_generate, token_texts
from countergen_edit.runs.files import RESULTS
from countergen_edit.runs.folder import RunFolder, read_rows

EFFECTS = "effects.jsonl"
SHEET = ".csv"


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
            columns = {} if subject is None else subject.record.columns
            rows = metric.measure(context, subject)
            folder.record(unit, [replace(r, **columns, task=task, split="test") for r in rows])
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
        rows = effect_rows(values, plan.grid, plan.tau, plan.seed)
        folder.record("effect", [replace(row, split="test") for row in rows])
    return folder.rows()


def decoded(run: Path) -> Store:
    """All continuations of a run folder, by task and edit; `UserError` without any."""
    texts = {
        (path.parent.parent.name, edit): read_continuations(path)
        for edit, path in Results([], folder=run).stored(DATASET)
    }
    if not texts:
        raise UserError(
            f"{run} holds no CID continuations: name the run folder of an audit with metric=cid, "
            "or of countergen-edit cid action=audit"
        )
    return texts


def write_sheets(
    runs: Sequence[Path], sheets: Path, raters: Sequence[str], seed: int
) -> list[Path]:
    """Write a sheet for each rater; continuations of all runs and edits are shuffled together.

    Raises:
        UserError: no runs or raters are named, or a sheet exists.
    """
    if not raters:
        raise UserError("raters=[] names nobody: write raters=[anna,ben]")
    items = items_of(_all(runs))
    paths = [sheets / f"{rater}{SHEET}" for rater in raters]
    for path in paths:  # before the first is written
        if path.exists():
            raise UserError(
                f"rating sheet {path} exists and may hold ratings: choose another sheets=DIR"
            )
    for path in paths:
        write_sheet(path, items, seed)
    return paths


def read_ratings(runs: Sequence[Path], sheets: Path, seed: int) -> None:
    """Keep in each run what raters said of it (`ratings.jsonl`).

    Raises:
        UserError: there are no sheets, or one does not hold exactly what the runs hold.
    """
    items = items_of(_all(runs))
    paths = sorted(sheets.glob(f"*{SHEET}"))
    if not paths:
        raise UserError(f"{sheets} holds no rating sheets (*{SHEET}): action=sheet writes them")
    ratings = {path.name: read_sheet(path, items) for path in paths}
    for run in runs:
        write_ratings(run, rated_rows(read_rows(run / RESULTS), decoded(run), ratings, seed))


def _all(runs: Sequence[Path]) -> list[Continuation]:
    if not runs:
        raise UserError("no runs are named: write runs=[DIR], the run folders of audits with CID")
    return [c for run in runs for texts in decoded(run).values() for c in texts]
