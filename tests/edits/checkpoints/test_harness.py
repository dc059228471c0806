"""lm-evaluation-harness runs a checkpoint unchanged, and scores it as the edited model."""

import numpy as np
import pytest

from countergen_edit.edits import applied
from countergen_edit.edits.checkpoints.saving import write_model
from countergen_edit.models import continuation_log_probs
from tests.edits.checkpoints.conftest import edit_at
from tests.harness import evaluated, local_choices, log_likelihoods

pytest.importorskip("lm_eval", reason="needs pip install 'countergen-edit[harness]'")

QUESTIONS = [
    ("Jane is a nurse and", ["she works", "he works"], 0),
    ("John is an engineer,", ["working as a manager", "at the hospital"], 1),
    ("Ahmed was asked why", ["she failed", "he failed the exam"], 1),
    ("They told Emily a", ["story", "friend", "good morning"], 2),
]


@pytest.mark.parametrize(
    ("family", "site", "form"), [("llama", "resid_post", "carried"), ("gpt2", "attn_out", "folded")]
)
def test_the_harness_scores_a_checkpoint_as_the_edited_model_in_memory(
    family, site, form, models, tmp_path
):
    rows = [{"question": q, "choices": c, "label": y} for q, c, y in QUESTIONS]
    edit, folder = edit_at(models[family], site), tmp_path / "saved"
    write_model(models[family], edit, folder, form)
    task = local_choices(rows, tmp_path, "acc")
    results = evaluated(folder, [task], model_args={"trust_remote_code": True})
    prompts = [q for q, choices, _ in QUESTIONS for _ in choices]
    choices = [f" {c}" for _, options, _ in QUESTIONS for c in options]
    with applied(models[family], edit):
        edited = continuation_log_probs(models[family], prompts, choices)
    asked = log_likelihoods(results, "local_choices")
    harness = np.array([value for _, values in asked for value in values])
    np.testing.assert_allclose(harness, edited, atol=1e-4)
    scores = iter(edited)
    hits = [np.argmax([next(scores) for _ in options]) == y for _, options, y in QUESTIONS]
    assert results["results"]["local_choices"]["acc,none"] == np.mean(hits)
