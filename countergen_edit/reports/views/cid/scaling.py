"""How λ scales a token's probability: α(Δ) = exp(λ Δ) (Yona et al. 2023, Figure 5).

Comes in: the values of λ. Goes out: rows `cid_scaling` by λ and Δ, and their figure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from countergen_edit.core.errors import UserError
from countergen_edit.metrics.cid.contrasts import DATASET, LAMBDA
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import Row
from countergen_edit.reports.blocks import Block, Figure
from countergen_edit.reports.panels import Panel, line

DELTA = "delta"
"""The facet of Δ, a token's probability after x minus that after x'."""
POINTS = 41


def scaling_rows(strengths: Sequence[float], seed: int) -> list[Row]:
    """α at Δ from -1 to 1, for every λ.

    Raises:
        UserError: a λ is below 0, or so large that α is beyond what can be written.
    """
    for strength in strengths:
        if not 0 <= strength <= math.log(np.finfo(np.float64).max):
            raise UserError(f"lambda={strength:g}: from 0 to 709, beyond which exp(lambda) is none")
    return [
        Row(
            "cid_scaling",
            math.exp(strength * delta),
            dataset=DATASET,
            facets={LAMBDA: strength, DELTA: delta},
            split="test",
            seed=seed,
        )
        for strength in strengths
        for delta in np.linspace(-1, 1, POINTS).round(6).tolist()
    ]


def scaling_blocks(results: Results) -> list[Block]:
    """α against Δ, a line for each λ; nothing where there are no such rows."""
    rows = results.of("cid_scaling")
    if not rows:
        return []
    series = []
    for strength in dict.fromkeys(float(row.facets[LAMBDA]) for row in rows):
        own = [row for row in rows if row.facets[LAMBDA] == strength]
        series.append(line(f"λ={strength:g}", [float(row.facets[DELTA]) for row in own], own))
    note = (
        "α = exp(λ Δ) multiplies the probability of a token that is Δ likelier after a prompt than "
        "after the other."
    )
    panel = Panel("scaling of a token", "Δ", "α", tuple(series))
    return [Figure("cid_scaling", "Scaling by λ", (panel,), note)]
