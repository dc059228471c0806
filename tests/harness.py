"""How tests ask lm-evaluation-harness, without the net: of a directory's model, on their own data.

`local_choices` is a task of the test's questions, `own_task` one of the harness's own on rows of
the test's; `evaluated` runs them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml


def local_data(rows: Sequence[Mapping[str, Any]], folder: Path, name: str) -> dict[str, Any]:
    """What makes a task read these rows."""
    path = folder / f"{name}.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    files = {"data_files": {"test": str(path)}, "cache_dir": str(folder / "cache")}
    return {"dataset_path": "json", "dataset_name": None, "dataset_kwargs": files}


def own_task(name: str, rows: Sequence[Mapping[str, Any]], folder: Path) -> str:
    """A task of the harness, such as `bbq/bbq_multiple_choice`, on these rows; a file of its."""
    import lm_eval

    path = folder / f"{Path(name).name}.yaml"
    included = Path(lm_eval.__file__).parent / "tasks" / f"{name}.yaml"
    task = {"include": str(included)} | local_data(rows, folder, path.stem)
    path.write_text(yaml.safe_dump(task), "utf-8")
    return str(path)


def local_choices(
    rows: Sequence[Mapping[str, Any]], folder: Path, *metrics: str, **more: Any
) -> dict[str, Any]:
    return {
        "task": "local_choices",
        "test_split": "test",
        "output_type": "multiple_choice",
        "doc_to_text": "{{question}}",
        "doc_to_choice": "choices",
        "doc_to_target": "label",
        "metric_list": [
            {"metric": name, "aggregation": "mean", "higher_is_better": True} for name in metrics
        ],
        **local_data(rows, folder, "questions"),
        **more,
    }


def evaluated(model: Path, tasks: Sequence[str | dict[str, Any]], **more: Any) -> dict[str, Any]:
    """What `simple_evaluate` gives of a model in a directory."""
    import lm_eval
    from lm_eval.tasks import TaskManager

    settings = {"pretrained": str(model), "dtype": "float32", **more.pop("model_args", {})}
    results: dict[str, Any] = lm_eval.simple_evaluate(
        model="hf",
        model_args=settings,
        tasks=[*tasks],
        task_manager=TaskManager(include_defaults=False),  # an index of all takes five seconds
        device="cpu",
        bootstrap_iters=0,
        log_samples=True,
        **{"batch_size": 1} | more,
    )
    return results


def log_likelihoods(
    results: Mapping[str, Any], task: str
) -> list[tuple[dict[str, Any], list[float]]]:
    """Every document of a task, in order, and the log-likelihood of each of its choices."""
    samples = sorted(results["samples"][task], key=lambda sample: sample["doc_id"])
    return [(s["doc"], [float(r[0][0]) for r in s["resps"]]) for s in samples]
