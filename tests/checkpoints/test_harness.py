"""lm-evaluation-harness runs a checkpoint unchanged, and scores it as the edited model."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from countergen_edit.edits import Edit, applied
from countergen_edit.models import LanguageModel, continuation_log_probs

lm_eval = pytest.importorskip("lm_eval", reason="needs pip install 'countergen-edit[harness]'")

QUESTIONS = [
    ("Jane is a nurse and", ["she works", "he works"], 0),
    ("John is an engineer,", ["working as a manager", "at the hospital"], 1),
    ("Ahmed was asked why", ["she failed", "he failed the exam"], 1),
    ("They told Emily a", ["story", "friend", "good morning"], 2),
]
TASK = {
    "task": "local_choices",
    "dataset_path": "json",
    "test_split": "test",
    "output_type": "multiple_choice",
    "doc_to_text": "{{question}}",
    "doc_to_choice": "choices",
    "doc_to_target": "label",
    "metric_list": [{"metric": "acc", "aggregation": "mean", "higher_is_better": True}],
}


@pytest.mark.parametrize("name", ["llama-resid_post-carried", "gpt2-attn_out-folded"])
def test_the_harness_scores_a_checkpoint_as_the_edited_model_in_memory(
    name: str,
    models: dict[str, LanguageModel],
    saved: dict[str, tuple[str, Edit, Path]],
    tmp_path: Path,
) -> None:
    data = tmp_path / "questions.jsonl"
    rows = [{"question": q, "choices": c, "label": y} for q, c, y in QUESTIONS]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    kwargs = {"data_files": {"test": str(data)}, "cache_dir": str(tmp_path / "cache")}
    family, edit, folder = saved[name]
    results = lm_eval.simple_evaluate(
        model="hf",
        model_args={"pretrained": str(folder), "trust_remote_code": True, "dtype": "float32"},
        tasks=[TASK | {"dataset_kwargs": kwargs}],
        device="cpu",
        batch_size=1,
        bootstrap_iters=0,
        log_samples=True,
    )
    prompts = [q for q, choices, _ in QUESTIONS for _ in choices]
    choices = [f" {c}" for _, options, _ in QUESTIONS for c in options]
    with applied(models[family], edit):
        edited = continuation_log_probs(models[family], prompts, choices)
    samples = sorted(results["samples"]["local_choices"], key=lambda s: s["doc_id"])
    harness = np.array([float(r[0][0]) for s in samples for r in s["resps"]])
    np.testing.assert_allclose(harness, edited, atol=1e-4)
    hits, start = [], 0
    for _, options, label in QUESTIONS:
        hits.append(int(edited[start : start + len(options)].argmax()) == label)
        start += len(options)
    assert results["results"]["local_choices"]["acc,none"] == np.mean(hits)
