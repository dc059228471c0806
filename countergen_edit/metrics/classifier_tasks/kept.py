"""The share of answers of a classifier that an edit keeps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool

from countergen_edit.metrics.classifier_tasks.base import TaskText
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.statistics import bootstrap_mean

KEPT = "answers_kept"
"""The share of texts that an edit leaves with the answer that they had."""


def kept_rows(asked: Sequence[TaskText], kept: Bool[np.ndarray, " text"], seed: int) -> list[Row]:
    """`answers_kept` of each template's paraphrases, and of all, with intervals over texts."""
    of = np.array([one.family for one in asked])
    rows = []
    for name in (*dict.fromkeys(of.tolist()), "all"):
        own = kept if name == "all" else kept[of == name]
        e = bootstrap_mean(own.astype(np.float64), seed, KEPT, name)
        rows.append(Row(KEPT, **e.columns, dataset=name, n=len(own), seed=seed))
    return rows
