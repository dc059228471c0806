"""The Python face: load a model, say what is asked of it, audit or search, read what came of it.

Comes in: models, tasks, erasers and metrics, as objects or by their names. Goes out: a `Run`, whose
folder holds all that was measured and continues where it was stopped. Refused: what experiments
refuse, before a folder is made. The command line calls the same functions.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from countergen_edit import models
from countergen_edit.core.conf_path import config_of
from countergen_edit.core.describing import described, named, own_code
from countergen_edit.core.errors import UserError
from countergen_edit.core.writing import digest
from countergen_edit.data.axis import SPLITS
from countergen_edit.data.axis_config import OF_AXIS, axis_config
from countergen_edit.data.prompt_check import vocabulary_warnings
from countergen_edit.data.subsets import NAME_COUNTS
from countergen_edit.data.task import Task
from countergen_edit.edits import NamedEdit
from countergen_edit.edits.checkpoints import (
    Checkpoint,
    is_checkpoint,
    load_checkpoint,
    load_unedited,
)
from countergen_edit.erasers import ERASERS, BaseEraser
from countergen_edit.metrics.base import METRICS, Metric
from countergen_edit.metrics.rows import Row
from countergen_edit.models import Bos, LanguageModel, Scratch
from countergen_edit.reports.compare import Comparison, comparison
from countergen_edit.reports.run import Run, open_run, open_run_or_log
from countergen_edit.runs.audit import Audit
from countergen_edit.runs.axes import Axes
from countergen_edit.runs.baselines import BASELINES, Baseline
from countergen_edit.runs.cells import Fitted
from countergen_edit.runs.fit_data import Positions
from countergen_edit.runs.halving import Halving
from countergen_edit.runs.manifest import make_manifest
from countergen_edit.runs.parts import parts_of, take_files
from countergen_edit.runs.prepared import Prepared
from countergen_edit.runs.search import Search
from countergen_edit.runs.task_search import Tested
from countergen_edit.testbed import directory, truth_in
from countergen_edit.testbed.corpus import out_of_vocabulary, vocabulary
from countergen_edit.testbed.files import TESTBED

ON_RECORD = "auto"
"""Of a checkpoint the original that its record names."""
METRICS_UNLESS_GIVEN = (
    "r",
    "agreement",
    "perplexity",
    "kl",
    "legitimate_differences",
    "off_target",
)
Erasers = Mapping[str, BaseEraser | str] | Sequence[BaseEraser | str] | BaseEraser | str
Metrics = Mapping[str, Metric | str] | Sequence[Metric | str] | Metric | str
Ways = Mapping[str, Baseline | str] | Sequence[Baseline | str] | Baseline | str
"""By names of the user's choice, in a row, or one; each an object or a registered name."""


def load(
    name: str | Path = TESTBED,
    device: str = "auto",
    dtype: str = "float32",
    device_map: str | None = None,
    revision: str | None = None,
    bos: Bos = "auto",
    template: str = "none",
    instruction: str | None = None,
) -> LanguageModel:
    """A causal language model; a checkpoint of this package brings its edit.

    Args:
        name: a hub id, a directory, a GGUF file, or `testbed`, the shipped model.
        device: `cpu`, `cuda`, `mps`; `auto` takes a GPU where there is one.
        dtype: `float32`, `bfloat16`, `float16` or `float64`.
        device_map: spreads a large model over devices.
        revision: branch, tag or commit of a model on the hub.
        bos: whether texts begin with the beginning-of-text token; `auto` as its tokenizer does.
        template: whether texts stand in the chat template, as the beginning of a reply: `none`,
            `auto` (where the model has one) or `chat`.
        instruction: what a user says there; None takes `models.INSTRUCTION`.

    Raises:
        UserError: there is no such model, it generates no text, or it has no chat template where
            one is asked for.
    """
    where: dict[str, Any] = {"device": device, "dtype": dtype, "device_map": device_map, "bos": bos}
    if is_checkpoint(name):
        return load_checkpoint(name, **where, template=template, instruction=instruction)
    place = directory() if str(name) == TESTBED else name
    model = replace(models.load(place, revision=revision, **where), name=str(name))
    return models.in_template(model, template, instruction)


def load_original(checkpoint: Checkpoint, name: str = ON_RECORD, **where: Any) -> LanguageModel:
    """The model that a checkpoint was made of, under its own name.

    A carried checkpoint holds its weights; that of a folded one is where it was then.

    Args:
        checkpoint: opened.
        name: where the model lies now; `auto` is what the checkpoint's record says.
        where: `device`, `dtype`, `device_map`, `bos`, `template`, `instruction` of `load`.

    Raises:
        UserError: it is not available, or is not the model that the checkpoint was made of.
    """
    record = checkpoint.record
    if name == ON_RECORD:
        name = str(record["model"])
        if checkpoint.carried:
            return replace(load_unedited(checkpoint, **where), name=name)
    try:
        original = load(name, **{"bos": record.get("bos", "auto"), **where})
    except UserError as error:
        raise UserError(f"{error}; say where the unedited model is: original=NAME") from error
    made_of = str(record["model_fingerprint"])
    if where.get("dtype") == record["dtype"] and original.fingerprint != made_of:
        raise UserError(
            f"{name} is not the model that {checkpoint.folder} was made of (fingerprint "
            f"{original.fingerprint[:8]}, not {made_of[:8]}): say where that is: original=NAME"
        )
    return original


def task(
    axis: str | Path | Mapping[str, Any] | Sequence[str | Path] = "gender",
    data: str | Path | Mapping[str, Any] = OF_AXIS,
    groups: Sequence[str] | str | None = None,
    name: str = "",
    *,
    texts: str | Path | Mapping[str, Any] = "testbed",
    names: Mapping[str, Any] | None = NAME_COUNTS,
    seed: int = 0,
) -> Task:
    """What is asked of which people in which texts.

    Args:
        axis: a name under `conf/axis`, a YAML file, or what such a file holds; several in a list
            are crossed: `["gender", "nationality"]`.
        data: a name under `conf/data`, a YAML file, what such a file holds, or a file of prompts
            (`.jsonl`, `.csv`) on which the bias is measured; the axis's own unless given.
        groups: the groups, two or more, or `all`; the axis's first two unless named, of crossed
            axes all. Of more than two every pair is compared.
        name: tells tasks of one run apart.
        texts: what agreement, harm to neutral text and other axes are measured on, and what is
            kept, where `data` does not say: `testbed`, or `natural`, which suits any other model; a
            YAML file, or what such a file holds.
        names: how many names of each group are drawn, by split; those of `few` for all but two of
            the templates of a fitting set; None takes all.
        seed: of the draw of names.

    Raises:
        UserError: a file is not there, or a set cannot be made from it.
    """
    return Task.from_config(
        axis_config(axis),
        config_of("data", data),
        groups=groups,
        name=name,
        texts=config_of("texts", texts),
        names=names,
        seed=seed,
    )


def audit(
    model: LanguageModel | str,
    task: Task | Sequence[Task],
    erasers: Erasers = (),
    metrics: Metrics | None = None,
    folder: Path | str | None = None,
    *,
    site: str = "resid_post",
    layers: Sequence[int] | None = None,
    positions: Positions = "outputs",
    successive_halving: bool = True,
    skip_attention_sinks: bool = True,
    baselines: Ways = (),
    fitted: Fitted = "sequential",
    before: NamedEdit | None = None,
    earlier: Sequence[Task] = (),
    seed: int = 0,
    config: Mapping[str, Any] | None = None,
    command: Sequence[str] | None = None,
) -> Run:
    """Measure, find, project out, measure again, and say what it cost.

    Args:
        model: unedited again when this returns.
        task: what is asked of whom; of several tasks, such as two axes, each is fitted on what the
            edits before it leave, and all are measured under the edit of all.
        erasers: what is compared: objects or names, by names of your choice where it is a mapping;
            without any, the unedited model is measured on test data.
        metrics: what is measured; R, agreement, perplexity, KL, facts and what is done to
            other axes unless given. Without erasers KL and facts, which only edits have, are not.
        folder: where results go and from where a run continues; unless given, one under `runs`
            that is named after what the run depends on.
        site: where edits go.
        layers: layers edited together; None chooses one on validation data: of those that keep
            within the budgets of the costs the one that removes most bias.
        positions: the tokens on which erasers are fitted: `outputs`, `last` or `onward`.
        successive_halving: measures all layers on few validation data first and the best on all;
            otherwise all on all.
        skip_attention_sinks: leave attention sinks out of fits and edits; false edits every
            position, as published.
        fitted: of several layers, `sequential` fits each on what the model holds under those before
            it; `independent` each on the unedited model, as published work does.
        beside: what else is measured on test data: `prompting`, `steering`, `random_map`, or
        objects.
        before: an edit that the model is to have besides, such as a checkpoint's (`load_base`):
            what is fitted is fitted on what it leaves, and measured and saved together with it.
        earlier: the tasks that `before` was made for, which are measured under the edit of all.
        seed: of everything that is drawn.
        config: the settings that the run depends on, where they came from a command line.
        command: that command line.

    Raises:
        UserError: something cannot be as it is asked for; no folder is then made.
    """
    model = load(model) if isinstance(model, str) else model
    first, *others = [with_truth(model, t) for t in ([task] if isinstance(task, Task) else task)]
    plan = Audit(
        first,
        named(erasers, ERASERS),
        named_metrics(metrics),
        site,
        None if layers is None else tuple(layers),
        positions,
        Halving() if successive_halving else None,
        skip_attention_sinks,
        seed,
        named(baselines, BASELINES),
        fitted,
    )
    if not (others or before or earlier):
        prepared = prepared_audit(model, plan, lambda: model, folder, config, command)
    else:
        known = [with_truth(model, t) for t in earlier]
        axes = Axes([plan, *(replace(plan, task=t) for t in others)], before, known)
        axes.check(model)
        words = command or ("countergen_edit", "audit")
        place = _prepared(model, axes.tasks, plan, folder, config, words, before)
        prepared = replace(place, work=axes.run)
    return open_run(prepared.run(model), model)


def prepared_audit(
    model: LanguageModel,
    plan: Audit,
    load: Callable[[], LanguageModel],
    folder: Path | str | None = None,
    config: Mapping[str, Any] | None = None,
    command: Sequence[str] | None = None,
) -> Prepared:
    """An audit that nothing stands in the way of, before it begins.

    Args:
        model: to be checked.
        plan: what is measured, fitted and edited.
        load: gives the model again, when the audit runs.
        folder, config, command: as in `audit`.

    Raises:
        UserError: something cannot be as it is asked for.
    """
    plan.check(model)
    words = command or ("countergen_edit", "audit")
    prepared = _prepared(model, [plan.task], plan, folder, config, words)
    return replace(prepared, load=load, work=plan.run)


def search(
    model: LanguageModel | str,
    task: Task | Sequence[Task],
    erasers: Erasers,
    metrics: Metrics | None = None,
    folder: Path | str | None = None,
    *,
    sites: Sequence[str] = ("resid_post",),
    layers: Sequence[int] | None = None,
    ranks: Sequence[int] = (),
    combine: int = 3,
    mix: bool = False,
    tested: Tested = "chosen",
    positions: Positions = "outputs",
    successive_halving: bool = True,
    skip_attention_sinks: bool = True,
    fitted: Fitted = "sequential",
    scratch: Scratch | None = None,
    seed: int = 0,
    pool: Path | None = None,
    finish: bool = True,
    config: Mapping[str, Any] | None = None,
    command: Sequence[str] | None = None,
) -> Run:
    """Try every layer and eraser; of the edits within the budgets take what removes most bias.

    Args:
        model, task: as in `audit`; of several tasks each is searched by itself.
        erasers, metrics, folder, positions, successive_halving, fitted, seed: as in `audit`.
        skip_attention_sinks: as in `audit`.
        config, command: as in `audit`.
        sites: where edits go.
        layers: blocks, from 0; None takes all.
        ranks: ranks for the erasers that take one; empty leaves each at its own.
        combine: most layers edited together; 1 combines none.
        mix: whether a combined edit may hold several erasers and sites.
        tested: whether test figures are taken of the `chosen` edit alone or of `every` edit.
        scratch: memory and disk for activations.
        pool: folder in which jobs of the same search leave their part, which is taken over.
        finish: False for such a job, which neither combines nor chooses.

    Raises:
        UserError: something cannot be as it is asked for; no folder is then made.
    """
    if successive_halving and not finish:
        raise UserError("successive_halving compares all candidates, of which a job has a part")
    model = load(model) if isinstance(model, str) else model
    tasks = [with_truth(model, t) for t in ([task] if isinstance(task, Task) else task)]
    plan = Search(
        tasks,
        named(erasers, ERASERS),
        named_metrics(metrics),
        tuple(sites),
        None if layers is None else tuple(layers),
        tuple(ranks),
        combine,
        mix,
        tested,
        positions,
        Halving() if successive_halving else None,
        skip_attention_sinks,
        scratch or Scratch(),
        seed,
        fitted,
    )
    plan.check(model)
    words = command or ("countergen_edit", "search")
    place = _prepared(model, tasks, plan, folder, config, words)
    if pool is not None and not finish:
        place = replace(place, path=pool / place.manifest["fingerprint"][:16])
    # Jobs that were given the same cells, as an optimiser's may be, wait for each other.
    with place.open(wait=not finish) as run:
        parts: dict[str, list[Row]] = {}
        if pool is not None and finish:
            parts = parts_of(pool, place.manifest["tasks"])
            take_files(pool, place.manifest["tasks"], place.path)
        plan.run(model, run, parts=parts, finish=finish)
    return open_run(place.path, model)


def compare(*runs: Run | Path | str, seed: int = 0, cluster: str | None = None) -> Comparison:
    """Runs side by side, and paired where they share prompts; so are logs of other tools.

    Args:
        runs: runs or their folders; folders of `lm-eval --log_samples`, logs of Inspect.
        seed: of the resamples behind paired intervals.
        cluster: of logs the column of an item's own data by which intervals are drawn, such as its
            template; unless given, items count as independent.

    Raises:
        UserError: there are fewer than two, a folder holds no run, a log is damaged or unfinished,
            or two logs have nothing in common.
    """
    opened = [run if isinstance(run, Run) else open_run_or_log(run, cluster, seed) for run in runs]
    return comparison(opened, seed)


def load_run(path: Path | str, model: LanguageModel | None = None) -> Run:
    """A run that was made before; with its unedited model, edits can be used and saved.

    Raises:
        UserError: the folder holds no run, or one of another version.
    """
    return open_run(path, model)


def with_truth(model: LanguageModel, task: Task) -> Task:
    """The task with what was planted in the model, where its own directory says so."""
    truth = truth_in(Path(model.directory)) if model.directory else None
    if truth is None or task.planted or len(task.groups) > 2:
        return task
    return task.with_truth(truth.planted_r(task.pair), truth.planted_effect(task.pair))


def in_vocabulary(model: LanguageModel, task: Task, keys: Collection[str] = SPLITS) -> Task:
    """The task without sets in words that the model was never taught, where its directory says so.

    Of sets that stay whatever their words, those outside its vocabulary are warned of.

    Args:
        model: that is asked.
        task: what is asked.
        keys: of the data, whose sets may be left out: `fit`, `validation`, `test`.
    """
    truth = truth_in(Path(model.directory)) if model.directory else None
    if truth is None:
        return task
    words = vocabulary(truth)
    kept = task.in_vocabulary(partial(out_of_vocabulary, words), keys)
    measured = [data for split in SPLITS if split not in keys for data in kept.sets(split)]
    doubts = vocabulary_warnings(measured, words, model.name)
    return replace(kept, vocabulary=words, warnings=(*task.warnings, *doubts))


def named_metrics(metrics: Metrics | None) -> list[Metric]:
    """Metrics that know their names in a run."""
    by_name = named(METRICS_UNLESS_GIVEN if metrics is None else metrics, METRICS)
    own = {name: copy.copy(metric) for name, metric in by_name.items()}
    for name, metric in own.items():
        metric.name = name
    return [*own.values()]


def _prepared(
    model: LanguageModel,
    tasks: Sequence[Task],
    plan: Audit | Search,
    folder: Path | str | None,
    config: Mapping[str, Any] | None,
    command: Sequence[str],
    before: NamedEdit | None = None,
) -> Prepared:
    """The folder of a run, named after what it depends on unless it has a name."""
    ways = plan.baselines.values() if isinstance(plan, Audit) else ()
    code = own_code([*plan.erasers.values(), *plan.metrics, *ways])
    settings = dict(config or described(plan, without=("task", "tasks", "scratch", "before")))
    settings |= {"own_code": code} if code else {}
    settings |= {"before": before.id} if before else {}
    data = {t.name: digest([t.fingerprint, described(t.neutral)]) for t in tasks}
    manifest = make_manifest(
        config=settings,
        model=model.name,
        model_hash=model.fingerprint,
        bos=model.adds_bos,
        template=model.conversation,
        data_hash=digest(data),
        seed=plan.seed,
        command=command,
        metrics=plan.metrics,
        origin=model.origin,
    )
    measuring = [described(metric, without=("budget",)) for metric in plan.metrics]
    depends = ("model_hash", "bos", "template", "source_hash", "versions", "seed")
    alike = [manifest[key] for key in depends]
    manifest["tasks"] = {
        t.name: digest(
            [
                *alike,
                plan.positions,
                plan.skip_attention_sinks,
                measuring,
                code,
                described(t.axis),
                t.groups,
                data[t.name],
            ]
        )
        for t in tasks
    }
    if before:
        manifest["before"] = [before.label]
    if warnings := [*dict.fromkeys(w for t in tasks for w in t.warnings)]:
        manifest["warnings"] = warnings
    manifest["texts"] = _texts(tasks[0])
    manifest["names"] = {t.name: t.names for t in tasks}
    manifest["compared"] = {t.name: t.axis.of_how_many(len(t.groups)) for t in tasks}
    manifest["kept"] = {t.name: [data.name for data in t.keep] for t in tasks}
    label = f"{Path(model.name).name}-{'-'.join(t.name for t in tasks)}"
    place = Path("runs") / command[1] / f"{label}-{manifest['fingerprint'][:8]}"
    return Prepared(Path(folder or place), settings, manifest, lambda: model, plan.run)


def _texts(task: Task) -> list[str]:
    """Test prompts of two groups, and neutral text, to prove a saved model equal on."""
    sets = (*task.test, *(one.data for one in task.out_of_vocabulary))
    prompts = [v.text for s in sets[0].samples[:2] for v in s.variations[::7][:2]]
    return [*prompts, *task.neutral.get("test", ())[:4]]
