"""Logs of other tools, lm-evaluation-harness and Inspect: scores of single items of one model.

lm-eval is run with `--log_samples`: beside `results_DATE.json` lies `samples_TASK_DATE.jsonl` for
each task, with a line for each item and filter.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from countergen_edit.core.errors import UserError
from countergen_edit.core.reading import json_lines, json_mapping
from countergen_edit.core.writing import digest
from countergen_edit.metrics.items import Item


@dataclass
class Log:
    """Scores that a tool measured on one model.

    `versions` are settings of each task that make its scores comparable, `prompts` hashes by task
    and item, `unread` tasks and metrics whose items have no numeric score.
    """

    tool: str
    model: str
    items: list[Item] = field(default_factory=list)
    versions: dict[str, dict[str, str]] = field(default_factory=dict)
    prompts: dict[tuple[str, str], str] = field(default_factory=dict)
    unread: dict[str, None] = field(default_factory=dict)


def read_log(path: Path) -> Log | None:
    """The log in a file or folder; None where no log is of a known tool.

    `UserError` for a log that is damaged, unfinished, or without the scores of single items.
    """
    files = [path] if path.is_file() else sorted([*path.glob("*"), *path.glob("*/*.json")])
    try:
        logs = [log for file in files if (read := _reader(file)) for log in read(file)]
    except (AttributeError, KeyError, TypeError) as error:
        raise UserError(f"{path} is damaged, or not a log of lm-eval: {error!r}") from error
    if len(models := dict.fromkeys(log.model for log in logs)) > 1:
        raise UserError(f"{path} holds logs of several models: {', '.join(models)}")
    whole = None
    for log in logs:
        whole = whole or Log(log.tool, log.model)
        if twice := log.versions.keys() & whole.versions:
            raise UserError(f"{path} holds {min(twice)} twice: name one of its files")
        whole.items += log.items
        whole.versions |= log.versions
        whole.prompts |= log.prompts
        whole.unread |= log.unread
    return whole


def _reader(path: Path) -> Callable[[Path], Iterator[Log]] | None:
    """The reader of a file; None where it does not begin as a log."""
    if path.suffix == ".eval":
        return _inspect
    if path.suffix != ".json" or not path.is_file():
        return None
    with path.open("rb") as file:
        head = file.read(200)
    return next((read for begin, read in LOG_READERS.items() if re.match(begin, head)), None)


def _lm_eval(file: Path) -> Iterator[Log]:
    """A log of each task; items are identified by hashes of their document and target."""
    results = json_mapping(file)
    tool = f"lm-eval {results.get('lm_eval_version', '')}".strip()
    for task, counts in results["n-samples"].items():
        log = Log(tool, results.get("model_name") or file.parent.name)
        shots = str((results.get("n-shot") or {}).get(task, "unknown"))
        log.versions[task] = {"version": str(results["versions"].get(task)), "shots": shots}
        path = file.with_name(f"samples_{task}_{file.stem.rpartition('_')[2]}.jsonl")
        if not path.is_file():
            raise UserError(f"{file} has no {path.name} beside it: run lm-eval with --log_samples")
        ids = set()
        for _, sample in json_lines(path):
            ids.add(sample["doc_id"])
            key = f"{sample['doc_hash']}:{sample.get('target_hash', '')}"
            if sample.get("prompt_hash"):
                log.prompts[task, key] = str(sample["prompt_hash"])
            for metric in sample["metrics"]:
                kind = sample.get("filter", "none")
                value = sample.get(metric)
                name = metric if kind == "none" else f"{metric}, {kind}"
                value = math.nan if value is None else value
                if isinstance(value, int | float):
                    log.items.append(Item(task, name, key, float(value)))
                else:
                    log.unread[f"{task}, {name}"] = None
        if len(ids) != counts.get("effective"):
            raise UserError(
                f"{path} holds {len(ids)} of the {counts.get('effective')} items of {file.name}: "
                "it was cut off, or is of another run"
            )
        yield log


_MARKS = {"c": 1.0, "p": 0.5, "i": 0.0, "n": 0.0, "yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
"""Numbers of the marks of Inspect's scorers."""


def _inspect(file: Path) -> Iterator[Log]:
    """The log of its one task.

    Items are identified by their input with its choices, or its target without any: Inspect's ids
    are places in a data set, which shuffling changes. Epochs are repeated scores of an item.
    """
    inspected = _finished(file)
    spec, task = inspected.eval, inspected.eval.task
    tool = f"inspect_ai {spec.packages.get('inspect_ai', '')}".strip()
    log = Log(tool, str(spec.model_args.get("model_path") or spec.model))
    scorers = {f"scorer {s.name}": str(s.options or {}) for s in spec.scorers or ()}
    log.versions[task] = {"version": str(spec.task_version)} | scorers
    scores = [_scores(sample) for sample in inspected.samples]
    for name in dict.fromkeys(name for by_name in scores for name in by_name):
        values = [by_name.get(name, math.nan) for by_name in scores]
        if None in values:
            log.unread[f"{task}, {name}"] = None
            continue
        pairs = zip(inspected.samples, values, strict=True)
        log.items += [Item(task, name, _key(sample), value or 0.0) for sample, value in pairs]
    yield log


def _finished(path: Path) -> Any:
    """The log; `UserError` unless it is complete."""
    try:
        from inspect_ai.log import read_eval_log
    except ImportError:
        raise UserError(
            f"{path} is a log of Inspect: pip install 'countergen-edit[inspect]' to read it"
        ) from None
    try:
        log = read_eval_log(str(path))
    except Exception as error:  # of many types, by the damage
        reason = " ".join(str(error).split())
        raise UserError(f"{path} is damaged, or no log of Inspect: {reason:.120}") from None
    count = len(log.samples or ())
    total = log.results.total_samples if log.results else 0
    if log.status != "success" or not count or count < total:
        message = f" ({' '.join(log.error.message.split()):.120})" if log.error else ""
        raise UserError(
            f"{path} has status {log.status!r}{message} and {count} of {total} samples: finish it "
            "with inspect eval-retry, run with --log-samples"
        )
    return log


def _key(sample: Any) -> str:
    prompt = sample.input
    if not isinstance(prompt, str):  # without the ids of messages, which are new in every run
        prompt = [[message.role, message.text] for message in prompt]
    return digest([prompt, sorted(sample.choices) if sample.choices else sample.target])


def _scores(sample: Any) -> dict[str, float | None]:
    """By metric; None for what is not a number."""
    numbers: dict[str, float | None] = {}
    for scorer, score in (sample.scores or {}).items():
        values = score.value if isinstance(score.value, Mapping) else {"": score.value}
        for key, value in values.items():
            numbers[f"{scorer}, {key}" if key else scorer] = _number(value)
    return numbers


def _number(value: Any) -> float | None:
    """The number of a score.

    >>> _number("C"), _number(True), _number("0.25"), _number("well")
    (1.0, 1.0, 0.25, None)
    """
    if isinstance(value, str) and value.lower() in _MARKS:
        return _MARKS[value.lower()]
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


LOG_READERS = {
    rb'\s*\{\s*"results"\s*:': _lm_eval,
    rb'\s*\{\s*"version"\s*:\s*\d+\s*,\s*"status"\s*:': _inspect,
}
"""How the JSON files of a tool begin, and their readers."""
