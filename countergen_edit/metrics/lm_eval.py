"""Tasks of EleutherAI's lm-evaluation-harness, before and after an edit.

lm-eval prompts, scores and samples the audited model itself, with the edit attached, as it would a
checkpoint: figures, truncation and stop strings are its own. Documents are resampled, in the same
draws under every edit, and each draw is aggregated by the task.

Rows: `lm_eval` of figures of which more is better, such as accuracy, `lm_eval_loss` of others, such
as perplexity; under an edit `lm_eval_change` and `lm_eval_loss_change`, edited minus unedited.
"""

from __future__ import annotations

import copy
import difflib
import io
import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from countergen_edit.core.errors import UserError
from countergen_edit.core.reading import json_lines
from countergen_edit.core.seeds import unit_seed
from countergen_edit.core.writing import write_json_lines
from countergen_edit.edits import NamedEdit
from countergen_edit.metrics.base import MeasuredSplit, Metric, Way
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.statistics import estimate, resample
from countergen_edit.models import LanguageModel
from countergen_edit.models.tokens import has_chat_template

_SCORE, _LOSS = "lm_eval", "lm_eval_loss"
CHANGES = {_SCORE: "lm_eval_change", _LOSS: "lm_eval_loss_change"}
LOGITS = 1 << 28
"""Most logits of a batch: a gigabyte in single precision."""


@dataclass(frozen=True)
class TaskFigure:
    """A figure of a task or group: its value, then those of the resamples."""

    task: str
    key: str
    """lm-eval's name of it within the task: the metric, a comma, and how answers are extracted."""
    row: str
    n: int
    """Documents with a value."""
    documents: int
    """Documents that are resampled; 0 of a group, whose tasks' are."""
    is_share: bool
    """Whether each document has 0 or 1."""
    values: list[float]


class LmEval(Metric):
    """Figures of lm-evaluation-harness's tasks, and their changes under an edit.

    Args:
        tasks: tasks, groups and tags of lm-eval by name, and YAML files of further tasks.

    Raises:
        UserError: no task is named; when bound, lm-eval is missing or a task cannot be loaded.
    """

    title = "Tasks of lm-evaluation-harness"
    measures = (_SCORE, _LOSS, *CHANGES.values())
    better: ClassVar[Mapping[str, Way]] = {
        **{_SCORE: "higher", CHANGES[_SCORE]: "higher"},
        **{_LOSS: "lower", CHANGES[_LOSS]: "lower"},
    }
    is_slow = True

    def __init__(self, tasks: Sequence[str] | str = ("arc_easy",)) -> None:
        self.tasks = [tasks] if isinstance(tasks, str) else [*tasks]
        if not self.tasks:
            raise UserError("metric.lm_eval.tasks=[]: name at least one task, such as arc_easy")

    def prepare(self) -> None:
        self.loaded = _loaded(tuple(self.tasks))

    def check(self, model: LanguageModel) -> None:
        if model.no_activations:
            raise UserError(
                f"metric=lm_eval runs the model itself, and {model.name} is out of reach, "
                f"{model.no_activations}: run lm-eval on it"
            )

    def measure(
        self, context: EvaluationContext, edit: NamedEdit | None, split: MeasuredSplit = "test"
    ) -> list[Row]:
        """A row of each figure and, under an edit, of its change."""
        if split != "test":
            return []
        now = self._figures(context, edit)
        rows = [_row(figure, context.seed) for figure in now]
        if edit is not None:
            before = {(f.task, f.key): f.values for f in self._figures(context, None)}
            for f in now:
                change = np.subtract(f.values, before[f.task, f.key]).tolist()
                own = replace(f, row=CHANGES[f.row], values=change, is_share=False)
                rows.append(_row(own, context.seed))
        return rows

    def _figures(self, context: EvaluationContext, edit: NamedEdit | None) -> list[TaskFigure]:
        """Every figure under an edit, from the store if it is there."""
        path = context.place(self.name, edit)
        if not path.is_file():
            write_json_lines(path, map(asdict, self._measured(context, edit)))
        return [TaskFigure(**line) for _, line in json_lines(path)]

    def _measured(self, context: EvaluationContext, edit: NamedEdit | None) -> list[TaskFigure]:
        """Every figure, by lm-eval."""
        import lm_eval

        for task in self.loaded["tasks"].values():
            task.set_fewshot_seed(context.seed)
        with _quiet(), torch.random.fork_rng():
            torch.manual_seed(unit_seed(context.seed, self.name))
            runner = _runner(context.model)
            with context.under(edit) as model:
                try:
                    found = lm_eval.evaluate(
                        runner,
                        self.loaded,
                        limit=self.task.limit,
                        bootstrap_iters=0,
                        apply_chat_template=bool(model.preface) and has_chat_template(model),
                        system_instruction=model.chat.request or None,
                        fewshot_as_multiturn=True,
                    )
                except (AssertionError, ValueError) as error:  # how lm-eval refuses
                    raise UserError(f"lm-eval refuses {','.join(self.tasks)}: {error}") from error
            higher, every = found["higher_is_better"], list[TaskFigure]()
            for name, task in self.loaded["tasks"].items():
                every += _of_task(task, found["samples"][name], higher[name], context.seed)
            for name, group in self.loaded["groups"].items():
                tasks = [task.task_name for task in group.get_all_tasks()]
                every += _of_group(group, [f for f in every if f.task in tasks], higher[name])
        return every


def _of_task(
    task: Any, samples: Sequence[Mapping[str, Any]], higher: Mapping[str, bool], seed: int
) -> Iterator[TaskFigure]:
    """The figures of a task; those of the resamples by its own aggregation."""
    name, documents = task.task_name, [*dict.fromkeys(sample["doc_id"] for sample in samples)]
    n = len(documents)
    draws = resample(n, seed, _SCORE, name).astype(int)
    indices = [np.repeat(np.arange(n), drawn) for drawn in draws]
    for metric, kind in dict.fromkeys((m, s["filter"]) for s in samples for m in s["metrics"]):
        aggregate: Callable[[list[Any]], float] = task.aggregation().get(metric, np.mean)
        of = {s["doc_id"]: s[metric] for s in samples if s["filter"] == kind and metric in s}
        own = [of.get(document) for document in documents]
        drawn = ([own[i] for i in index if own[i] is not None] for index in indices)
        values = [float(aggregate(items)) if items else np.nan for items in drawn]
        is_share = all(isinstance(x, int | float) and x in (0, 1) for x in of.values())
        row = _LOSS if higher.get(metric) is False else _SCORE
        yield TaskFigure(name, f"{metric},{kind}", row, len(of), n, is_share, values)


def _of_group(
    group: Any, figures: Sequence[TaskFigure], higher: Mapping[str, bool]
) -> Iterator[TaskFigure]:
    """The figures that a group defines, of the same draws of the figures of its tasks."""
    by_task: dict[str, list[TaskFigure]] = defaultdict(list)
    for figure in figures:
        by_task[figure.task].append(figure)
    draws = [
        group.aggregate(
            {
                task: {"sample_len": max(f.n for f in own)}
                | {f.key: f.values[k % len(f.values)] for f in own}
                for task, own in by_task.items()
            }
        )
        for k in range(max(len(f.values) for f in figures))
    ]
    for key in draws[0].get("sample_count", ()):
        row = _LOSS if higher.get(key.partition(",")[0]) is False else _SCORE
        values, n = [float(draw[key]) for draw in draws], draws[0]["sample_len"]
        yield TaskFigure(group.name, key, row, n, 0, False, values)


def _row(figure: TaskFigure, seed: int) -> Row:
    """A row with the interval over documents."""
    kinds = [resample(n, seed, _SCORE, figure.task) for n in (figure.documents,) if n]
    share: dict[str, Any] = {"within": (0.0, 1.0), "whole": 1.0} if figure.is_share else {}
    found = estimate(np.array(figure.values), *kinds, **share)
    facets = dict(zip(("figure", "filter"), figure.key.split(","), strict=True))
    about: dict[str, Any] = {"dataset": figure.task, "facets": facets, "split": "test"}
    return Row.of(figure.row, found, **about, n=figure.n, seed=seed)


def _manager(is_whole: bool) -> Any:
    """The index of lm-eval's own tasks; files alone do without, as reading it takes seconds."""
    try:
        return import_module("lm_eval.tasks").TaskManager(include_defaults=is_whole)
    except ModuleNotFoundError as error:
        raise UserError(
            f"metric=lm_eval needs {error.name}: pip install 'countergen-edit[harness]'"
        ) from error


@cache
def _loaded(names: tuple[str, ...]) -> Any:
    """The tasks and groups by these names; `UserError` where they cannot be loaded."""
    own = [name for name in names if not Path(name).is_file()]
    manager = _manager(bool(own))
    for name in own:
        if name not in manager.all_tasks:
            near = difflib.get_close_matches(name, manager.all_tasks, n=1, cutoff=0.0)
            raise UserError(
                f"unknown task {name!r}: did you mean {near[0]!r}? `lm-eval ls tasks` lists them, "
                "and a file of your own is FILE.yaml"
            )
    try:
        with _quiet():
            return manager.load([*names])
    except Exception as error:  # a task is a program and a download, and fails in its own way
        why = " ".join(str(error).split())
        raise UserError(f"lm-eval cannot load {','.join(names)}: {why}") from error


def _runner(model: LanguageModel) -> Any:
    """The model as lm-eval runs one; hooks that are attached later act in it."""
    from lm_eval.models.huggingface import HFLM

    runner = HFLM(
        model.bridge.original_model,
        tokenizer=copy.deepcopy(model.tokenizer),  # it is given a padding token
        max_length=model.context_length,
        batch_size="auto",
        enable_thinking=False,
    )
    # Its own search for a batch size tries until memory runs out.
    runner._detect_batch_size = partial(_rows_at_once, model)
    return runner


def _rows_at_once(model: LanguageModel, requests: Sequence[Any] | None = None, pos: int = 0) -> int:
    """Rows of a batch, by the length of its longest; without `requests` that of the context."""
    tokens = len(requests[pos][1]) + len(requests[pos][2]) if requests else model.context_length
    return max(1, LOGITS // (model.vocab_size * min(tokens, model.context_length)))


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep lm-eval's remarks from the output; its progress bars stay on standard error."""
    logger = logging.getLogger("lm_eval")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with redirect_stdout(io.StringIO()):
            yield
    finally:
        logger.setLevel(level)
