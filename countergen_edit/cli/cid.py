"""`countergen-edit cid`: compare two prompts, audit templates, measure perturbations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from countergen_edit.cli.printing import console, say, show
from countergen_edit.cli.study import model_settings, new_run, texts_in, without_requesting
from countergen_edit.core.conf_path import config_of
from countergen_edit.core.errors import command, unknown
from countergen_edit.core.writing import digest
from countergen_edit.data.axis import Axis
from countergen_edit.data.axis_config import axis_config
from countergen_edit.data.task import Task
from countergen_edit.data.text.substitution import Substitution
from countergen_edit.edits import NamedEdit, applied
from countergen_edit.metrics.base import Metric
from countergen_edit.metrics.cid.metric import Cid
from countergen_edit.metrics.cid.perturbations import SentenceEmbedding, perturbations, sources_of
from countergen_edit.models import LanguageModel
from countergen_edit.reports.render.terminal import print_table
from countergen_edit.reports.views.cid import comparison
from countergen_edit.runs.cid import (
    EffectPlan,
    perturbation_effect,
    saved_edit,
    template_audit,
)
from countergen_edit.runs.cid import compare as continued
from countergen_edit.runs.folder import RunFolder
from countergen_edit.runs.run import open_run

TOP_K = 50
TAU = 0.85
"""Similarity below which two continuations differ."""


class CidSettings:
    """The settings of `countergen-edit cid`, checked."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.action = config["action"]
        if self.action not in ACTIONS:
            raise unknown("action", self.action, ACTIONS)
        content = axis_config(config["axis"])
        axis = Axis.from_config(content)
        a, b = (group.name for group in axis.pair(config["groups"]))
        words = content.get("substitution")
        substitution = Substitution.from_config(axis, words, (a, b)) if words else None
        self.task = Task(axis=axis, groups=(a, b), substitution=substitution)
        perturbation = config_of("perturbation", config["perturbation"])
        self.config = {key: value for key, value in config.items() if key != "run_dir"}
        self.config |= {"axis": content, "perturbation": perturbation}
        self.config |= {"model": without_requesting(config["model"])}
        self.run_dir = config["run_dir"]
        self.model = model_settings(config["model"])
        self.strengths = numbers(config["lambda"])
        self.max_new_tokens = config["max_new_tokens"]
        self.seed = config["seed"]
        splits: Any = texts_in(config["splits"])
        self.metric = Cid(
            templates=texts_in(config["templates"]),
            strengths=self.strengths,
            names=config["names"],
            splits=splits,
            max_new_tokens=self.max_new_tokens,
            top_k=TOP_K,
        )
        self.sources = sources_of(perturbation)

    @property
    def edit(self) -> NamedEdit | None:
        """The saved edit, if one is named."""
        directory = self.config["saved_edit"]
        return None if directory is None else saved_edit(Path(directory))


def numbers(value: Any) -> tuple[float, ...]:
    """The distinct numbers of one or a list."""
    return tuple(dict.fromkeys(map(float, value if isinstance(value, list) else [value])))


def run(config: Mapping[str, Any]) -> None:
    """Run the action."""
    settings = CidSettings(config)
    ACTIONS[settings.action](settings)


def compare(settings: CidSettings) -> None:
    """Print the continuations of two prompts."""
    first, second = settings.config["prompts"]
    edit = settings.edit
    model = settings.model.load()

    def show_table(model: LanguageModel, title: str) -> None:
        how: dict[str, Any] = {"max_new_tokens": settings.max_new_tokens, "top_k": TOP_K}
        texts = continued(model, (first, second), settings.strengths, sentence=True, **how)
        print_table(comparison((first, second), settings.strengths, texts, title), console)

    show_table(model, settings.model.name)
    if edit is not None:
        console.print()
        with applied(model, edit.edit) as edited:
            show_table(edited, f"{settings.model.name} under {settings.config['saved_edit']}")
    again = command("cid", "action=audit", f"model={settings.model.name}")
    say([f"Next, over templates and people, with intervals: {again}"])


def audit(settings: CidSettings) -> None:
    """Audit templates."""
    metric = settings.metric.bound(settings.task, "cid")
    edit = settings.edit
    model = settings.model.load()
    metric.check(model)
    with opened(settings, model, metrics=[metric]) as folder:
        template_audit(model, metric, edit, folder, settings.seed)
    rate = command("rate", folder.path)
    show(open_run(folder.path), then=[f"To have people rate the continuations: {rate}"])


def effect(settings: CidSettings) -> None:
    """Measure the effect of perturbations."""
    config, words = settings.config, settings.task.substitution
    pairs = tuple(perturbations(settings.sources, words, config["per_kind"]))
    model = settings.model.load()
    grid, longest = numbers(config["grid"]), settings.max_new_tokens
    plan = EffectPlan(pairs, SentenceEmbedding(), TAU, grid, longest, TOP_K, settings.seed)
    with opened(settings, model, data_hash=digest([asdict(pair) for pair in pairs])) as folder:
        perturbation_effect(model, plan, folder)
    show(open_run(folder.path))


ACTIONS = {f.__name__: f for f in (compare, audit, effect)}


def opened(
    settings: CidSettings,
    model: LanguageModel,
    metrics: Sequence[Metric] = (),
    data_hash: str = "",
) -> RunFolder:
    """The folder of a run."""
    name = settings.model.name
    return new_run(
        "cid",
        settings.config,
        settings.run_dir,
        [settings.action, Path(name).name, settings.task.name],
        model=name,
        model_hash=model.fingerprint,
        bos=model.adds_bos,
        template=model.conversation,
        data_hash=data_hash,
        seed=settings.seed,
        metrics=metrics,
        origin=model.origin,
    )
