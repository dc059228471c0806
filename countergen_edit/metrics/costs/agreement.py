"""Agreement: the share P(right) / (P(right) + P(wrong)) of the form that agrees with a name.

After a prompt about Jane, "her" is right and "his" is wrong: grammar, not stereotype.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float64
from scipy.special import expit

from countergen_edit.core.errors import UserError
from countergen_edit.data.counterfactual import CounterfactualSet
from countergen_edit.edits import NamedEdit
from countergen_edit.metrics.base import Cost, Degradation, MeasuredSplit
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.scores import SetScores, means_by_group
from countergen_edit.metrics.statistics import estimate


def check_forms(data: CounterfactualSet) -> None:
    """Raise a `UserError` for a sample without one output for each group."""
    for sample in data.samples:
        if len(sample.outputs) != 2:
            raise UserError(
                f"agreement set {data.name!r}: {sample.template!r} has "
                f"{len(sample.outputs)} output(s); it takes the form of each group, in their order"
            )


Values = Float64[np.ndarray, "sample side variation"]


def agreement_values(scores: SetScores) -> tuple[Values, Values]:
    """Share of the right form, and its plain probability, for every prompt."""
    check_forms(scores.data)
    log_p = scores.log_p.reshape(-1, 2, *scores.log_p.shape[1:])  # sample, form, side, variation
    right = np.stack([log_p[:, 0, 0], log_p[:, 1, 1]], axis=1)
    wrong = np.stack([log_p[:, 1, 0], log_p[:, 0, 1]], axis=1)
    with np.errstate(invalid="ignore"):  # absent variations: -inf minus -inf
        share = expit(right - wrong)
    return share, np.exp(right)


def agreement_rows(scores: SetScores, seed: int) -> list[Row]:
    """Rows `agreement` for both groups together and for each."""
    share, probability = agreement_values(scores)
    present, weights = scores.present[::2], scores.template_weights(seed)
    drawn, means = zip(*means_by_group([scores], [share], seed), strict=True)
    (a, b), rows = scores.data.groups, []
    for group_a, group_b, which in ((a, b, (0, 1)), (a, "", (0,)), (b, "", (1,))):
        mean = np.mean([means[side][0] for side in which], axis=0)
        e = estimate(mean, weights, *(drawn[side] for side in which), within=(0, 1))
        chosen = present[:, which]
        detail = {"p_right": float(probability[:, which][chosen].mean())}
        columns = {"group_a": group_a, "group_b": group_b, "detail": detail}
        rows.append(Row.of("agreement", e, scores.data, n=int(chosen.sum()), **columns))
    return rows


class Agreement(Cost):
    """P(right form) of both groups together and of each; its fall is a cost."""

    counts = "agreement"
    worse = "lower"
    default_budget = 0.01
    title = "P(right form)"

    def prepare(self) -> None:
        for data in self.task.agreement.values():
            check_forms(data)

    def measure(
        self, context: EvaluationContext, edit: NamedEdit | None, split: MeasuredSplit = "test"
    ) -> list[Row]:
        """Rows `agreement` of both groups and of each; none without a set."""
        if (data := self.task.agreement.get(split)) is None:
            return []
        return agreement_rows(context.scores(data, edit), context.seed)

    def counted(self, rows: Sequence[Row]) -> list[Row]:
        """The rows of each group: a mean over groups would hide the loss of one."""
        return [row for row in rows if row.metric == self.counts and not row.group_b]

    def degradation(self, before: Row, after: Row) -> Degradation | None:
        fall = super().degradation(before, after)
        return None if fall is None else replace(fall, group=before.group_a)
