"""Logs of Inspect, read by `inspect_ai`.

Items are identified by their input with its choices, or its target without any: Inspect's ids are
places in a data set, which shuffling changes. Epochs are repeated scores of an item.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from countergen_edit.core.errors import UserError
from countergen_edit.core.writing import digest
from countergen_edit.metrics.items import Item
from countergen_edit.runs.logs import Log, begins, cluster_in

FILES = ("*.eval", "*.json")
WORDS = {"c": 1.0, "p": 0.5, "i": 0.0, "n": 0.0, "yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
"""Numbers of the marks of Inspect's scorers."""


def is_log(path: Path) -> bool:
    """Whether a file is a log."""
    return path.suffix == ".eval" or begins(
        path, rb'\s*\{\s*"version"\s*:\s*\d+\s*,\s*"status"\s*:'
    )


def tasks(file: Path, cluster: str | None) -> Iterator[Log]:
    """The log of its one task."""
    of = _finished(file)
    task, samples = of.eval.task, of.samples
    log = Log(
        f"inspect_ai {of.eval.packages.get('inspect_ai', '')}".strip(),
        str(of.eval.model_args.get("model_path") or of.eval.model),
    )
    scorers = {f"scorer {s.name}": str(s.options or {}) for s in of.eval.scorers or ()}
    log.versions[task] = {"version": str(of.eval.task_version)} | scorers
    scores = [_scores(sample) for sample in samples]
    for name in dict.fromkeys(name for own in scores for name in own):
        values = [own.get(name, float("nan")) for own in scores]
        if None in values:
            log.unread[f"{task}, {name}"] = None
            continue
        for n, (sample, value) in enumerate(zip(samples, values, strict=True), start=1):
            group = cluster_in(sample.metadata, cluster, f"{file}, sample {n}: ")
            log.items.append(Item(task, name, _key(sample), float(value), group))  # type: ignore[arg-type]
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
