"""A line of a classifier task's table: the original beside its rewordings (Seshadri et al. 2022).

Comes in: a measure of every wording. Goes out: rows, one a wording, and one that says how the
measure spreads. Intervals are drawn over what texts share: pairs of people, subjects or words.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float64

from countergen_edit.data.template_bank import Family, TemplateBank
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.statistics import Estimate

Scores = Float64[np.ndarray, " text"]
OVER_WORDINGS = " over wordings"
"""Ends the names of row metrics that say how a measure spreads over wordings."""


def wording_row(
    metric: str,
    e: Estimate,
    bank: TemplateBank,
    family: Family,
    wording: str,
    *,
    dataset: str,
    n: int,
    seed: int,
    **detail: Any,
) -> Row:
    """A measure of one wording; the wording is a facet."""
    a, b = bank.groups or ("", "")
    return Row(
        metric,
        **e.columns,
        dataset=dataset,
        group_a=a,
        group_b=b,
        facets={"wording": wording},
        n=n,
        seed=seed,
        detail={"original": wording == family.original} | detail,
    )


def over_wordings(
    metric: str, dataset: str, values: Sequence[float], bank: TemplateBank, **detail: Any
) -> Row:
    """A line of a table: the rewordings' mean, with the original and their SD in `detail`.

    Args:
        metric: the measure; the row's is called `<metric> over wordings`.
        dataset: the line.
        values: of the original, then of its rewordings.
        bank: whose groups are compared.
        detail: what else belongs to the line.
    """
    original, modified = values[0], np.array(values[1:])
    mean = float(modified.mean()) if len(modified) else math.nan
    a, b = bank.groups or ("", "")
    detail |= {
        "original": float(original),
        "sd": float(modified.std(ddof=1)) if len(modified) > 1 else None,
        # The paper's change: how much larger or smaller the measure becomes in size.
        "change": (abs(mean) - abs(original)) / abs(original)
        if original and len(modified)
        else None,
    }
    value = mean if math.isfinite(mean) else None
    return Row(
        metric + OVER_WORDINGS,
        value,
        dataset=dataset,
        group_a=a,
        group_b=b,
        n=len(modified),
        detail=detail,
    )
