"""The metric `r`: R, mean |R| and its floor, the group effect, and how much of it an edit removes.

Comes in: a task's sets and what a bench scores of them. Goes out: rows, and the scores of single
texts in the run's store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
from jaxtyping import Float64

from countergen_edit.data.counterfactual import CounterfactualSet
from countergen_edit.edits import EditRecord, NamedEdit
from countergen_edit.metrics.base import Change, Kind, MeasuredSplit, Metric, Quantity, alike
from countergen_edit.metrics.blocks import Section
from countergen_edit.metrics.context import EvaluationContext, id_of
from countergen_edit.metrics.panels import Panel, set_label
from countergen_edit.metrics.r import baselines, examples, over_runs, sections, sentences
from countergen_edit.metrics.r.changes import by_set
from countergen_edit.metrics.r.effect_rows import among, effect_rows, gap_rows, r_rows
from countergen_edit.metrics.r.formula import abs_r_reduction, r_values
from countergen_edit.metrics.r.group_effect import GroupEffect
from countergen_edit.metrics.r.largest_gap import LARGEST, effects_of
from countergen_edit.metrics.r.paired import changed, removed, removed_draws
from countergen_edit.metrics.r.published import with_published
from countergen_edit.metrics.r.sections import main_row
from countergen_edit.metrics.r.significance import class_of, holm_tests
from countergen_edit.metrics.results import Results, Side, State
from countergen_edit.metrics.rows import UNEDITED, Row
from countergen_edit.metrics.scored_texts import SCORED_BY, write
from countergen_edit.metrics.scores import SetScores
from countergen_edit.metrics.statistics import Estimate


class R(Metric):
    """R and mean |R| of every set of a task, the group effect, and how much of it an edit removes.

    Mean |R| is the paper's; what is chosen by and called removed is the group effect.
    """

    title = "Group effect and R"
    kind: ClassVar[Kind] = "bias"
    has_baseline = True

    def rows(
        self, context: EvaluationContext, edit: NamedEdit | None, split: MeasuredSplit = "test"
    ) -> list[Row]:
        """Rows `r`, `mean_abs_r`, `group_effect`, `group_share` and `null_abs_r` of every set.

        Of a set of more than two groups these are of every pair, and beside them `largest_gap`. On
        test data those of the sets that were fitted on too, and of each set `abs_r_reduction` and
        `group_effect_removed` (a share) and `group_effect_change` (nats) under an edit and, where
        known, `planted_mean_abs_r` and `planted_group_effect` without one; the scores of single
        texts stay in the store.
        """
        if split != "test":
            return self._of_sets(context, edit, split, self.task.validation)
        rows, texts = [], []
        for part, sets in self.task.measured:
            rows += self._of_sets(context, edit, part, sets)
            for data in sets:
                pairs = context.scores(data, edit).pairs
                found = [row for now in pairs for row in self._against(context, data, now, edit)]
                rows += [replace(row, split=part) for row in among(found, len(data.groups))]
                for now in pairs:
                    z = GroupEffect(now, context.seed).z
                    values = r_values(now).tolist(), None if z is None else z.tolist()
                    texts.append((part, now, *values))
        write(context.place(SCORED_BY, edit), id_of(edit), texts)
        return rows

    def _of_sets(
        self,
        context: EvaluationContext,
        edit: NamedEdit | None,
        split: str,
        sets: Sequence[CounterfactualSet],
    ) -> list[Row]:
        scores = [context.scores(data, edit) for data in sets]
        effects = effects_of(scores, context.seed)
        by_pair = [row for e in effects for row in r_rows(e.scores, context.seed)]
        if edit is None:
            by_pair = [with_published(row, context.model.name) for row in by_pair]
        found = effect_rows(effects)
        by_pair += found
        groups = {data.name: len(data.groups) for data in sets}
        rows = [one for row in by_pair for one in among([row], groups[row.dataset])]
        return [replace(row, split=split) for row in (*rows, *gap_rows(effects, found))]

    def _against(
        self,
        context: EvaluationContext,
        data: CounterfactualSet,
        now: SetScores,
        edit: NamedEdit | None,
    ) -> list[Row]:
        """What stands beside the figures of two groups: the truth, or what an edit took of them."""
        if edit is None:
            return self._planted(now.data, context.seed)
        place = data.pairs.index((now.data.groups[0], now.data.groups[1]))
        before, after = context.scores(data, None).pairs[place], now
        effects = [GroupEffect(scores, context.seed) for scores in (before, after)]
        shares = {
            "abs_r_reduction": abs_r_reduction(before, after, context.seed),
            "group_effect_removed": removed(effects[:1], effects[1:]),
            "group_effect_change": changed(*effects)[0],
        }
        n = len(after.output)
        return [Row.of_set(now.data, m, e, n=n, seed=context.seed) for m, e in shares.items()]

    def removed(
        self, context: EvaluationContext, edit: NamedEdit, split: MeasuredSplit = "test"
    ) -> Row | None:
        """The share of the group effect that is gone over several sets together.

        On test data these are the sets of the families that validation data are of, by which edits
        are chosen; all sets, if none is.
        """
        sets = self._chosen_by(split)
        if not sets:
            return None
        before, after = self._effects(context, edit, sets)
        share = removed(before, after)
        if not np.isfinite(share.value):  # G² was not above 0: nothing was there to be removed
            share = Estimate(0.0, *[float("nan")] * 3)
        return Row.of_set(
            sets[0],
            "bias_removed",
            share,
            dataset="+".join(data.name for data in sets),
            n=sum(effect.items for effect in after),
            split=split,
            seed=context.seed,
        )

    def significant_bias(self, context: EvaluationContext) -> Row | None:
        """Whether the bias of any validation set is significant; `detail` is of its smallest P.

        A set without a test counts as biased.
        """
        sets = self.task.validation
        if not sets:
            return None
        effects = effects_of([context.scores(data, None) for data in sets], context.seed)
        found = holm_tests(effects)
        is_biased = any(class_of(test) in ("biased", "not tested") for test in found)
        return Row.of_set(
            sets[0],
            "bias_significant",
            float(is_biased),
            dataset="+".join(data.name for data in sets),
            split="validation",
            seed=context.seed,
            detail=min(filter(None, found), key=lambda test: test["p_adjusted"], default={}),
        )

    def removed_draws(
        self, context: EvaluationContext, edit: NamedEdit, split: MeasuredSplit = "validation"
    ) -> Float64[np.ndarray, " resample"] | None:
        """The share of `removed`, then its draws, which are paired between edits."""
        sets = self._chosen_by(split)
        return removed_draws(*self._effects(context, edit, sets)) if sets else None

    def _chosen_by(self, split: MeasuredSplit) -> Sequence[CounterfactualSet]:
        return self.like_validation if split == "test" else self.task.validation

    def _effects(
        self, context: EvaluationContext, edit: NamedEdit, sets: Sequence[CounterfactualSet]
    ) -> tuple[list[GroupEffect], list[GroupEffect]]:
        before, after = (
            effects_of([context.scores(data, e) for data in sets], context.seed)
            for e in (None, edit)
        )
        return before, after

    @property
    def like_validation(self) -> Sequence[CounterfactualSet]:
        """The test sets of the families that the choice is made on; all, if there are none."""
        families = {data.name.removesuffix("_validation") for data in self.task.validation}
        like = [data for data in self.task.test if data.name.removesuffix("_test") in families]
        return like or self.task.test

    def _planted(self, data: CounterfactualSet, seed: int) -> list[Row]:
        """The planted mean |R| and group effect of a set, over the same items as the measured."""
        items = [(s.template, output) for s in data.samples for output in s.outputs]
        rows = []
        for metric, truth, power in (
            ("planted_mean_abs_r", self.task.planted, 1),
            ("planted_group_effect", self.task.planted_effect, 2),
        ):
            if all(item in truth for item in items):
                sizes = np.abs([truth[item] for item in items])
                value = float(np.mean(sizes**power) ** (1 / power))
                rows.append(Row.of_set(data, metric, value, n=len(items), seed=seed))
        return rows

    @classmethod
    def quantities(cls, results: Results, split: str = "test") -> list[Quantity]:
        """The group effect of every set of the split, mean |R|, then the share that is gone."""
        if gaps := results.unedited(LARGEST, split):
            return [
                Quantity(
                    f"largest gap, {set_label(row)}",
                    alike(results, row),
                    "bias",
                    of=set_label(row),
                    axis="group effect, nats",
                    drawn=row is gaps[0],
                )
                for row in gaps
            ]
        main = main_row(results, split)
        rows = results.unedited("group_effect", split)

        def sizes(metric: str, title: str, limits: tuple[float, float] | None) -> list[Quantity]:
            return [
                Quantity(
                    f"{title}, {set_label(row)}",
                    by_edit,
                    "bias",
                    main=limits is None,
                    of=set_label(row),
                    axis=f"{title}, nats" if limits is None else title,
                    limits=limits,
                    truth=results.under(row, UNEDITED, f"planted_{metric}"),
                    drawn=row is main and limits is None,
                )
                for row in rows
                if (by_edit := alike(results, row, metric))
            ]

        shares = [
            Quantity(
                f"bias removed, {set_label(row)}",
                by_edit,
                "bias",
                percent=True,
                main=False,
                of=set_label(row),
                drawn=False,
            )
            for row in rows
            if (by_edit := alike(results, row, "group_effect_removed"))
        ]
        effects = sizes("group_effect", "group effect", None)
        return [*effects, *sizes("mean_abs_r", "mean |R|", (0.0, 1.0)), *shares]

    @classmethod
    def side_by_side(cls, results: Results) -> list[Quantity]:
        """The figures of the first set, or its largest gap."""
        every = cls.quantities(results)
        return [quantity for quantity in every if quantity.of == every[0].of]

    @classmethod
    def glance(cls, states: Sequence[State]) -> list[Panel]:
        """Mean |R| of every set with its floor; of more than two groups the largest gaps."""
        return sections.glance(states)

    @classmethod
    def over_runs(cls, sides: Sequence[Side], pooled: Sequence[Row]) -> list[Section]:
        """CounterGen's Table 1 of all runs, and their group effects."""
        return over_runs.over_runs(sides)

    @classmethod
    def sections(cls, results: Results) -> list[Section]:
        """Bias set by set, bias by layer, and single texts."""
        return [
            *sections.bias(results),
            *sections.layers(results),
            *examples.examples(results),
        ]

    @classmethod
    def sentences(cls, results: Results) -> list[str]:
        """On which sets the model is biased."""
        return sentences.bias(results)

    @classmethod
    def headline(cls, results: Results) -> list[str]:
        """On which sets the model is biased, in one line."""
        return sentences.headline(results)

    @classmethod
    def changes(cls, results: Results, edit: EditRecord) -> Mapping[str, Change]:
        """The class of the change of each set's bias, by its interval."""
        return by_set(results, edit.id)

    @classmethod
    def outcome(cls, results: Results, edit: EditRecord) -> str:
        """On which sets an edit removed or increased the bias, class by class."""
        return sentences.outcome(results, edit)

    @classmethod
    def baselines(cls, results: Results) -> list[tuple[str, tuple[EditRecord, ...]]]:
        """What prompting leaves of the first set's group effect, then steering and random maps."""
        main = main_row(results)
        return [] if main is None else baselines.sentences(results, main)

    @classmethod
    def caveats(cls, results: Results) -> list[str]:
        """What the intervals are drawn over, and where names are too few."""
        return sentences.caveats(results)
