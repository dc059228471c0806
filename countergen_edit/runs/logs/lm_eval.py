"""Logs of lm-evaluation-harness, written with `--log_samples`.

Beside `results_DATE.json` lies `samples_TASK_DATE.jsonl` for each task, with a line for each item
and filter. Items are identified by the hashes of their document and target.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from countergen_edit.core.errors import UserError
from countergen_edit.core.reading import json_lines, json_mapping
from countergen_edit.core.typed import require
from countergen_edit.metrics.items import Item
from countergen_edit.runs.logs import Log, begins, cluster_in

FILES = ("*.json", "*/*.json")
"""In a folder, or in folders of models inside it."""
RESULTS: Mapping[str, Any] = {
    "n-samples": Mapping[str, Mapping[str, int]],
    "versions": Mapping[str, Any],
    "n-shot": Mapping[str, Any] | None,
}
SAMPLE: Mapping[str, Any] = {"doc_id": int, "doc_hash": str, "metrics": list[str]}
"""What is read of results and of a sample, with its type."""


def is_log(path: Path) -> bool:
    """Whether a file has results."""
    return begins(path, rb'\s*\{\s*"results"\s*:')


def tasks(file: Path, cluster: str | None) -> Iterator[Log]:
    """A log of each task."""
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
            own = cluster_in(sample.get("doc"), cluster, where)
            if sample.get("prompt_hash"):
                log.prompts[task, key] = str(sample["prompt_hash"])
            for metric in sample["metrics"]:
                kind, value = sample.get("filter", "none"), sample.get(metric)
                name = metric if kind == "none" else f"{metric}, {kind}"
                if value is None or isinstance(value, int | float):
                    score = float("nan") if value is None else float(value)
                    log.items.append(Item(task, name, key, score, own))
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
