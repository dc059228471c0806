"""Logs of other tools, lm-evaluation-harness and Inspect: scores of single items of one model.

lm-eval is run with `--log_samples`: beside `results_DATE.json` lies `samples_TASK_DATE.jsonl` for
each task, with a line for each item and filter. Logs of Inspect are read by `inspect_ai`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from countergen_edit.core.errors import UserError, unknown
from countergen_edit.core.reading import json_lines, json_mapping
from countergen_edit.core.typed import require
from countergen_edit.core.writing import digest
from countergen_edit.metrics.items import Item

LM_EVAL = rb'\s*\{\s*"results"\s*:'
INSPECT = rb'\s*\{\s*"version"\s*:\s*\d+\s*,\s*"status"\s*:'
"""How the JSON files of a tool begin."""


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


def read_log(path: Path, cluster: str | None = None) -> Log | None:
    """The log in a file or folder; None where there is no log of a known tool.

    `cluster` is the column of an item's own data that names its cluster. Raises `UserError` for a
    log that is damaged, unfinished, or without the scores of single items.
    """
    every = [path] if path.is_file() else sorted([*path.glob("*"), *path.glob("*/*.json")])
    for header, read in ((LM_EVAL, _lm_eval), (INSPECT, _inspect)):
        files = [file for file in every if file.is_file() and _begins(file, header)]
        logs = [log for file in files for log in read(file, cluster)]
        if not logs:
            continue
        if len(models := dict.fromkeys(log.model for log in logs)) > 1:
            raise UserError(f"{path} holds logs of several models: {', '.join(models)}")
        whole = Log(logs[0].tool, logs[0].model)
        for log in logs:
            if twice := log.versions.keys() & whole.versions:
                raise UserError(f"{path} holds {min(twice)} twice: name one of its files")
            whole.items += log.items
            whole.versions |= log.versions
            whole.prompts |= log.prompts
            whole.unread |= log.unread
        return whole
    return None


def _begins(path: Path, header: bytes) -> bool:
    """Whether a file is a log whose JSON begins so."""
    if path.suffix != ".json":
        return path.suffix == ".eval" and header is INSPECT
    with path.open("rb") as file:
        return re.match(header, file.read(200)) is not None


def _cluster_in(columns: object, cluster: str | None, where: str) -> str | None:
    """The cluster of an item, from its own data; raises `UserError` where the column is missing."""
    if cluster is None:
        return None
    own = columns if isinstance(columns, Mapping) else {}
    if cluster not in own:
        raise UserError(f"{where}{unknown('cluster', cluster, own)}")
    return str(own[cluster])


RESULTS: Mapping[str, Any] = {
    "n-samples": Mapping[str, Mapping[str, int]],
    "versions": Mapping[str, Any],
    "n-shot": Mapping[str, Any] | None,
}
SAMPLE: Mapping[str, Any] = {"doc_id": int, "doc_hash": str, "metrics": list[str]}
"""What is read of results and of a sample, with its type."""


def _lm_eval(file: Path, cluster: str | None) -> Iterator[Log]:
    """A log of each task; items are identified by the hashes of their document and target."""
    results = _read(json_mapping(file), RESULTS, f"{file}: ")
    tool = f"lm-eval {results.get('lm_eval_version', '')}".strip()
    for task, counts in results["n-samples"].items():
        log = Log(tool, results.get("model_name") or file.parent.name)
        shots = str((results["n-shot"] or {}).get(task, "unknown"))
        log.versions[task] = {"version": str(results["versions"].get(task)), "shots": shots}
        path = file.with_name(f"samples_{task}_{file.stem.rpartition('_')[2]}.jsonl")
        if not path.is_file():
            raise UserError(f"{file} has no {path.name} beside it: run lm-eval with --log_samples")
        ids = set()
        for where, record in json_lines(path):
            sample = _read(record, SAMPLE, where)
            ids.add(sample["doc_id"])
            key = f"{sample['doc_hash']}:{sample.get('target_hash', '')}"
            own = _cluster_in(sample.get("doc"), cluster, where)
            if sample.get("prompt_hash"):
                log.prompts[task, key] = str(sample["prompt_hash"])
            for metric in sample["metrics"]:
                kind, value = sample.get("filter", "none"), sample.get(metric)
                name = metric if kind == "none" else f"{metric}, {kind}"
                value = math.nan if value is None else value
                if isinstance(value, int | float):
                    log.items.append(Item(task, name, key, float(value), own))
                else:
                    log.unread[f"{task}, {name}"] = None
        if len(ids) != counts.get("effective"):
            raise UserError(
                f"{path} holds {len(ids)} of the {counts.get('effective')} items of {file.name}: "
                "it was cut off, or is of another run"
            )
        yield log


def _read(content: Mapping[str, Any], types: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The content with every entry of the types; raises `UserError` for an ill-typed one."""
    for key, hint in types.items():
        require(hint, content.get(key), f"{where}{key}")
    return {**dict.fromkeys(types), **content}


WORDS = {"c": 1.0, "p": 0.5, "i": 0.0, "n": 0.0, "yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
"""Numbers of the marks of Inspect's scorers."""


def _inspect(file: Path, cluster: str | None) -> Iterator[Log]:
    """The log of its one task.

    Items are identified by their input with its choices, or its target without any: Inspect's ids
    are places in a data set, which shuffling changes. Epochs are repeated scores of an item.
    """
    of = _finished(file)
    about, task, samples = of.eval, of.eval.task, of.samples
    tool = f"inspect_ai {about.packages.get('inspect_ai', '')}".strip()
    log = Log(tool, str(about.model_args.get("model_path") or about.model))
    scorers = {f"scorer {s.name}": str(s.options or {}) for s in about.scorers or ()}
    log.versions[task] = {"version": str(about.task_version)} | scorers
    scores = [_scores(sample) for sample in samples]
    for name in dict.fromkeys(name for own in scores for name in own):
        values = [own.get(name, math.nan) for own in scores]
        numbers = [value for value in values if value is not None]
        if len(numbers) < len(values):
            log.unread[f"{task}, {name}"] = None
            continue
        for n, (sample, number) in enumerate(zip(samples, numbers, strict=True), start=1):
            group = _cluster_in(sample.metadata, cluster, f"{file}, sample {n}: ")
            log.items.append(Item(task, name, _key(sample), number, group))
    yield log


def _finished(path: Path) -> Any:
    """The log; raises `UserError` unless it is complete."""
    try:
        from inspect_ai.log import read_eval_log
    except ImportError:
        message = f"{path} is a log of Inspect: pip install 'countergen-edit[inspect]' to read it"
        raise UserError(message) from None
    try:
        log = read_eval_log(str(path))
    except Exception as error:  # of many types, by the damage
        reason = " ".join(str(error).split())
        raise UserError(f"{path} is damaged, or no log of Inspect: {reason:.120}") from None
    if log.status != "success":
        message = f" ({' '.join(log.error.message.split()):.120})" if log.error else ""
        raise UserError(
            f"{path} has status {log.status!r}{message}, not 'success': finish it with inspect "
            "eval-retry"
        )
    if not log.samples:
        raise UserError(f"{path} has no samples: run inspect with --log-samples")
    if log.results and len(log.samples) != (total := log.results.total_samples):
        raise UserError(f"{path} holds {len(log.samples)} of its {total} samples: it was cut off")
    return log


def _key(sample: Any) -> str:
    prompt = sample.input
    if not isinstance(prompt, str):  # without the ids of messages, which are new in every run
        prompt = [[message.role, message.text] for message in prompt]
    return digest([prompt, sorted(sample.choices) if sample.choices else sample.target])


def _scores(sample: Any) -> dict[str, float | None]:
    """By metric; None for what is no number."""
    found: dict[str, float | None] = {}
    for scorer, score in (sample.scores or {}).items():
        values = score.value if isinstance(score.value, Mapping) else {"": score.value}
        found |= {f"{scorer}, {key}" if key else scorer: _number(v) for key, v in values.items()}
    return found


def _number(value: Any) -> float | None:
    """The number of a score.

    >>> _number("C"), _number(True), _number("0.25"), _number("well")
    (1.0, 1.0, 0.25, None)
    """
    if isinstance(value, str) and value.lower() in WORDS:
        return WORDS[value.lower()]
    try:
        return float(value)
    except (TypeError, ValueError):
        return None
