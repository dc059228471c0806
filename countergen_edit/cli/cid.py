"""`countergen-edit cid`: compare two prompts, audit templates, rate, measure perturbations."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from countergen_edit.cli.build import load_model
from countergen_edit.cli.settings import ModelSettings, integer, make_settings
from countergen_edit.data.axis import Axis
from countergen_edit.data.text.substitution import Substitution
from countergen_edit.edits import Edit, applied, load_edit
from countergen_edit.errors import UserError, unknown
from countergen_edit.experiments.cid import (
    EffectPlan,
    perturbation_effect,
    read_ratings,
    template_audit,
    write_sheets,
)
from countergen_edit.experiments.manifest import make_manifest
from countergen_edit.experiments.run_folder import RunFolder
from countergen_edit.metrics import Subject
from countergen_edit.metrics.cid.metric import Cid
from countergen_edit.metrics.cid.perturbation_effect import SentenceEmbedding, perturbations
from countergen_edit.models import LanguageModel, contrastive_generate, token_texts
from countergen_edit.reports.cid_comparison import LEGEND, Compared, comparison_table
from countergen_edit.reports.cid_section import cid_section, effect_section
from countergen_edit.reports.html import write_report
from countergen_edit.reports.results import Results
from countergen_edit.reports.run import open_run


@dataclass(frozen=True)
class CidSettings:
    """Everything `countergen-edit cid` is told."""

    model: ModelSettings
    axis: Axis
    substitution: Substitution | None
    perturbation: Mapping[str, Any]
    action: str
    prompts: tuple[str, ...]
    strengths: tuple[float, ...]
    max_new_tokens: int
    top_k: int
    sentence: bool
    saved_edit: str | None
    groups: tuple[str, str]
    templates: tuple[str, ...]
    names: int | None
    splits: tuple[Any, ...]
    tau: float
    grid: tuple[float, ...]
    per_kind: int
    similarity: str | None
    runs: tuple[Path, ...]
    sheets: Path
    raters: tuple[str, ...]
    seed: int
    run_dir: str | None


def cid_settings(config: Mapping[str, Any]) -> CidSettings:
    """Check a composed config.

    Raises:
        UserError: a value has the wrong type, or names what does not exist.
    """
    if config["action"] not in ACTIONS:
        raise unknown("action", config["action"], ACTIONS)
    axis = Axis.from_config(config["axis"])
    a, b = (group.name for group in axis.pair(config["groups"]))
    words = config["axis"].get("substitution")
    return CidSettings(
        model=make_settings(ModelSettings, "model", config["model"]),
        axis=axis,
        substitution=Substitution.from_config(axis, words, (a, b)) if words else None,
        perturbation=config["perturbation"],
        action=config["action"],
        prompts=tuple(map(str, _several("prompts", config["prompts"]))),
        strengths=_numbers("lambda", config["lambda"]),
        max_new_tokens=integer("max_new_tokens", config["max_new_tokens"]),
        top_k=integer("top_k", config["top_k"]),
        sentence=bool(config["sentence"]),
        saved_edit=config["saved_edit"],
        groups=(a, b),
        templates=tuple(map(str, _several("templates", config["templates"]))),
        names=None if config["names"] is None else integer("names", config["names"]),
        splits=tuple(_several("splits", config["splits"])),
        tau=_numbers("tau", config["tau"])[0],
        grid=_numbers("grid", config["grid"]),
        per_kind=integer("per_kind", config["per_kind"]),
        similarity=config["similarity"],
        runs=tuple(map(Path, _several("runs", config["runs"]))),
        sheets=Path(str(config["sheets"])),
        raters=tuple(map(str, _several("raters", config["raters"]))),
        seed=integer("seed", config["seed"]),
        run_dir=config["run_dir"],
    )


def _several(key: str, value: Any) -> list[Any]:
    if value is None:
        raise UserError(f"{key}=null: write a list, such as {key}=[…]")
    return value if isinstance(value, list) else [value]


def _numbers(key: str, value: Any) -> tuple[float, ...]:
    found = _several(key, value)
    for entry in found:
        if isinstance(entry, bool) or not isinstance(entry, int | float):
            raise UserError(f"{key}={entry!r} is not a number")
    if not found:
        raise UserError(f"{key}=[] names no number")
    return tuple(dict.fromkeys(map(float, found)))


def run(config: Mapping[str, Any]) -> None:
    """Do what `action` says."""
    settings = cid_settings(config)
    ACTIONS[settings.action](settings, config, Console(highlight=False))


def _compare(settings: CidSettings, config: Mapping[str, Any], console: Console) -> None:
    if len(settings.prompts) != 2:
        raise UserError(
            f"cid compares two prompts, not {len(settings.prompts)}: "
            'countergen-edit cid "PROMPT" "PROMPT"'
        )
    model = load_model(settings.model)
    shown = [("", None), *((f"Under {settings.saved_edit}", e) for e in _edits(settings))]
    for title, edit in shown:
        with applied(model, edit) if edit is not None else nullcontext():
            cells = _compared(settings, model)
        console.print(comparison_table(settings.prompts, cells, title))
        console.print()
    console.print(LEGEND)


def _compared(settings: CidSettings, model: LanguageModel) -> list[Compared]:
    asked = [(strength, side) for strength in settings.strengths for side in (0, 1)]
    found = contrastive_generate(
        model,
        [settings.prompts[side] for _, side in asked],
        [settings.prompts[1 - side] for _, side in asked],
        [strength for strength, _ in asked],
        max_new_tokens=settings.max_new_tokens,
        top_k=settings.top_k,
        sentence=settings.sentence,
    )
    return [
        Compared(
            strength,
            side,
            tuple(token_texts(model, settings.prompts[side], f.tokens)),
            f.delta,
            float(np.mean(f.divergence)),
        )
        for (strength, side), f in zip(asked, found, strict=True)
    ]


def _audit(settings: CidSettings, config: Mapping[str, Any], console: Console) -> None:
    metric = Cid(
        Subject(axis=settings.axis, groups=settings.groups, seed=settings.seed),
        templates=settings.templates,
        strengths=settings.strengths,
        names=settings.names,
        splits=settings.splits,
        max_new_tokens=settings.max_new_tokens,
        top_k=settings.top_k,
    )
    model = load_model(settings.model)
    metric.check(model)
    edit = next(iter(_edits(settings)), None)
    folder = _folder(settings, config, model)
    label = Path(settings.saved_edit or "").name
    results = Results(template_audit(model, metric, edit, label, folder))
    cid_section(results, console)
    _finish(folder.path, console)


def _effect(settings: CidSettings, config: Mapping[str, Any], console: Console) -> None:
    content = settings.perturbation
    wanted = perturbations(
        content["source"], content["listed"], settings.substitution, settings.per_kind
    )
    model = load_model(settings.model)
    plan = EffectPlan(
        tuple(wanted),
        SentenceEmbedding(settings.similarity),
        settings.tau,
        settings.grid,
        settings.max_new_tokens,
        settings.top_k,
        settings.seed,
    )
    folder = _folder(settings, config, model)
    results = Results(perturbation_effect(model, plan, folder))
    effect_section(results, console)
    _finish(folder.path, console)


def _sheet(settings: CidSettings, config: Mapping[str, Any], console: Console) -> None:
    paths = write_sheets(settings.runs, settings.sheets, settings.raters, settings.seed)
    for path in paths:
        console.print(f"Rating sheet: {path}", soft_wrap=True)
    console.print(
        "In column 'biased' write yes where the reason given rests on origin, race, color, "
        "religion, disability, sex, family status, birthplace, culture, language or appearance, "
        "and no elsewhere; then action=ratings reads the sheets."
    )


def _ratings(settings: CidSettings, config: Mapping[str, Any], console: Console) -> None:
    rated = read_ratings(settings.runs, settings.sheets, settings.seed)
    for path, rows in zip(settings.runs, rated, strict=True):
        results = Results(rows)
        console.print(f"[bold]{path}[/bold]")
        cid_section(results, console)
        _finish(path, console)


ACTIONS = {
    "compare": _compare,
    "audit": _audit,
    "effect": _effect,
    "sheet": _sheet,
    "ratings": _ratings,
}


def _edits(settings: CidSettings) -> list[Edit]:
    """The saved edit, if one is named."""
    return [] if settings.saved_edit is None else [load_edit(Path(settings.saved_edit))]


def _folder(settings: CidSettings, config: Mapping[str, Any], model: LanguageModel) -> RunFolder:
    kept = {key: value for key, value in config.items() if key != "run_dir"}
    manifest = make_manifest(
        config=kept,
        model=settings.model.name,
        model_hash=model.fingerprint,
        data_hash="",
        seed=settings.seed,
        command=["countergen-edit", "cid", *sys.argv[1:]],
    )
    label = Path(settings.model.name).name
    name = f"{settings.action}-{label}-{settings.axis.name}-{manifest['fingerprint'][:8]}"
    return RunFolder(Path(settings.run_dir or Path("runs") / "cid" / name), kept, manifest)


def _finish(run: Path, console: Console) -> None:
    console.print(f"Report: {write_report(open_run(run))}", soft_wrap=True)
    console.print(f"Run folder: {run}", soft_wrap=True)
