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
from countergen_edit.models.contrastive import TOP_K
from countergen_edit.reports.render.terminal import print_table
from countergen_edit.reports.views.cid import cid_comparison
from countergen_edit.runs import cid as runs
from countergen_edit.runs.run import open_run


class CidRun:
    """One use of `countergen-edit cid`: its settings, checked, and its model."""

    def __init__(self, config: Mapping[str, Any], words: Sequence[str]) -> None:
        require_known("action", config["action"], CID_ACTIONS)
        content = axis_config(config["axis"])
        axis = Axis.from_config(content)
        a, b = (group.name for group in axis.pair(config["groups"]))
        swaps = content.get("substitution")
        substitution = Substitution.from_config(axis, swaps, (a, b)) if swaps else None
        self.task = Task(axis=axis, groups=(a, b), substitution=substitution)
        perturbation = config_of("perturbation", config["perturbation"])
        self.config = {**config, "axis": content, "perturbation": perturbation}
        self.command = command_line("cid", words)
        self.name = config["model"]["name"]
        self.strengths = numbers(config["lambda"])
        self.longest = config["max_new_tokens"]
        self.metric = Cid(
            templates=texts_in(config["templates"]),
            strengths=self.strengths,
            names=config["names"],
            splits=SPLITS,
            max_new_tokens=self.longest,
        )
        self.sources = sources_of(perturbation)
        load, saved = model_loader(config["model"]), config["saved_edit"]
        if config["action"] == "audit":
            self.metric.bound(self.task, "cid")  # finds mistakes before a model is loaded
        self.edit = None if saved is None else runs.saved_edit(Path(saved))
        self.model: LanguageModel = load()
        if self.model.chat.is_beside:
            raise UserError("template=both measures sets; cid takes template=none or template=chat")


def numbers(value: Any) -> tuple[float, ...]:
    """The distinct numbers of one or a list."""
    return tuple(dict.fromkeys(map(float, value if isinstance(value, list) else [value])))


def run_cid(config: Mapping[str, Any], words: Sequence[str]) -> None:
    """Run the action."""
    own = CidRun(config, words)
    CID_ACTIONS[config["action"]](own)


def _compare(own: CidRun) -> None:
    """Print the continuations of two prompts."""
    first, second = own.config["prompts"]

    def show_table(model: LanguageModel, title: str) -> None:
        how: dict[str, Any] = {"max_new_tokens": own.longest, "top_k": TOP_K, "sentence": True}
        texts = runs.compare_prompts(model, (first, second), own.strengths, **how)
        print_table(cid_comparison((first, second), own.strengths, texts, title), console)

    show_table(own.model, own.name)
    if own.edit is not None:
        console.print()
        with applied(own.model, own.edit.edit) as edited:
            show_table(edited, f"{own.name} under {own.config['saved_edit']}")
    again = command("cid", "action=audit", f"model={own.name}")
    say([f"Next, over templates and people, with intervals: {again}"])


def audit_templates(own: CidRun) -> None:
    """Audit templates: a run without erasers, of the unedited model and of a saved edit."""
    kept = {key: value for key, value in own.config.items() if key != "run_dir"}
    kept["model"] = without_requesting(kept["model"])
    made = api.audit(
        own.model,
        own.task,
        metrics={"cid": own.metric},
        folder=own.config["run_dir"],
        before=own.edit,
        seed=own.config["seed"],
        config=kept,
        command=own.command,
    )
    rate = command("rate", made.path)
    show_run(made, then=[f"To have people rate the continuations: {rate}"])


def measure_effect(own: CidRun) -> None:
    """Measure the effect of perturbations."""
    pairs = tuple(perturbations(own.sources, own.task.substitution, own.config["per_kind"]))
    how = {"tau": TAU, "grid": numbers(own.config["grid"]), "top_k": TOP_K}
    how |= {"max_new_tokens": own.longest}
    folder = new_run(
        own.command,
        own.config,
        ["effect", Path(own.name).name, own.task.name],
        model=own.name,
        model_hash=own.model.fingerprint,
        bos=own.model.adds_bos,
        template=own.model.conversation,
        origin=own.model.origin,
        data_hash=digest([asdict(pair) for pair in pairs]),
    )
    with folder:
        seed = own.config["seed"]
        runs.perturbation_effect(own.model, pairs, SentenceEmbedding(), folder, seed, **how)
    show_run(open_run(folder.path))


CID_ACTIONS = {"compare": _compare, "audit": audit_templates, "effect": measure_effect}
