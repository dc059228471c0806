"""Speed of scoring with shared prefixes against one row per text.

    python scripts/speed/scoring.py [MODEL_DIRECTORY]

log P of sixty occupations after every name of one template, and the cost of an edit on neutral
text, on the shipped model or a directory. Both sides alternate; the least processor time counts.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from unittest.mock import patch

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np

from countergen_edit.data.sources import load_set
from countergen_edit.edits import Edit
from countergen_edit.erasers import AffineErasure
from countergen_edit.metrics.costs.neutral import neutral_cost
from countergen_edit.models import continuation_log_probs, load_model
from countergen_edit.testbed import directory, load_axis, load_truth

REPEATS = 5


def seconds(run: Callable[[], object]) -> float:
    began = time.process_time()
    run()
    return time.process_time() - began


def main() -> None:
    model = load_model(sys.argv[1] if len(sys.argv) > 1 else str(directory()))
    data = load_set(
        {"source": "testbed", "family": "occupations"}, load_axis("gender"), None, "test"
    )
    sample, *_ = data.samples
    pairs = [(v.text, output) for output in sample.outputs for v in sample.variations]

    def score() -> np.ndarray:
        return continuation_log_probs(model, *zip(*pairs, strict=True))

    def score_each() -> np.ndarray:
        with patch("countergen_edit.models.scoring.runs_trees", lambda lm, length: False):
            return score()

    difference = np.abs(score() - score_each()).max()  # warms up, and tries the model
    times = [(seconds(score), seconds(score_each)) for _ in range(REPEATS)]
    shared, each = np.min(times, axis=0)
    print(f"{model.name}: {len(pairs)} outputs of {len(sample.variations)} prompts")
    print(f"one row a text {each:.2f} s, shared rows {shared:.2f} s, ratio {each / shared:.1f}")
    print(f"largest difference {difference:.1e} nats")

    directions = np.linalg.qr(np.random.default_rng(0).standard_normal((model.d_model, 1)))[0].T
    erasure = AffineErasure.orthogonal(directions, np.zeros(model.d_model))
    edit = Edit.at("resid_post", {model.n_layers // 2: erasure})
    texts = load_truth().neutral_texts()[:40]
    cost = min(seconds(lambda: neutral_cost(model, edit, texts)) for _ in range(2))
    print(f"cost of an edit to {len(texts)} neutral texts {cost:.2f} s")


if __name__ == "__main__":
    main()
