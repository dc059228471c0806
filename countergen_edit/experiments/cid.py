"""Contrastive input decoding on its own: template audits, ratings and perturbation effects.

Comes in: real objects, and the run folders of earlier audits. Goes out: rows. Sheets for raters go
out too, and what comes back on them becomes rows of the runs they were written for.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from countergen_edit.edits import Edit
from countergen_edit.errors import UserError
from countergen_edit.experiments.audit import STORE
from countergen_edit.experiments.run_folder import RESULTS, RunFolder, read_rows
from countergen_edit.metrics import UNEDITED
from countergen_edit.metrics.cid.contrasts import Continuation, read_continuations
from countergen_edit.metrics.cid.metric import Cid
from countergen_edit.metrics.cid.perturbation_effect import (
    Effect,
    Perturbation,
    Similarity,
    effect_rows,
    effects,
)
from countergen_edit.metrics.cid.ratings import agreed, agreement, items_of, read_sheet, write_sheet
from countergen_edit.metrics.cid.statistics import fraction_rows
from countergen_edit.metrics.rows import Row
from countergen_edit.models import LanguageModel
from countergen_edit.writing import whole

EFFECTS, RATINGS = "effects.jsonl", "ratings.jsonl"
SHEET = ".csv"


def template_audit(
    model: LanguageModel, metric: Cid, edit: Edit | None, label: str, folder: RunFolder
) -> list[Row]:
    """Audit templates on the model as it came and, if there is one, under an edit.

    Args:
        model: the model, unedited.
        metric: what to decode.
        edit: a saved edit, or None.
        label: what the edit is called.
        folder: where rows go; units it already holds are not run again.
    """
    metric.check(model)
    for name, measured in ((UNEDITED, None), (label, edit)):
        if folder.done(name) or (measured is None and name != UNEDITED):
            continue
        rows = metric.rows(model, measured, name, folder.path / STORE / metric.name)
        rank = 0 if measured is None else measured.rank
        eraser = "" if measured is None else "saved"
        folder.record(
            name, [replace(r, edit=name, eraser=eraser, rank=rank, split="test") for r in rows]
        )
    return folder.rows()


@dataclass(frozen=True)
class EffectPlan:
    """What perturbations to measure, and when continuations count as apart."""

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
        found = effects(
            model,
            plan.perturbations,
            plan.similarity,
            tau=plan.tau,
            grid=plan.grid,
            max_new_tokens=plan.max_new_tokens,
            top_k=plan.top_k,
        )
        _write_effects(folder.path / EFFECTS, found)
        rows = effect_rows(found, plan.grid, plan.tau, plan.seed)
        folder.record("effect", [replace(row, split="test") for row in rows])
    return folder.rows()


def _write_effects(path: Path, found: Sequence[Effect]) -> None:
    lines = []
    for effect in found:
        finite = effect.strength if effect.strength != float("inf") else None
        lines.append(json.dumps(asdict(effect) | {"strength": finite}, ensure_ascii=False) + "\n")
    with whole(path) as temporary:
        temporary.write_text("".join(lines), "utf-8")


def decoded(run: Path) -> dict[str, list[Continuation]]:
    """All continuations of an audit's run folder, by the label of the edit.

    Raises:
        UserError: the folder holds none.
    """
    files = sorted((run / STORE / Cid.name).glob("*.jsonl"))
    if not files:
        raise UserError(
            f"{run} holds no CID continuations: name the run folder of an audit with metric=cid, "
            "or of countergen-edit cid action=audit"
        )
    return {file.stem: read_continuations(file) for file in files}


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


def read_ratings(runs: Sequence[Path], sheets: Path, seed: int) -> list[list[Row]]:
    """For each run, its rows together with what raters said of it (kept in `ratings.jsonl`).

    Raises:
        UserError: there are no sheets, or one does not hold exactly what the runs hold.
    """
    items = items_of(_all(runs))
    paths = sorted(sheets.glob(f"*{SHEET}"))
    if not paths:
        raise UserError(f"{sheets} holds no rating sheets (*{SHEET}): action=sheet writes them")
    ratings = [read_sheet(path, items) for path in paths]
    biased = {(item.template, item.text): yes for item, yes in agreed(ratings).items()}
    by_people = {
        "rated_by": f"{len(paths)} rater(s), majority",
        "sheets": [path.name for path in paths],
    }
    shared = []
    if len(paths) > 1:
        kappa = agreement(ratings, seed)
        reason = (
            {}
            if kappa.columns["value"] is not None
            else {"reason": "every rater gave the same answer throughout"}
        )
        shared = [
            Row(
                metric="cid_rater_agreement",
                **kappa.columns,
                dataset="cid",
                split="test",
                n=len(items),
                seed=seed,
                detail={"statistic": "Fleiss' kappa", **by_people, **reason},
            )
        ]
    found = []
    for run in runs:
        rows = read_rows(run / RESULTS)
        mine = {row.edit: row for row in rows if row.metric == "cid_divergence"}
        rated = [
            replace(
                row,
                edit=label,
                eraser=mine[label].eraser,
                rank=mine[label].rank,
                layer=mine[label].layer,
                split="test",
            )
            for label, texts in decoded(run).items()
            if label in mine
            for row in fraction_rows(
                texts,
                biased,
                "cid_biased_fraction",
                seed,
                axis=mine[label].axis,
                rated_by=by_people,
            )
        ]
        lines = (json.dumps(r.to_dict(), ensure_ascii=False) + "\n" for r in [*rated, *shared])
        with whole(run / RATINGS) as temporary:
            temporary.write_text("".join(lines), "utf-8")
        found.append([*rows, *rated, *shared])
    return found


def _all(runs: Sequence[Path]) -> list[Continuation]:
    if not runs:
        raise UserError("no runs are named: write runs=[DIR], the run folders of audits with CID")
    return [c for run in runs for texts in decoded(run).values() for c in texts]
