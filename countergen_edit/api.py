"""The Python interface: load a model, make a task, audit or search, read the run.

The command line calls the same functions.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from countergen_edit import models
from countergen_edit.core.errors import UserError
from countergen_edit.data.axis import SPLITS
from countergen_edit.data.prompt_check import vocabulary_warnings
from countergen_edit.data.task import Task
from countergen_edit.edits import NamedEdit
from countergen_edit.edits.checkpoints import (
    Checkpoint,
    is_checkpoint,
    load_checkpoint,
    load_unedited,
    record_of,
    source_of,
)
from countergen_edit.erasers import ERASERS, BaseEraser
from countergen_edit.metrics import COSTS
from countergen_edit.metrics.base import METRICS, Metric
from countergen_edit.models import Bos, LanguageModel
from countergen_edit.reports import gate as gates
from countergen_edit.reports.compare import Comparison, comparison
from countergen_edit.reports.render import export
from countergen_edit.reports.sections import sections
from countergen_edit.runs.baselines import BASELINES, Baseline
from countergen_edit.runs.design import designed
from countergen_edit.runs.folder import RunFolder
from countergen_edit.runs.halving import Halving
from countergen_edit.runs.manifest import manifest_of
from countergen_edit.runs.plan import Plan, where
from countergen_edit.runs.run import Run, open_run, open_run_or_log
from countergen_edit.runs.runner import run
from countergen_edit.testbed import TESTBED, directory, truth_in, vocabulary

if TYPE_CHECKING:
    from pandas import DataFrame

ON_RECORD = "auto"
"""The original model that a checkpoint's record names."""
METRICS_UNLESS_GIVEN = ("r", *COSTS, "off_target")
Erasers = Mapping[str, BaseEraser | str] | Sequence[BaseEraser | str] | BaseEraser | str
Metrics = Mapping[str, Metric | str] | Sequence[Metric | str] | Metric | str
Baselines = Mapping[str, Baseline | str] | Sequence[Baseline | str] | Baseline | str
"""One or several objects or registered names, or a mapping from names of the user's choice."""


def load(
    name: str | Path = TESTBED,
    device: str = "auto",
    dtype: str = "float32",
    device_map: str | None = None,
    max_memory: models.MaxMemory | None = None,
    quantization: str | None = None,
    revision: str | None = None,
    adapter: str | Path | None = None,
    bos: Bos = "auto",
    template: str = "none",
    instruction: str | None = None,
) -> LanguageModel:
    """Load a causal language model; a checkpoint of this package brings its edit.

    Parameters
    ----------
    name : a hub id, a directory, a GGUF file, or `testbed`, the shipped model.
    device : `cpu`, `cuda`, `mps`; `auto` takes a GPU where there is one.
    dtype : `float32`, `bfloat16`, `float16` or `float64`.
    device_map : spreads a large model over devices.
    max_memory : most memory for the weights on each, such as `{0: "20GiB", "cpu": "60GiB"}`.
    quantization : `4bit` or `8bit`, by bitsandbytes; edits are saved with full weights.
    revision : branch, tag or commit of a model on the hub.
    adapter : a directory of a PEFT adapter, which is merged into the weights.
    bos : whether texts begin with the beginning-of-text token; `auto` follows the tokenizer.
    template : the chat template: `none`, `auto` (where the model has one) or `chat`; texts are
        then the beginning of a reply; `both` measures test data as plain texts and as replies.
    instruction : the user's message in the chat template; None takes one of ours.

    Raises
    ------
    UserError
        The model does not exist, generates no text, or lacks a chat template.
    """
    where: dict[str, Any] = {"device": device, "dtype": dtype, "device_map": device_map}
    where |= {"max_memory": max_memory, "quantization": quantization, "adapter": adapter}
    where["bos"] = bos
    if is_checkpoint(name):
        where |= {"template": template, "instruction": instruction}
        return load_checkpoint(name, base=place_of_source(name), **where)
    model = models.load_model(_place_of(name), revision=revision, **where)
    model = replace(model, name=str(name))
    return models.in_template(model, template, instruction)


def _place_of(name: str | Path) -> str | Path:
    """Where a model is: the directory of the testbed, or its name."""
    return directory() if str(name) == TESTBED else name


def place_of_source(checkpoint: str | Path) -> str | Path:
    """Where the model that a checkpoint was made of is, by the name on record."""
    return _place_of(str(record_of(Path(checkpoint).expanduser()).get("model")))


def load_original(checkpoint: Checkpoint, name: str = ON_RECORD, **where: Any) -> LanguageModel:
    """Load the model that a checkpoint was made of; `where` holds settings of `load`."""
    record = checkpoint.record
    if name == ON_RECORD:
        name = str(record["model"])
        if not checkpoint.is_folded:
            return replace(load_unedited(checkpoint, base=_place_of(name), **where), name=name)
    try:
        original = load(name, **{"bos": record.get("bos", "auto"), **where})
    except UserError as error:
        raise UserError(f"{error}; say where the unedited model is: original=NAME") from error
    made_of = str(record["model_hash"])
    if where.get("dtype") == record["dtype"] and original.fingerprint != made_of:
        raise UserError(
            f"{name} is not the model that {checkpoint.folder} was made of (fingerprint "
            f"{original.fingerprint[:8]}, not {made_of[:8]}): say where that is: original=NAME"
        )
    return original


task = Task.from_config
"""Make a task: groups, names and prompts."""
design = designed
"""Draw the test sets of natural prompts anew, in the sizes that a pilot on the model finds."""
load_run = open_run
"""Open a run; with its unedited model, edits can be used and saved."""


def audit(
    model: LanguageModel | str,
    task: Task | Sequence[Task],
    erasers: Erasers = (),
    metrics: Metrics | None = None,
    folder: Path | str | None = None,
    *,
    site: str = "resid_post",
    layers: Sequence[int] | str | None = None,
    successive_halving: bool = True,
    baselines: Baselines = (),
    before: NamedEdit | None = None,
    config: Mapping[str, Any] | None = None,
    command: Sequence[str] | None = None,
    **settings: Any,
) -> Run:
    """Measure a bias, project it out, measure again, and measure the cost.

    Parameters
    ----------
    model : unedited again when this returns.
    task : of several, such as two axes, each is audited by itself.
    erasers : objects or names, or a mapping from names of your choice; without any, the unedited
        model is measured on test data.
    metrics : R, agreement, perplexity, KL, legitimate differences and off-target effects unless
        given.
    folder : where results go and a killed run continues; unless given, a folder under `runs`
        that is named after the run's settings.
    site : where edits act.
    layers : layers that are edited together; None selects one on validation data: of those
        within the budgets the one that removes most bias. "everywhere" applies what is fitted
        at the selected one at every point of the residual stream and at every token, but does
        not read the directions of attention sinks; such an edit is saved as stock weights.
    successive_halving : measures all layers on few validation data first and the best on all;
        otherwise all on all.
    baselines : `prompting`, `steering`, `augmentation`, `random_map`, or objects, measured
        on test data.
    before : without erasers, an edit to measure beside the unedited model.
    config : the settings that the run depends on, where they came from a command line.
    command : that command line.
    settings : `positions`, `skip_attention_sinks`, `fitted` and `seed` of `Plan`.

    Raises
    ------
    UserError
        A setting is invalid; no folder is then made.
    """
    model = load(model) if isinstance(model, str) else model
    sites, chosen = where([site], layers)
    plan = Plan(
        tasks=_tasks(model, task),
        erasers=ERASERS.named(erasers),
        metrics=_named_metrics(metrics),
        sites=sites,
        layers=chosen,
        together=chosen is not None,
        halving=Halving() if successive_halving else None,
        baselines=BASELINES.named(baselines),
        before=before,
        **settings,
    )
    return _executed(plan, model, folder, config, command or ("countergen_edit", "audit"))


def search(
    model: LanguageModel | str,
    task: Task | Sequence[Task],
    erasers: Erasers,
    metrics: Metrics | None = None,
    folder: Path | str | None = None,
    *,
    sites: Sequence[str] = ("resid_post",),
    layers: Sequence[int] | str | None = None,
    ranks: Sequence[int] = (),
    combine: int = 3,
    successive_halving: bool = True,
    config: Mapping[str, Any] | None = None,
    command: Sequence[str] | None = None,
    **settings: Any,
) -> Run:
    """Measure every layer and eraser; select the edit within the budgets that removes most bias.

    Parameters
    ----------
    model, task : as in `audit`; several tasks are searched one by one.
    erasers, metrics, folder, successive_halving, config, command : as in `audit`.
    sites : where edits act.
    layers : blocks, from 0; None takes all, "everywhere" as in `audit`.
    ranks : for the erasers that take one; empty leaves each at its own.
    combine : most candidates in one edit; 1 combines none.
    settings : `tested`, `positions`, `skip_attention_sinks`, `fitted`, `scratch` and `seed` of
        `Plan`.

    Raises
    ------
    UserError
        A setting is invalid; no folder is then made.
    """
    model = load(model) if isinstance(model, str) else model
    own_sites, chosen = where(sites, layers)
    plan = Plan(
        tasks=_tasks(model, task),
        erasers=ERASERS.named(erasers),
        metrics=_named_metrics(metrics),
        sites=own_sites,
        layers=chosen,
        ranks=tuple(ranks),
        select="task",
        combine=combine,
        halving=Halving() if successive_halving else None,
        **settings,
    )
    return _executed(plan, model, folder, config, command or ("countergen_edit", "search"))


def locate(
    model: LanguageModel | str,
    task: Task,
    folder: Path | str | None = None,
    *,
    seed: int = 0,
    **settings: Any,
) -> DataFrame:
    """Where a group difference lives: a line for each place, and heat maps as PNG files.

    Parameters
    ----------
    model, task, folder : as in `audit`.
    seed : of templates and resamples.
    settings : of `metric=locate`.

    Raises
    ------
    UserError
        A setting is invalid; no folder is then made.
    """
    metrics = {"locate": METRICS.make("locate", **settings)}
    run = audit(model, task, (), metrics, folder, seed=seed, command=("countergen_edit", "locate"))
    export([part for part in sections(run) if part.figures()], run.path, ["png"])
    return run.to_frame()


def _executed(
    plan: Plan,
    model: LanguageModel,
    folder: Path | str | None,
    config: Mapping[str, Any] | None,
    command: Sequence[str],
) -> Run:
    """Run or resume a plan, which is checked before a folder is made."""
    plan.check(model)
    settings, manifest = manifest_of(plan, model, config, command)
    label = "-".join([Path(model.name).name, *manifest["tasks"], manifest["fingerprint"][:8]])
    path = Path(folder or Path("runs") / command[1] / label)
    with RunFolder(path, settings, manifest) as opened:
        run(plan, model, opened)
    return open_run(path, model)


def compare(*runs: Run | Path | str, seed: int = 0) -> Comparison:
    """Compare runs, paired where they share prompts; logs of other tools likewise.

    Parameters
    ----------
    runs : runs or their folders; folders of `lm-eval --log_samples`, logs of Inspect.
    seed : of the resamples behind paired intervals.

    Raises
    ------
    UserError
        A run or log is missing or damaged, or two logs have nothing in common.
    """
    opened = [r if isinstance(r, Run) else open_run_or_log(r, seed) for r in runs]
    return comparison(opened, seed)


def gate(
    run: Run | Path | str,
    /,
    *,
    baseline: Run | Path | str | None = None,
    margin: Mapping[str, float] | None = None,
    strict: bool = True,
    **limits: float,
) -> gates.GateResult:
    """Hold every test set of a run to limits, such as `group_effect=0.3`.

    Parameters
    ----------
    run : a finished run or its folder; of a search its selected edit is held.
    baseline : a run that the figures of `margin` are compared with.
    margin : by how much figures may be worse than in the baseline.
    strict : a limit holds or fails if the whole interval is on one side; False: the estimate.
    limits : the highest value of a figure of which less is better, the lowest of another.

    Raises
    ------
    UserError
        A run is missing or damaged, a figure unknown, or no limit given.
    """
    held, other = (
        r if r is None or isinstance(r, Run) else open_run(Path(r).expanduser())
        for r in (run, baseline)
    )
    assert held is not None
    return gates.gate_run(held, limits, {} if margin is None else margin, other, strict=strict)


def assert_gate(run: Run | Path | str, /, **how: Any) -> None:
    """Raise an AssertionError with the lines of `gate`, of the same arguments, unless it holds."""
    result = gate(run, **how)
    if result.verdict != "holds":
        raise AssertionError("\n".join(result.lines))


def with_truth(model: LanguageModel, task: Task) -> Task:
    """The task with the planted truth of the model, if its directory has one."""
    truth = truth_in(Path(model.directory)) if model.directory else None
    if truth is None or task.planted or len(task.groups) > 2:
        return task
    planted, effect = truth.planted(task.pair)
    return replace(task, planted=planted, planted_effect=effect)


def in_vocabulary(model: LanguageModel, task: Task, keys: Collection[str] = SPLITS) -> Task:
    """The task without sets of splits `keys` outside the model's vocabulary, if it has one.

    Other sets outside the vocabulary become warnings.
    """
    name = source_of(model.name)
    truth = truth_in(directory() if name == TESTBED else Path(name).expanduser())
    if truth is None:
        return task
    words = vocabulary(truth)
    kept = task.in_vocabulary(words, keys)
    measured = [data for split in SPLITS if split not in keys for data in kept.sets(split)]
    doubts = vocabulary_warnings(measured, words, model.name)
    return replace(kept, warnings=(*task.warnings, *doubts))


def _named_metrics(metrics: Metrics | None) -> list[Metric]:
    by_name = METRICS.named(METRICS_UNLESS_GIVEN if metrics is None else metrics)
    copies = {name: copy.copy(metric) for name, metric in by_name.items()}
    for name, metric in copies.items():
        metric.name = name
    return [*copies.values()]


def _tasks(model: LanguageModel, tasks: Task | Sequence[Task]) -> list[Task]:
    return [with_truth(model, t) for t in ([tasks] if isinstance(tasks, Task) else tasks)]
