"""Logs of lm-evaluation-harness, written with `--log_samples`.

Beside `results_DATE.json` lies `samples_TASK_DATE.jsonl` for each task, with a line for each item
and filter. Items are identified by the hashes of their document and target.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from countergen_edit.core.errors import UserError
from countergen_edit.core.reading import json_lines, json_mapping
from countergen_edit.core.typed import built
from countergen_edit.metrics.items import Item
from countergen_edit.runs.logs import Log, cluster_in

BEGINS = re.compile(rb'\s*\{\s*"results"\s*:')
SAMPLES = "samples_*.jsonl"
T = TypeVar("T")


@dataclass(frozen=True)
class _Counts:
    effective: int


@dataclass(frozen=True)
class _Results:
    versions: dict[str, Any]
    n_samples: dict[str, _Counts]
    n_shot: dict[str, Any] = field(default_factory=dict)
    model_name: str = ""
    lm_eval_version: str = ""


@dataclass(frozen=True)
class _Sample:
    doc_id: int
    doc_hash: str
    metrics: list[str]
    filter: str = "none"
    prompt_hash: str = ""
    target_hash: str = ""


def is_log(path: Path) -> bool:
    """Whether a file has results."""
    if path.suffix != ".json":
        return False
    with path.open("rb") as file:
        return bool(BEGINS.match(file.read(200)))


def logs_in(path: Path) -> list[Path]:
    """The files of results in a folder, or in folders of models inside it."""
    files = sorted(filter(is_log, [*path.glob("*.json"), *path.glob("*/*.json")]))
    if not files and any([*path.glob(SAMPLES), *path.glob(f"*/{SAMPLES}")]):
        raise UserError(f"{path} has samples but no results_DATE.json, which names their task")
    return files


def tasks(file: Path, cluster: str | None) -> Iterator[Log]:
    """A log of each task."""
    content = {key.replace("-", "_"): value for key, value in json_mapping(file).items()}
    results = _part(_Results, content, f"{file}: ")
    tool = f"lm-eval {results.lm_eval_version}".strip()
    for task, counts in results.n_samples.items():
        log = Log(tool, results.model_name or file.parent.name)
        shots = str(results.n_shot.get(task, "unknown"))
        version = str(results.versions.get(task, "unknown"))
        log.versions[task] = {"version": version, "shots": shots}
        path = file.with_name(f"samples_{task}_{file.stem.rpartition('_')[2]}.jsonl")
        if not path.is_file():
            raise UserError(f"{file} has no {path.name} beside it: run lm-eval with --log_samples")
        ids = set()
        for where, record in json_lines(path):
            sample = _part(_Sample, record, where)
            ids.add(sample.doc_id)
            key = f"{sample.doc_hash}:{sample.target_hash}"
            own = cluster_in(record.get("doc"), cluster, where)
            if sample.prompt_hash:
                log.prompts[task, key] = sample.prompt_hash
            for metric in sample.metrics:
                name = metric if sample.filter == "none" else f"{metric}, {sample.filter}"
                value = record.get(metric)
                if value is None or isinstance(value, int | float):
                    score = float("nan") if value is None else float(value)
                    log.items.append(Item(task, name, key, score, own))
                else:
                    log.unread[f"{task}, {name}"] = None
        if len(ids) != counts.effective:
            raise UserError(
                f"{path} holds {len(ids)} of the {counts.effective} items of {file.name}: it was "
                "cut off, or is of another run"
            )
        yield log


def _part(cls: type[T], content: Mapping[str, Any], where: str) -> T:
    """The fields of a dataclass from a record; raises `UserError` for missing or ill-typed ones."""
    names = [one.name for one in fields(cls)]  # type: ignore[arg-type]
    made: T = built(cls, {name: content[name] for name in names if name in content}, where)
    return made
