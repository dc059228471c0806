"""Small logs in the formats of other tools, written from what is known of the formats."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from countergen_edit.core.writing import write_json_lines

DATE = "2026-01-31T12-00-00.123456"
NAMES = ("Jane", "John", "Emily", "Peter")
JOBS = ("nurse", "engineer", "teacher")
DOCS = [{"question": f"{n} is a {j} and", "job": j} for j in JOBS for n in NAMES]
"""Twelve items in three clusters."""


def hashed(text: object) -> str:
    return hashlib.sha256(str(text).encode()).hexdigest()


def sample(number: int, doc: Mapping[str, Any], **scores: Any) -> dict[str, Any]:
    """One line of `samples_TASK_DATE.jsonl`."""
    return {
        "doc_id": number,
        "doc": doc,
        "target": "0",
        "filter": "none",
        "metrics": [*scores],
        "doc_hash": hashed(json.dumps(doc)),
        "prompt_hash": hashed(doc["question"]),
        "target_hash": hashed("0"),
        **scores,
    }


def lm_eval(
    folder: Path,
    tasks: Mapping[str, Sequence[Mapping[str, Any]]],
    *,
    model: str = "/models/before",
    version: object = 1.0,
    shots: int = 0,
    date: str = DATE,
) -> Path:
    """What `lm-eval --log_samples --output_path FOLDER` writes; the folder."""
    place = folder / model.replace("/", "__")
    place.mkdir(parents=True, exist_ok=True)
    counts = {name: len({line["doc_id"] for line in lines}) for name, lines in tasks.items()}
    results = {
        "results": {name: {"alias": name, "acc,none": 0.5} for name in tasks},
        "versions": dict.fromkeys(tasks, version),
        "n-shot": dict.fromkeys(tasks, shots),
        "n-samples": {name: {"original": n, "effective": n} for name, n in counts.items()},
        "lm_eval_version": "0.4.13",
        "model_name": model,
    }
    (place / f"results_{date}.json").write_text(json.dumps(results, indent=2))
    for name, lines in tasks.items():
        write_json_lines(place / f"samples_{name}_{date}.jsonl", lines)
    return folder


def scored(accs: Sequence[float], docs: Sequence[Mapping[str, Any]] = DOCS) -> list[dict[str, Any]]:
    return [sample(n, d, acc=a) for n, (d, a) in enumerate(zip(docs, accs, strict=True))]


def inspect_log(
    path: Path,
    samples: Sequence[Mapping[str, Any]],
    *,
    task: str = "jobs",
    model: str = "mockllm/model",
    status: str = "success",
    version: int = 1,
    scorer: Mapping[str, Any] | None = None,
    total: int | None = None,
) -> Path:
    """What `inspect eval` writes, as the path's name has it; the path."""
    header: dict[str, Any] = {
        "version": 2,
        "status": status,
        "eval": {
            "eval_id": "x",
            "created": "2026-01-31T12:00:00+00:00",
            "task": task,
            "task_version": version,
            "dataset": {"name": task, "samples": len(samples), "shuffled": False},
            "model": model,
            "model_args": {},
            "config": {"epochs": 1},
            "packages": {"inspect_ai": "0.3.285"},
            "scorers": [{"name": "match", "options": dict(scorer or {}), "metrics": []}],
        },
        "plan": {"steps": []},
        "results": {"total_samples": len(samples) if total is None else total, "scores": []},
        "stats": {},
    }
    if status == "error":
        header["error"] = {"message": "ValueError('no')", "traceback": "…", "traceback_ansi": "…"}
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".json":
        path.write_text(json.dumps(header | {"samples": [*samples]}, indent=2))
        return path
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("_journal/start.json", "{}")
        for each in samples:
            name = f"samples/{each['id']}_epoch_{each['epoch']}.json"
            archive.writestr(name, json.dumps(each))
        archive.writestr("header.json", json.dumps(header))
    return path


def asked(number: int, question: str, value: Any, epoch: int = 1, **more: Any) -> dict[str, Any]:
    return {
        "id": number,
        "epoch": epoch,
        "input": question,
        "target": "she works",
        "messages": [{"id": f"m{number}", "role": "user", "content": question}],
        "output": {"completion": "she works"},
        "scores": {"match": {"value": value, "answer": "x"}},
        "metadata": {"job": question.split()[3]},
        **more,
    }


def answered(values: Sequence[Any]) -> list[dict[str, Any]]:
    """The samples of one epoch over `DOCS`."""
    pairs = zip(DOCS, values, strict=True)
    return [asked(n, doc["question"], v) for n, (doc, v) in enumerate(pairs, start=1)]
