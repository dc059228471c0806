"""Does a model carry the planted truth? Measured R against planted R, family by family.

Comes in: a model and the truth. Goes out: rows, and the table that shows them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.stats import pearsonr

from countergen_edit.data.axis import Split
from countergen_edit.data.counterfactual import CounterfactualSet
from countergen_edit.metrics.blocks import Cell, Number, Table
from countergen_edit.metrics.costs.agreement import agreement_rows
from countergen_edit.metrics.r import r_values
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.scores import score
from countergen_edit.models import LanguageModel
from countergen_edit.testbed import Truth, load_axis

SPLIT: Split = "test"
"""Names and wordings that no edit is ever fitted on."""
COLUMNS = {
    "planted_mean_abs_r": "mean |R| planted",
    "mean_abs_r": "mean |R| measured",
    "planted_r_correlation": "correlation of R",
    "planted_r_mean_abs_difference": "mean absolute difference",
}
"""Row metrics of a family, as the table calls them."""
NATIONALITY_PAIRS = (
    ("egypt_male", "usa_male"),
    ("mexico_male", "usa_male"),
    ("egypt_female", "usa_female"),
)


def planted_sets(truth: Truth, family: str, split: Split) -> list[CounterfactualSet]:
    """The sets of a family in a split: one for gender, three pairs of groups for nationality."""
    axis = load_axis(truth.of(family, split)[0].axis)
    pairs = [None] if axis.name == "gender" else list(NATIONALITY_PAIRS)
    return [truth.counterfactual_set(family, split, axis, pair) for pair in pairs]


def verify_testbed(model: LanguageModel, truth: Truth) -> list[Row]:
    """Rows of planted and measured mean |R|, their correlation and mean absolute difference.

    Args:
        model: the testbed, or any other model to hold against the truth.
        truth: what was planted.
    """
    rows = []
    for family in truth.families:
        planted, measured = [], []
        for data in planted_sets(truth, family, SPLIT):
            known = truth.planted_r(data.groups)
            measured.append(r_values(score(model, data)))
            planted += [known[s.template, o] for s in data.samples for o in s.outputs]
        a, b = np.array(planted), np.concatenate(measured)
        values = {
            "planted_mean_abs_r": np.abs(a).mean(),
            "mean_abs_r": np.abs(b).mean(),
            "planted_r_correlation": pearsonr(a, b).statistic if a.std() > 0 else None,
            "planted_r_mean_abs_difference": np.abs(a - b).mean(),
        }
        rows += [
            Row(
                metric=metric,
                value=None if value is None else float(value),
                dataset=family,
                split=SPLIT,
                n=len(a),
                detail={"reason": "nothing was planted here"} if value is None else {},
            )
            for metric, value in values.items()
        ]
    gender = load_axis("gender")
    return rows + agreement_rows(score(model, truth.agreement_set(SPLIT, gender)), seed=truth.seed)


def recovery_table(rows: Sequence[Row]) -> Table:
    """How well a model carries the planted truth, for held-out names and wordings."""
    families: dict[str, dict[str, Row]] = {}
    for row in rows:
        if row.metric in COLUMNS:
            families.setdefault(row.dataset, {})[row.metric] = row
    lines: list[tuple[Cell, ...]] = []
    for family, known in families.items():
        cells = [Number.of(known.get(metric)) for metric in COLUMNS]
        lines.append((family.replace("_", " "), *cells, str(known["mean_abs_r"].n)))
    for row in (row for row in rows if row.metric not in COLUMNS):
        who = "both groups" if row.group_b else row.group_a
        figures = (Number(1.0), Number.of(row), "", "")
        lines.append((f"{row.metric}, {who}", *figures, str(row.n)))
    titles = ("family", *COLUMNS.values(), "n")
    return Table("recovery", "Planted and measured", titles, tuple(lines), brief=True)
