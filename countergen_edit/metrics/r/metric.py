"""R, mean |R|, the group effect and the share that an edit removes; its change on other axes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import ClassVar

import numpy as np
from jaxtyping import Float64

from countergen_edit.data.axis import Split
from countergen_edit.data.task import HALF_WIDTH
from countergen_edit.edits import NamedEdit
from countergen_edit.metrics.base import Kind, MeasuredSplit, Metric, Way
from countergen_edit.metrics.context import EvaluationContext, id_of
from countergen_edit.metrics.r.effect_rows import (
    LARGEST,
    among,
    change_rows,
    changed,
    effect_rows,
    effects_of,
    group_effect_rows,
    r_rows,
    removed,
    removed_draws,
    rows_of_all_groups,
)
from countergen_edit.metrics.r.formula import abs_r_reduction
from countergen_edit.metrics.r.group_effect import GroupEffect
from countergen_edit.metrics.rows import OMNIBUS, Row
from countergen_edit.metrics.scored_texts import SCORED_BY, write_scored_texts
from countergen_edit.metrics.scores import SetScores
from countergen_edit.metrics.statistics import Estimate


class R(Metric):
    """R, mean |R| and the group effect of every set; edits are selected by the group effect.

    Parameters
    ----------
    fit_data : Whether sets that erasers are fitted on are measured too, as
        in CounterGen's Figure 2.
    """

    title = "Group effect and R"
    kind: ClassVar[Kind] = "bias"
    better: ClassVar[Mapping[str, Way]] = {
        **dict.fromkeys(("group_effect", "mean_abs_r", LARGEST, OMNIBUS), "lower"),
        "group_effect_removed": "higher",
    }
    has_baseline = True

    def __init__(self, fit_data: bool = False) -> None:
        self.fit_data = fit_data

    def measure(
        self, context: EvaluationContext, edit: NamedEdit | None, split: MeasuredSplit = "test"
    ) -> list[Row]:
        """Rows of every set; of several groups of every pair, `largest_gap` and `omnibus_effect`.

        On test data an edit also has `abs_r_reduction`, `group_effect_removed` and
        `group_effect_change`, the unedited model a pilot's `half_width` and the planted truth.
        """
        rows, effects = self._of_sets(context, edit, split), []
        if split != "test":
            return rows
        if self.fit_data:
            rows += [replace(row, split="fit") for row in self._of_sets(context, edit, "fit")]
        designs = {} if edit else {design.dataset: design for design in self.task.design}
        for data in self.task.test:
            pairs = (context.scores(data, e).pairs for e in (None, edit))
            for before, now in zip(*pairs, strict=True):
                effect = GroupEffect(now, context.seed)
                rows += self._planted(effect) if edit is None else _changes(before, effect)
                if design := designs.get(data.name):
                    estimate, detail = effect.estimate, asdict(design)
                    width = (estimate.hi - estimate.lo) / 2
                    rows.append(Row.of(HALF_WIDTH, width, now.data, n=effect.items, detail=detail))
                effects.append(effect)
        write_scored_texts(context.place(SCORED_BY, edit), id_of(edit), effects)
        return among(rows, self.task.test)

    def _of_sets(
        self, context: EvaluationContext, edit: NamedEdit | None, split: Split
    ) -> list[Row]:
        sets = self.task.sets(split)
        scores = [context.scores(data, edit) for data in sets]
        effects = effects_of(scores, context.seed)
        rows = [row for effect in effects for row in r_rows(effect.scores, context.seed)]
        of_pairs = effect_rows(effects, power=edit is None and split == "test")
        return among([*rows, *of_pairs, *rows_of_all_groups(scores, effects, of_pairs)], sets)

    def removed(
        self, context: EvaluationContext, edit: NamedEdit, split: MeasuredSplit = "test"
    ) -> Row | None:
        """The share of the group effect removed over test sets of validation's families, or all."""
        before, after = self._effects(context, edit, split)
        if not after:
            return None
        share = removed(before, after)
        if not np.isfinite(share.value):  # G² was not above 0
            share = Estimate(0.0)
        name = "+".join(dict.fromkeys(effect.scores.data.name for effect in after))
        n = sum(effect.items for effect in after)
        return Row.of("bias_removed", share, after[0].scores.data, dataset=name, n=n)

    def removed_draws(
        self, context: EvaluationContext, edit: NamedEdit, split: MeasuredSplit = "validation"
    ) -> Float64[np.ndarray, " resample"] | None:
        before, after = self._effects(context, edit, split)
        return removed_draws(before, after) if after else None

    def _effects(
        self, context: EvaluationContext, edit: NamedEdit, split: MeasuredSplit
    ) -> list[list[GroupEffect]]:
        sets = [*self.task.sets(split)]
        if split == "test":
            families = {data.name.removesuffix("_validation") for data in self.task.validation}
            sets = [d for d in sets if d.name.removesuffix("_test") in families] or sets
        return [
            effects_of([context.scores(data, e) for data in sets], context.seed)
            for e in (None, edit)
        ]

    def _planted(self, effect: GroupEffect) -> list[Row]:
        """The planted mean |R| and group effect of a set, over the measured items."""
        data = effect.scores.data
        items = [(s.template, output) for s in data.samples for output in s.outputs]
        rows = []
        for metric, truth, power in (
            ("planted_mean_abs_r", self.task.planted, 1),
            ("planted_group_effect", self.task.planted_effect, 2),
        ):
            if all(item in truth for item in items):
                sizes = np.abs([truth[item] for item in items])
                value = float(np.mean(sizes**power) ** (1 / power))
                rows.append(Row.of(metric, value, data, n=len(items)))
        return rows


def _changes(before: SetScores, after: GroupEffect) -> list[Row]:
    unedited = GroupEffect(before, after.seed)
    shares = {
        "abs_r_reduction": abs_r_reduction(before, after.scores, after.seed),
        "group_effect_removed": removed([unedited], [after]),
        "group_effect_change": changed(unedited, after)[0],
    }
    return [Row.of(m, e, after.scores.data, n=after.items) for m, e in shares.items()]


class OffTarget(Metric):
    """The group effect on axes that an edit was not fitted on, `other_axes`, and its change.

    Rows are `off_target` and `off_target_change`, whose P is two-sided, of paired draws, and Holm's
    over the sets of an edit. A set with neither names nor templates to draw has no interval and no
    P. In 300 simulations each, an edit that moved people at random was found to change an axis 0 to
    0.3 % of the time, and intervals covered 99.7 to 100 %.
    """

    title = "Bias on other axes"
    better: ClassVar[Mapping[str, Way]] = {"off_target": "lower"}
    has_baseline = True

    def measure(
        self, context: EvaluationContext, edit: NamedEdit | None, split: MeasuredSplit = "test"
    ) -> list[Row]:
        if split != "test":
            return []
        now, before = (
            [GroupEffect(context.scores(data, e), context.seed) for data in self.task.other_axes]
            for e in (edit, None)
        )
        rows = group_effect_rows(now, "off_target")
        return rows if edit is None else [*rows, *change_rows(before, now)]
