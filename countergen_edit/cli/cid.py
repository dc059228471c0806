"""`countergen-edit cid` compares prompts; `classifiers` runs a task on a classifier."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

from countergen_edit import api
from countergen_edit.cli.printing import console, say, show_run
from countergen_edit.cli.study import Content, command_line, listed, model_loader, new_run, recorded
from countergen_edit.core.conf_path import config_of
from countergen_edit.core.errors import UserError, command, require_known
from countergen_edit.core.writing import digest
from countergen_edit.data.axis import SPLITS, Axis, axis_config
from countergen_edit.data.task import Task
from countergen_edit.data.template_bank import TemplateBank, load_bank
from countergen_edit.data.text.substitution import Substitution
from countergen_edit.edits import applied
from countergen_edit.metrics.cid import Cid, perturbations
from countergen_edit.metrics.classifier_tasks import TASKS, ClassifierTask
from countergen_edit.models import LanguageModel
from countergen_edit.reports.render.terminal import print_table
from countergen_edit.reports.views.cid import cid_comparison
from countergen_edit.runs import cid as runs
from countergen_edit.runs.run import open_run
from countergen_edit.testbed import TESTBED
from countergen_edit.testbed.classifiers import build, plant

CID_ACTIONS = ("compare", "audit", "effect")
UNBIASED = "testbed-unbiased"
"""The constructed model without a bias; the testbed is the one with it."""


def run_cid(config: Content, words: Sequence[str]) -> None:
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
    metric = Cid(
        templates=listed(config["templates"]),
        strengths=listed(config["lambda"]),
        names=config["names"],
        splits=SPLITS,
        max_new_tokens=config["max_new_tokens"],
    )
    sources = perturbations.sources_of(perturbation)
    load = model_loader(config["model"])
    if config["action"] == "audit":
        metric.bound(task, "cid")  # finds mistakes before a model is loaded
    saved = config["saved_edit"]
    edit = None if saved is None else runs.saved_edit(Path(saved))
    model: LanguageModel = load()
    if model.chat.is_beside:
        raise UserError("template=both measures sets; cid takes template=none or template=chat")
    name = config["model"]["name"]
    if config["action"] == "audit":  # a run without erasers
        run = api.audit(
            model,
            task,
            metrics={"cid": metric},
            folder=config["run_dir"],
            before=edit,
            seed=config["seed"],
            config=recorded(config),
            command=command_line("cid", words),
        )
        show_run(run, f"To have people rate the continuations: {command('rate', run.path)}")
    elif config["action"] == "effect":
        pairs = perturbations.perturbations(sources, substitution, config["per_kind"])
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
        how: dict[str, Any] = {"tau": perturbations.TAU, "max_new_tokens": metric.max_new_tokens}
        how["grid"] = tuple(map(float, listed(config["grid"])))
        with folder:
            encoder = perturbations.SentenceEmbedding()
            runs.perturbation_effect(model, pairs, encoder, folder, config["seed"], **how)
        show_run(open_run(folder.path))
    else:
        first, second = config["prompts"]
        prompts = first, second
        how = {"max_new_tokens": metric.max_new_tokens, "sentence": True}
        models: dict[str, Any] = {name: nullcontext(model)}
        if edit is not None:
            models[f"{name} under {saved}"] = applied(model, edit.edit)
        for number, (title, context) in enumerate(models.items()):
            with context as edited:
                texts = runs.compare_prompts(edited, prompts, metric.strengths, **how)
            if number:
                console.print()
            print_table(cid_comparison(prompts, metric.strengths, texts, title), console)
        again = command("cid", "action=audit", f"model={name}")
        say([f"Next, over templates and people, with intervals: {again}"])


def run_classifiers(config: Content, words: Sequence[str]) -> None:
    """Run or resume the task; print its table."""
    name, most = config["task"]["name"], config["task"].get("most") or {}
    settings = {k: value for k, value in config["task"].items() if k not in ("name", "most")}
    task: ClassifierTask = TASKS.make(name, settings)
    bank = load_bank(name, config["template_file"]).thinned(most)
    model = _build_model(task, config["model"], bank, config["labels"])
    folder = new_run(
        command_line("classifiers", words),
        config,
        [Path(model.name).name, Path(name).name],
        model=model.name,
        model_hash=model.fingerprint,
        data_hash=bank.fingerprint,
    )
    with folder:
        if not folder.done(unit := f"classifiers/{bank.task}"):
            folder.record(unit, task.rows(bank.for_model(model.name), model, config["seed"]))
    show_run(open_run(folder.path))


def _build_model(task: ClassifierTask, content: Content, bank: TemplateBank, labels: Any) -> Any:
    """The model for a task; `testbed` and `testbed-unbiased` name the constructed ones."""
    model_loader(content)  # checks the settings
    if "served_name" in content:
        raise UserError(f"{content['name']} is a server, and a classifier is read from files")
    is_built = (name := content["name"]) in (TESTBED, UNBIASED)
    for key in ("quantization", *(["adapter"] if is_built else [])):
        if content.get(key) is not None:
            raise UserError(f"a classifier is read as it is saved: leave model.{key} out")
    if is_built:
        return task.wrap(name, *build(plant(bank, biased=name == TESTBED)), labels)
    where = {key: content[key] for key in ("device", "dtype", "revision", "adapter")}
    return task.load(name, labels, **where)
