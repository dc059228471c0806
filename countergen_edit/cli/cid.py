"""`countergen-edit cid`: compare two prompts, audit templates, measure perturbations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from countergen_edit import api
from countergen_edit.cli.printing import console, say, show_run
from countergen_edit.cli.study import (
    command_line,
    model_loader,
    new_run,
    texts_in,
    without_requesting,
)
from countergen_edit.core.conf_path import config_of
from countergen_edit.core.errors import UserError, command, require_known
from countergen_edit.core.writing import digest
from countergen_edit.data.axis import SPLITS, Axis
from countergen_edit.data.axis_config import axis_config
from countergen_edit.data.task import Task
from countergen_edit.data.text.substitution import Substitution
from countergen_edit.edits import applied
from countergen_edit.metrics.cid.metric import Cid
from countergen_edit.metrics.cid.perturbation_effect import TAU
from countergen_edit.metrics.cid.perturbations import SentenceEmbedding, perturbations, sources_of
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
    strengths, longest = numbers(config["lambda"]), config["max_new_tokens"]
    metric = Cid(
        templates=texts_in(config["templates"]),
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
        kept = {key: value for key, value in config.items() if key != "run_dir"}
        kept["model"] = without_requesting(kept["model"])
        made = api.audit(
            model,
            task,
            metrics={"cid": metric},
            folder=config["run_dir"],
            before=edit,
            seed=config["seed"],
            config=kept,
            command=command_line("cid", words),
        )
        rate = f"To have people rate the continuations: {command('rate', made.path)}"
        show_run(made, then=[rate])
    elif config["action"] == "effect":
        pairs = tuple(perturbations(sources, substitution, config["per_kind"]))
        how = {"tau": TAU, "grid": numbers(config["grid"]), "max_new_tokens": longest}
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
        _compare(model, config["prompts"], strengths, longest, name)
        if edit is not None:
            console.print()
            with applied(model, edit.edit) as edited:
                title = f"{name} under {config['saved_edit']}"
                _compare(edited, config["prompts"], strengths, longest, title)
        again = command("cid", "action=audit", f"model={name}")
        say([f"Next, over templates and people, with intervals: {again}"])


def _compare(
    model: LanguageModel, prompts: Sequence[str], strengths: Sequence[float], most: int, title: str
) -> None:
    """Print the continuations of two prompts, of at most so many tokens."""
    first, second = prompts
    how: dict[str, Any] = {"max_new_tokens": most, "sentence": True}
    texts = runs.compare_prompts(model, (first, second), strengths, **how)
    print_table(cid_comparison((first, second), strengths, texts, title), console)


def numbers(value: Any) -> tuple[float, ...]:
    """The distinct numbers of one or a list."""
    return tuple(dict.fromkeys(map(float, value if isinstance(value, list) else [value])))
