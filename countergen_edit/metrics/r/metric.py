"""The metric `r`: R and mean |R| of every set, and how much of mean |R| an edit removes.

Comes in: a task's sets and what a bench scores of them. Goes out: rows, and the scores of single
texts in the run's store.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
from jaxtyping import Float64

from countergen_edit.data.counterfactual import CounterfactualSet
from countergen_edit.edits import EditRecord, NamedEdit
from countergen_edit.metrics.base import Kind, MeasuredSplit, Metric, Quantity, alike
from countergen_edit.metrics.bench import Bench, id_of
from countergen_edit.metrics.blocks import Number, Section
from countergen_edit.metrics.panels import dataset_label, set_label
from countergen_edit.metrics.r import sections
from countergen_edit.metrics.r.formula import abs_r_reduction, mean_r, pooled_reduction, r_values
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import UNEDITED, Row
from countergen_edit.metrics.scored_texts import SCORED_BY, write
from countergen_edit.metrics.scores import SetScores
from countergen_edit.metrics.statistics import estimate


def r_rows(scores: SetScores, seed: int) -> list[Row]:
    """Rows `r` and `mean_abs_r` of one set."""
    data = scores.data
    signed, absolute = mean_r(scores, seed)
    return [
        Row.of_set(
            data,
            metric,
            e,
            n=len(scores.output),
            seed=seed,
            detail={
                "standard_error": e.standard_error if np.isfinite(e.standard_error) else None,
                "templates": len(data.templates),
            }
            | ({"starred": e.starred} if metric == "r" else {}),
        )
        for metric, e in (("r", signed), ("mean_abs_r", absolute))
    ]


class R(Metric):
    """R and mean |R| of every set of a task; of an edit, also how much of mean |R| is gone."""

    kind: ClassVar[Kind] = "bias"
    has_baseline = True

    def rows(
        self, bench: Bench, edit: NamedEdit | None, split: MeasuredSplit = "test"
    ) -> list[Row]:
        """Rows `r` and `mean_abs_r` of every set of the split.

        On test data those of the sets that were fitted on too, and of each set `abs_r_reduction`
        under an edit and, where known, `planted_mean_abs_r` without one; the scores of single texts
        stay in the store.
        """
        if split == "validation":
            return [
                replace(row, split=split)
                for data in self.task.validation
                for row in r_rows(bench.scores(data, edit), bench.seed)
            ]
        rows, texts = [], []
        for part, sets in self.task.measured:
            for data in sets:
                now = bench.scores(data, edit)
                texts.append((part, now, r_values(now).tolist()))
                of_set = r_rows(now, bench.seed)
                if edit is None:
                    of_set += self._planted(data, bench.seed)
                else:
                    gone = abs_r_reduction(bench.scores(data, None), now, bench.seed)
                    n = len(now.output)
                    of_set.append(Row.of_set(data, "abs_r_reduction", gone, n=n, seed=bench.seed))
                rows += [replace(row, split=part) for row in of_set]
        write(bench.place(SCORED_BY, edit), id_of(edit), texts)
        return rows

    def removed(self, bench: Bench, edit: NamedEdit, split: MeasuredSplit = "test") -> Row | None:
        """The share of mean |R| that is gone over several sets together.

        On test data these are the sets of the families that validation data are of, by which edits
        are chosen; all sets, if none is.
        """
        sets = self._pooled(split)
        draws = self.removed_draws(bench, edit, split)
        if draws is None:
            return None
        return Row.of_set(
            sets[0],
            "bias_removed",
            estimate(draws),
            dataset="+".join(data.name for data in sets),
            n=sum(len(bench.scores(data, edit).output) for data in sets),
            split=split,
            seed=bench.seed,
        )

    def removed_draws(
        self, bench: Bench, edit: NamedEdit, split: MeasuredSplit = "validation"
    ) -> Float64[np.ndarray, " resample"] | None:
        """The share of mean |R| that is gone, and its resamples over templates and names."""
        sets = self._pooled(split)
        if not sets:
            return None
        before, after = ([bench.scores(data, e) for data in sets] for e in (None, edit))
        return pooled_reduction(before, after, bench.seed)

    def _pooled(self, split: MeasuredSplit) -> Sequence[CounterfactualSet]:
        """The sets over which what is removed is told as one share."""
        return self.task.validation if split == "validation" else self.like_validation

    @property
    def like_validation(self) -> Sequence[CounterfactualSet]:
        """The test sets of the families that the choice is made on; all, if there are none."""
        families = {data.name.removesuffix("_validation") for data in self.task.validation}
        like = [data for data in self.task.test if data.name.removesuffix("_test") in families]
        return like or self.task.test

    def _planted(self, data: CounterfactualSet, seed: int) -> list[Row]:
        """The planted mean |R| of a set, over the same items as the measured one."""
        items = [(s.template, output) for s in data.samples for output in s.outputs]
        truth = self.task.planted
        if not all(item in truth for item in items):
            return []
        value = float(np.mean(np.abs([truth[item] for item in items])))
        return [Row.of_set(data, "planted_mean_abs_r", value, n=len(items), seed=seed)]

    @classmethod
    def quantities(cls, results: Results, split: str = "test") -> list[Quantity]:
        """Mean |R| of every set of the split, then the share of it that is gone of each."""
        main = main_row(results, split)
        rows = results.unedited("mean_abs_r", split)
        sizes = [
            Quantity(
                f"mean |R|, {set_label(row)}",
                alike(results, row),
                "bias",
                main=row is main,
                axis="mean |R|",
                limits=(0.0, 1.0),
                truth=results.under(row, UNEDITED, "planted_mean_abs_r"),
                drawn=row is main,
            )
            for row in rows
        ]
        gone = [(row, alike(results, row, "abs_r_reduction")) for row in rows]
        shares = [
            Quantity(
                f"bias removed, {set_label(row)}",
                by_edit,
                "bias",
                percent=True,
                main=row is main,
                drawn=False,
            )
            for row, by_edit in gone
            if by_edit
        ]
        return sizes + shares

    @classmethod
    def sections(cls, results: Results) -> list[Section]:
        """Bias set by set, bias by layer, and single texts."""
        return [
            *sections.bias(results),
            *sections.layers(results),
            *sections.examples(results),
        ]

    @classmethod
    def sentences(cls, results: Results) -> list[str]:
        """How biased the model is on the first set."""
        main = main_row(results)
        if main is None:
            return []
        return [
            f"Biased: on {set_label(main)}, swapping {main.group_a} for {main.group_b} changes a "
            f"continuation's probability by {Number.of(main, percent=True).text} on average "
            f"(mean |R| {_with_interval(main)})."
        ]

    @classmethod
    def outcome(cls, results: Results, edit: EditRecord) -> str:
        """What an edit leaves of the bias on the first set, and what its control does there."""
        main = main_row(results)
        after = main and results.under(main, edit.id)
        gone = main and results.under(main, edit.id, "abs_r_reduction")
        if main is None or after is None or gone is None:
            return ""
        verdict = "Removed" if (gone.value or 0) > 0 else "Not removed"
        control = None if edit.baseline else results.baseline_of(edit)
        by_control = control and results.under(main, control.id, "abs_r_reduction")
        held_against = f"; random directions: {_change(by_control)}" if by_control else ""
        return (
            f"{verdict}: {edit.called} takes it to {_with_interval(after)}: "
            f"{_change(gone)}{held_against}."
        )

    @classmethod
    def caveats(cls, results: Results) -> list[str]:
        """What the intervals are drawn over."""
        main = main_row(results)
        if main is None:
            return []
        return [
            f"How sure: 95 % intervals, drawn over templates and names together; {main.n} "
            "prompt-output pairs with names and wordings that no eraser was fitted on. "
            "* is two standard errors from 0."
        ]


def main_row(results: Results, split: str = "test") -> Row | None:
    """The set that stands for a run: the first test set, on validation data that of its family."""
    main = next(iter(results.unedited("mean_abs_r")), None)
    if split == "test":
        return main
    rows = results.unedited("mean_abs_r", split)
    family = dataset_label(main.dataset) if main else None
    alike = (row for row in rows if dataset_label(row.dataset) == family)
    return next(alike, rows[0] if rows else None)


def _with_interval(row: Row) -> str:
    ends = [Number(end).text for end in (row.lo, row.hi)]
    if row.lo is None or row.hi is None:
        return f"{Number.of(row).text}, without interval: one wording and no names to draw from"
    return f"{Number.of(row).text} [{', '.join(ends)}]"


def _change(row: Row) -> str:
    if row.value is None:
        return ""
    share = Number(abs(row.value), percent=True).text
    return f"{share} {'removed' if row.value >= 0 else 'added'}"
