"""Prompts that end in a pronoun: the group effect is that of the right counterparts."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from countergen_edit.testbed import directory
from tests.cli.support import said, value_of

JANE = "The manager thanked Jane and picked up her"
PAIRS = {
    "one": {(JANE, "The manager thanked John and picked up his"): [" book", " keys"]},
    "three": {
        ("The manager saw Jane and picked up her", "The manager saw John and picked up his"): [
            *(" keys", " glasses")
        ],
        ("The boss saw Anna and took her", "The boss saw Michael and took his"): [" phone"],
        ("Jane is late as the mechanic has her", "John is late as the mechanic has his"): [" car"],
    },
    "split": {
        (JANE, "The manager thanked John and picked up his"): [" keys"],
        (JANE, "The manager thanked John and picked up him"): [" and", " again"],
    },
}
"""Both sides of each prompt, written by hand, and its outputs."""


def brute_force(pairs: dict[tuple[str, str], list[str]]) -> float:
    """Root mean square of log P(output | female) - log P(output | male), each text alone."""
    own = AutoModelForCausalLM.from_pretrained(directory(), dtype=torch.float64).eval()
    tokenizer = AutoTokenizer.from_pretrained(directory())

    def log_p(prompt: str, output: str) -> float:
        ids = tokenizer(prompt + output)["input_ids"]
        start = len(tokenizer(prompt)["input_ids"])
        with torch.no_grad():
            logits = own(torch.tensor([ids])).logits[0].log_softmax(-1)
        return float(sum(logits[i - 1, ids[i]] for i in range(start, len(ids))))

    gaps = [log_p(f, o) - log_p(m, o) for (f, m), outputs in pairs.items() for o in outputs]
    return float(np.sqrt(np.mean(np.square(gaps))))


@pytest.mark.slow
@pytest.mark.parametrize("name", PAIRS)
def test_the_group_effect_is_that_of_the_right_counterparts(name: str) -> None:
    outputs: dict[str, list[str]] = {}
    for (female, _), own in PAIRS[name].items():
        outputs[female] = outputs.get(female, []) + own
    rows = [{"input": text, "outputs": own} for text, own in outputs.items()]
    Path("own.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    words = ["eraser=none", "metric=r", "cost=null", "model.dtype=float64", "run_dir=run"]
    said("audit", "data=own.jsonl", *words)
    effect = value_of("run", "group_effect")
    assert effect == pytest.approx(brute_force(PAIRS[name]), abs=1e-6)
    wrong = {(f, m.removesuffix("his") + "him"): o for (f, m), o in PAIRS[name].items()}
    assert effect != pytest.approx(brute_force(wrong), abs=0.01)
