"""Spill-over: what an edit does to the group effect on axes that it was not fitted on.

A direction that tells women from men may carry part of what tells other people apart, so that
erasing it moves them too. Each set of another axis is measured with the ruler of `r`; its draws are
paired between edits, so that those of the difference give the change its interval and its P (two
sided, the share of draws at or beyond 0). Holm's correction is over the sets that an edit is
measured on. An axis got worse where P is at most 0.05 and the group effect grew by 2 % and by
0.01 nats or more.

Comes in: the sets `other_axes` of a task. Goes out: rows `off_target` under every edit, and
`off_target_change` against the unedited model. A set with neither people nor templates to draw has
no interval: its change is shown and not judged. Without sets there are no rows.

In 300 simulations each (48 items, 8 people a group; group effects 0 to 1 nat; people who spread by
0.3 or 0.5 nats in all directions or in three, and whom the edit moves by 0.1 or 0.5) an edit that
moved people at random was found to change an axis 0 to 0.3 % of the time, and intervals covered
99.7 to 100 %: they are too wide rather than too narrow. An axis of 0.3 nats that grew by 30 % was
found always, where people spread in three directions 65 % of the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from countergen_edit.edits import NamedEdit
from countergen_edit.metrics.base import MeasuredSplit, Metric
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.r.effect_rows import effect_rows
from countergen_edit.metrics.r.group_effect import GroupEffect
from countergen_edit.metrics.r.paired import changed
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.statistics import adjusted
from countergen_edit.models import Workload

CHANGE = "off_target_change"


def change_rows(before: Sequence[GroupEffect], after: Sequence[GroupEffect]) -> list[Row]:
    """A row `off_target_change` for each set; its P is Holm's over them."""
    changes = [changed(*pair) for pair in zip(before, after, strict=True)]
    corrected = iter(adjusted([p for _, p in changes if p is not None]).tolist())
    return [
        Row.of_set(
            effect.scores.data,
            CHANGE,
            change,
            n=effect.items,
            seed=effect.seed,
            detail={} if p is None else {"p": p, "p_adjusted": next(corrected)},
        )
        for effect, (change, p) in zip(after, changes, strict=True)
    ]


class OffTarget(Metric):
    """The group effect on axes that nothing was fitted on, and what an edit changes of it."""

    title = "Bias on other axes"
    has_baseline = True

    def workload(self) -> Workload:
        """The sets of other axes."""
        return Workload.scoring(self.task.other_axes)

    def measure(
        self, context: EvaluationContext, edit: NamedEdit | None, split: MeasuredSplit = "test"
    ) -> list[Row]:
        """Rows `off_target` of every set of other axes; under an edit `off_target_change` too."""
        sets = self.task.other_axes
        if split != "test" or not sets:
            return []
        now, before = (
            [GroupEffect(context.scores(data, e), context.seed) for data in sets]
            for e in (edit, None)
        )
        rows = [
            replace(row, metric="off_target")
            for row in effect_rows(now)
            if row.metric == "group_effect"
        ]
        return rows if edit is None else [*rows, *change_rows(before, now)]
