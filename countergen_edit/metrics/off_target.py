"""Off-target effects: the change of the group effect on axes that an edit was not fitted on.

Each set of `other_axes` is measured like those of `r`; resamples are paired between edits, and give
the change its interval and its P (two-sided, the share of resamples at or beyond 0), with Holm's
correction over the sets of an edit. A set with neither names nor templates to resample has no
interval and no P.

Rows: `off_target` under every edit, and `off_target_change` against the unedited model.

In 300 simulations each, an edit that moved people at random was found to change an axis 0 to 0.3 %
of the time, and intervals covered 99.7 to 100 %: they are too wide rather than too narrow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from countergen_edit.edits import NamedEdit
from countergen_edit.metrics.base import MeasuredSplit, Metric, Way
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.r.effect_rows import changed, group_effect_rows
from countergen_edit.metrics.r.group_effect import GroupEffect
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.statistics import with_holm

OFF_TARGET_CHANGE = "off_target_change"


def change_rows(before: Sequence[GroupEffect], after: Sequence[GroupEffect]) -> list[Row]:
    """A row `off_target_change` for each set; its P is Holm's over them."""
    rows = []
    for was, now in zip(before, after, strict=True):
        change, p = changed(was, now)
        about = {"n": now.items, "detail": {"p": p}}
        rows.append(Row.of(OFF_TARGET_CHANGE, change, now.scores.data, **about))
    return with_holm(rows)


class OffTarget(Metric):
    """The group effect on other axes than the audited one, and its change under an edit."""

    title = "Bias on other axes"
    better: ClassVar[Mapping[str, Way]] = {"off_target": "lower"}
    has_baseline = True

    def measure(
        self, context: EvaluationContext, edit: NamedEdit | None, split: MeasuredSplit = "test"
    ) -> list[Row]:
        sets = self.task.other_axes
        if split != "test" or not sets:
            return []
        now, before = (
            [GroupEffect(context.scores(data, e), context.seed) for data in sets]
            for e in (edit, None)
        )
        rows = group_effect_rows(now, "off_target")
        return rows if edit is None else [*rows, *change_rows(before, now)]
