"""`countergen-edit cid`: compare two prompts, audit templates, measure perturbations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

from countergen_edit import api
from countergen_edit.cli.printing import console, say, show_run
from countergen_edit.cli.study import command_line, listed, model_loader, new_run, recorded
from countergen_edit.core.conf_path import config_of
from countergen_edit.core.errors import UserError, command, require_known
from countergen_edit.core.writing import digest
from countergen_edit.data.axis import SPLITS, Axis, axis_config
from countergen_edit.data.task import Task
from countergen_edit.data.text.substitution import Substitution
from countergen_edit.edits import applied
from countergen_edit.metrics.cid import Cid
from countergen_edit.metrics.cid.perturbations import (
    TAU,
    SentenceEmbedding,
    perturbations,
    sources_of,
)
from countergen_edit.models import LanguageModel
from countergen_edit.reports.render.terminal import print_table
from countergen_edit.reports.views.cid import cid_comparison
from countergen_edit.runs import cid as runs
from countergen_edit.runs.run import open_run

CID_ACTIONS = ("compare", "audit", "effect")


def run_cid(config: Mapping[str, Any], words: Sequence[str]) -> None:
    """Run the action, once its settings are checked and its model is loaded."""
    require_known("action", config["action"], CID_ACTIONS)
    content = axis_config(config["axis"])
    perturbation = config_of("perturbation", config["perturbation"])
    config = {**config, "axis": content, "perturbation": perturbation}
    axis = Axis.from_config(content)
    groups = tuple(group.name for group in axis.pair(config["groups"]))
    swaps = content.get("substitution")
    substitution = Substitution.from_config(axis, swaps, groups) if swaps else None
    task = Task(axis=axis, groups=groups, substitution=substitution)
    strengths, grid = (tuple(map(float, listed(config[key]))) for key in ("lambda", "grid"))
    longest = config["max_new_tokens"]
    metric = Cid(
        templates=listed(config["templates"]),
        strengths=strengths,
        names=config["names"],
        splits=SPLITS,
        max_new_tokens=longest,
    )
    sources = sources_of(perturbation)
    load, saved, name = model_loader(config["model"]), config["saved_edit"], config["model"]["name"]
    if config["action"] == "audit":
        metric.bound(task, "cid")  # finds mistakes before a model is loaded
    edit = None if saved is None else runs.saved_edit(Path(saved))
    model: LanguageModel = load()
    if model.chat.is_beside:
        raise UserError("template=both measures sets; cid takes template=none or template=chat")
    if config["action"] == "audit":  # a run without erasers
        made = api.audit(
            model,
            task,
            metrics={"cid": metric},
            folder=config["run_dir"],
            before=edit,
            seed=config["seed"],
            config=recorded(config),
            command=command_line("cid", words),
        )
        rate = f"To have people rate the continuations: {command('rate', made.path)}"
        show_run(made, then=[rate])
    elif config["action"] == "effect":
        pairs = tuple(perturbations(sources, substitution, config["per_kind"]))
        how = {"tau": TAU, "grid": grid, "max_new_tokens": longest}
        folder = new_run(
            command_line("cid", words),
            config,
            [config["action"], Path(name).name, task.name],
            model=name,
            model_hash=model.fingerprint,
            bos=model.adds_bos,
            template=model.conversation,
            origin=model.origin,
            data_hash=digest([asdict(pair) for pair in pairs]),
        )
        with folder as opened:
            encoder = SentenceEmbedding()
            runs.perturbation_effect(model, pairs, encoder, opened, config["seed"], **how)
        show_run(open_run(opened.path))
    else:
        first, second = config["prompts"]
        how = {"max_new_tokens": longest, "sentence": True}
        shown: dict[str, Any] = {name: nullcontext(model)}
        if edit is not None:
            shown[f"{name} under {saved}"] = applied(model, edit.edit)
        for number, (title, context) in enumerate(shown.items()):
            with context as edited:
                texts = runs.compare_prompts(edited, (first, second), strengths, **how)
            if number:
                console.print()
            print_table(cid_comparison((first, second), strengths, texts, title), console)
        again = command("cid", "action=audit", f"model={name}")
        say([f"Next, over templates and people, with intervals: {again}"])
