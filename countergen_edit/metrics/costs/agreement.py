"""Agreement: grammar that an edit should keep.

Agreement is grammar, not stereotype: after a prompt about Jane, "her" is right and "his" is wrong.
It is the share P(right) / (P(right) + P(wrong)) of the form that agrees with the person.

Comes in: prompts whose i-th output is the form that agrees with the i-th group. Goes out: the
agreement of both groups together, which counts as a cost where it falls, and of each. Refused: a
sample with other than one form for each group.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float64
from scipy.special import expit

from countergen_edit.core.errors import UserError
from countergen_edit.data.counterfactual import CounterfactualSet
from countergen_edit.edits import EditRecord, NamedEdit
from countergen_edit.metrics.base import Cost, Degradation, MeasuredSplit, Quantity, Standing, alike
from countergen_edit.metrics.blocks import Number, Section
from countergen_edit.metrics.by_layer import SHARE, layer_figures
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.costs.people import by_prompt
from countergen_edit.metrics.panels import Panel, state_dots
from countergen_edit.metrics.results import Results, State
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.scores import SetScores
from countergen_edit.metrics.statistics import estimate, weighted_mean
from countergen_edit.models import Workload


def check_forms(data: CounterfactualSet) -> None:
    """Refuse a set that agreement cannot be measured on.

    Raises:
        UserError: a sample does not have exactly one output for each group, in their order.
    """
    for sample in data.samples:
        if len(sample.outputs) != 2:
            raise UserError(
                f"agreement set {data.name!r}: {sample.template!r} has "
                f"{len(sample.outputs)} output(s); it takes the form of each group, in their order"
            )


def agreement_values(
    scores: SetScores,
) -> tuple[
    Float64[np.ndarray, "sample side variation"], Float64[np.ndarray, "sample side variation"]
]:
    """Share of the right form, and its plain probability, for every prompt.

    Raises:
        UserError: a sample does not have exactly one output for each group, in their order.
    """
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
    present = scores.present[::2]
    template = scores.template[::2]
    weights = scores.template_weights(seed)
    groups, by_side, drawn = scores.data.groups, [], []
    for side in (0, 1):
        group = groups[side]
        asked = [[v.name for v in sample.of(group)] for sample in scores.data.samples]
        people, means = by_prompt(asked, share[:, side], seed, scores.data.name, "names", group)
        by_side.append(weighted_mean(means, template, weights))
        drawn.append(people)
    sides: list[tuple[str, str, Sequence[int]]] = [
        (groups[0], groups[1], (0, 1)),
        (groups[0], "", (0,)),
        (groups[1], "", (1,)),
    ]
    rows = []
    for group_a, group_b, which in sides:
        mean = np.mean([by_side[side] for side in which], axis=0)
        e = estimate(mean, weights, *(drawn[side] for side in which), within=(0, 1))
        chosen = present[:, which]
        rows.append(
            Row.of_set(
                scores.data,
                "agreement",
                e,
                group_a=group_a,
                group_b=group_b,
                n=int(chosen.sum()),
                seed=seed,
                detail={"p_right": float(probability[:, which][chosen].mean())},
            )
        )
    return rows


class Agreement(Cost):
    """P(right form) of both groups together and of each; what an edit takes of it is a cost."""

    counts = "agreement"
    worse = "lower"
    default_budget = 0.01
    title = "P(right form)"

    def prepare(self) -> None:
        """Check the task's agreement sets.

        Raises:
            UserError: a sample does not have one form for each group.
        """
        for data in self.task.agreement.values():
            check_forms(data)

    def workload(self) -> Workload:
        """The set of test data, where there is one."""
        data = self.task.agreement.get("test")
        return Workload.scoring([data] if data else [])

    def rows(
        self, context: EvaluationContext, edit: NamedEdit | None, split: MeasuredSplit = "test"
    ) -> list[Row]:
        """Rows `agreement`: both groups, the first, the second; none where the task has no set."""
        data = self.task.agreement.get(split)
        if data is None:
            return []
        rows = agreement_rows(context.scores(data, edit), context.seed)
        return [replace(row, split=split) for row in rows]

    def counted(self, rows: Sequence[Row]) -> list[Row]:
        """The rows of each group: a mean over groups would hide the loss of one."""
        return [row for row in rows if row.metric == self.counts and not row.group_b]

    def degradation(self, before: Row, after: Row) -> Degradation | None:
        """The fall of a group's agreement."""
        degradation = super().degradation(before, after)
        return None if degradation is None else replace(degradation, group=before.group_a)

    @classmethod
    def quantities(cls, results: Results, split: str = "test") -> list[Quantity]:
        """Both groups together, which figures draw, and each group, which tables list."""
        return [
            Quantity(
                f"{cls.title}, {_who(row)}",
                alike(results, row),
                "cost",
                main=not row.group_b,
                axis=f"{cls.title}, {_who(row)}",
                limits=SHARE,
                covers=SHARE,
                drawn=bool(row.group_b),
            )
            for row in results.unedited(cls.counts, split)
        ]

    @classmethod
    def glance(cls, states: Sequence[State]) -> list[Panel]:
        """Of each group and of both together; of several pairs of groups, of each pair."""
        rows = states[0].results.of(cls.counts, edit=states[0].edit)
        several = sum(bool(row.group_b) for row in rows) > 1
        labels: dict[Hashable, str] = {
            (row.group_a, row.group_b): f"{row.group_a} / {row.group_b}" if several else _who(row)
            for row in rows
            if row.group_b or not several
        }
        series = state_dots(
            states,
            labels,
            lambda state: {
                (row.group_a, row.group_b): row
                for row in state.results.of(cls.counts, edit=state.edit)
            },
        )
        if not series:
            return []
        title = "Grammar that should stay: agreement"
        return [Panel(title, cls.title, "", tuple(series), True, SHARE, joined=True)]

    @classmethod
    def leaderboard(cls, results: Results) -> list[Standing]:
        """Of the groups together; of several pairs of groups each."""
        rows = [row for row in results.unedited(cls.counts) if row.group_b]
        of_all = [Quantity(cls.title, {}, cls.kind)]
        of_each = [
            Quantity(
                cls.title if len(rows) == 1 else f"{cls.title}, {row.group_a} / {row.group_b}",
                alike(results, row),
                cls.kind,
            )
            for row in rows
        ]
        note = (
            f"{cls.title} is agreement: the share of the form that agrees with the person, over "
            f"{rows[0].n} prompts, whose templates and names are drawn."
            if rows
            else ""
        )
        return [
            Standing(quantity, notes=(note,), measured_by="cost=agreement")
            for quantity in of_each or of_all
        ]

    @classmethod
    def sections(cls, results: Results) -> list[Section]:
        """Agreement under an edit at each layer."""
        figures = layer_figures(
            results,
            cls.counts,
            name="layers_agreement",
            heading="Agreement under an edit at each layer",
            y_label=cls.title,
            title=lambda row: f"agreement, {_who(row)}",
            about=lambda row: bool(row.group_b),
        )
        return [Section("layers", "Layers and erasers", tuple(figures))] if figures else []

    @classmethod
    def outcome(cls, results: Results, edit: EditRecord) -> str:
        """Agreement of each group, before and after."""
        changes = [
            f"{row.group_a} {Number.of(row).text} → {Number.of(after).text}"
            for row in results.unedited(cls.counts)
            if not row.group_b and (after := results.under(row, edit.id))
        ]
        return f"agreement {', '.join(changes)}" if changes else ""


def _who(row: Row) -> str:
    return "both groups" if row.group_b else row.group_a
