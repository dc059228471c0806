"""Logs of lm-evaluation-harness, written with `--log_samples`.

Comes in: an output folder, with or without the folder of the model in it, or one of its
`results_DATE.json`; beside that lies `samples_TASK_DATE.jsonl` for each task, a line an item and
filter. Goes out: a `Log`; an item is known by the hashes of its document and target, which the
harness writes. Refused: results without samples, fewer samples than the results tell of, one task
twice, several models.

A metric whose items hold more than a number (Brier scores, word counts of a perplexity) is no mean
over items, and is named as one that was not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from countergen_edit.core.errors import UserError
from countergen_edit.core.reading import json_lines, json_mapping
from countergen_edit.core.writing import digest
from countergen_edit.metrics.items import Item
from countergen_edit.runs.logs.log import Log, Reader, cluster_in, named, part

BEGINS = re.compile(rb'\s*\{\s*"results"\s*:')
"""How a file of results begins, whatever its name."""
SAMPLES = "samples_*.jsonl"
FIXED = {
    "doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics",
    "doc_hash", "prompt_hash", "target_hash",
}  # fmt: skip
"""Keys of a sample that are no metrics."""


@dataclass(frozen=True)
class _Counts:
    effective: int
    """Items that were asked."""


@dataclass(frozen=True)
class _Results:
    """What is read of a file of results, under its own keys but for hyphens."""

    versions: dict[str, Any]
    config: dict[str, Any] = field(default_factory=dict)
    model_name: str | None = None
    lm_eval_version: str | None = None
    n_shot: dict[str, Any] = field(default_factory=dict)
    n_samples: dict[str, _Counts] = field(default_factory=dict)


@dataclass(frozen=True)
class _Sample:
    doc_id: int
    filter: str = "none"
    metrics: list[str] | None = None
    """Early versions do not name them."""
    doc_hash: str = ""
    prompt_hash: str = ""
    target_hash: str = ""


class LmEval(Reader):
    """Reads what `lm-eval --log_samples --output_path FOLDER` wrote."""

    def knows(self, path: Path) -> bool:
        """A file of results, or a folder that holds one, or samples."""
        if path.is_file():
            return _is_results(path)
        return bool(_results_in(path)) or any(next(path.glob(p), None) for p in _deep(SAMPLES))

    def read(self, path: Path, cluster: str | None) -> Log:
        """Every task of it."""
        files = [path] if path.is_file() else _results_in(path)
        if not files:
            raise UserError(f"{path} has samples but no results_DATE.json, which tells their task")
        folders = {file.parent for file in files}
        if len(folders) > 1:
            names = ", ".join(sorted(folder.name for folder in folders))
            raise UserError(f"{path} holds results of several models: name one of {names}")
        whole: dict[str, Path] = {}
        items: list[Item] = []
        versions: dict[str, dict[str, str]] = {}
        prompts: dict[tuple[str, str], str] = {}
        unread: dict[str, None] = {}
        for file in files:
            results = _results(file)
            for task in _tasks(results):
                if task in whole:
                    both = f"{whole[task].name}, {file.name}"
                    raise UserError(f"{path} holds {task} twice ({both}): name one of the files")
                whole[task] = file
                shots = results.n_shot.get(task, "unknown")
                versions[task] = {
                    "version": str(results.versions.get(task, "unknown")),
                    "shots": str(shots),
                }
                for where, record, sample in _samples(file, task, results):
                    key = sample.doc_hash or digest(record.get("doc"))
                    key = f"{key}:{sample.target_hash}"
                    own = cluster_in(record.get("doc"), cluster, where)
                    if sample.prompt_hash:
                        prompts[task, key] = sample.prompt_hash
                    for metric, value in _scores(record, sample):
                        name = named([metric, sample.filter])
                        if value is None:
                            unread[f"{task}, {name}"] = None
                        else:
                            items.append(Item(task, name, key, value, own))
        first = results.config.get("model_args")
        args = first if isinstance(first, Mapping) else {}
        model = results.model_name or args.get("pretrained") or files[0].parent.name
        tool = f"lm-eval {results.lm_eval_version or ''}".strip()
        return Log(tool, str(model), tuple(items), versions, prompts, tuple(unread))


def _deep(pattern: str) -> tuple[str, str]:
    """In a folder, and in the folder of a model that lies in it."""
    return pattern, f"*/{pattern}"


def _is_results(path: Path) -> bool:
    if path.suffix != ".json":
        return False
    with path.open("rb") as file:
        return bool(BEGINS.match(file.read(200)))


def _results_in(path: Path) -> list[Path]:
    found = (sorted(filter(_is_results, path.glob(pattern))) for pattern in _deep("*.json"))
    return next(filter(None, found), [])


def _results(path: Path) -> _Results:
    content = {key.replace("-", "_"): value for key, value in json_mapping(path).items()}
    return part(_Results, content, f"{path}: ")


def _tasks(results: _Results) -> list[str]:
    """Those that have samples: groups of tasks have a version too, and none."""
    return [*(results.n_samples or results.versions)]


def _samples(
    file: Path, task: str, results: _Results
) -> Iterator[tuple[str, Mapping[str, Any], _Sample]]:
    path = file.with_name(f"samples_{task}_{file.stem.rpartition('_')[2]}.jsonl")
    if not path.is_file():
        raise UserError(f"{file} has no {path.name} beside it: run lm-eval with --log_samples")
    asked = set()
    for where, record in json_lines(path):
        sample = part(_Sample, record, where)
        asked.add(sample.doc_id)
        yield where, record, sample
    counts = results.n_samples.get(task)
    if counts is not None and len(asked) != counts.effective:
        raise UserError(
            f"{path} holds {len(asked)} of the {counts.effective} items that {file.name} tells of: "
            "it was cut off, or is of another run"
        )


def _scores(record: Mapping[str, Any], sample: _Sample) -> Iterator[tuple[str, float | None]]:
    """By metric the score of an item; NaN where it has none, None where it is no number."""
    for metric in sample.metrics if sample.metrics is not None else record.keys() - FIXED:
        value = record.get(metric)
        if value is None:
            yield metric, float("nan")
        else:
            yield metric, float(value) if isinstance(value, int | float) else None
