"""Legitimate differences: differences between groups that an edit should keep.

Women sing alto and men sing tenor. The cost is the mean |change| of the shares P(output) / (sum of
P over the prompt's outputs), as plain probabilities of a real model's next words are small. A
change of all outputs alike shows in perplexity and KL.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float64

from countergen_edit.core.errors import UserError
from countergen_edit.edits import NamedEdit
from countergen_edit.metrics.base import Cost, MeasuredSplit
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.r.effect_rows import effects_of, removed
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.scores import SetScores, means_by_group
from countergen_edit.metrics.statistics import Estimate, estimate

ScorePair = tuple[SetScores, SetScores]
"""The scores of one set without the edit and under it."""
OF_SET, LEFT = "legitimate_difference_change_of_set", "legitimate_difference_left"


def shares(scores: SetScores) -> Float64[np.ndarray, "item side variation"]:
    """P(output) / (sum of P over the outputs of its prompt); NaN where absent."""
    with np.errstate(invalid="ignore"):  # absent variations: -inf minus -inf
        total = np.logaddexp.reduceat(scores.log_p, scores.first, axis=0)
        return np.asarray(np.exp(scores.log_p - total[scores.sample]))


def change_row(pairs: Sequence[ScorePair], metric: str, seed: int) -> Row:
    """Mean |change| over the prompts of some sets together, template by template, in [0, 1].

    Its interval draws the templates of each set, and names, which sets may share.
    """
    scores, changes = [before for before, _ in pairs], []
    largest: dict[str, Any] = {"largest": 0.0}
    for before, after in pairs:
        by_output = np.abs(shares(after) - shares(before))
        by_prompt = np.add.reduceat(by_output, before.first, axis=0)
        changes.append(by_prompt / np.bincount(before.sample)[:, None, None])
        by_output = np.nan_to_num(by_output)
        item, side, variation = np.unravel_index(by_output.argmax(), by_output.shape)
        if (size := float(by_output[item, side, variation])) > largest["largest"]:
            sample = before.data.samples[before.sample[item]]
            text = sample.of(before.data.groups[side])[variation].text
            largest = {"largest": size, "largest_in": text + before.output[item]}
    sets = [of_set.data for of_set in scores]
    prompts = sum(map(len, changes))
    weights = [of_set.template_weights(seed) for of_set in scores]
    means = np.zeros(1)
    for drawn, by_set in means_by_group(scores, changes, seed):
        weights.append(drawn)
        for change, mean in zip(changes, by_set, strict=True):
            means = means + mean * len(change) / (len(sets[0].groups) * prompts)
    value = estimate(means, *weights, within=(0, 1))
    name = "+".join(data.name for data in sets)
    n = sum(len(data.texts) for data in sets)
    return Row.of(metric, value, sets[0], dataset=name, detail=largest, n=n)


def left_row(pairs: Sequence[ScorePair], seed: int) -> Row:
    """The share of the group effect left over all sets; None without a group effect."""
    before, after = (effects_of([pair[which] for pair in pairs], seed) for which in (0, 1))
    gone = removed(before, after)
    left = Estimate(1 - gone.value, 1 - gone.hi, 1 - gone.lo, gone.standard_error)
    sets = [effect.scores.data for effect in after]
    name = "+".join(data.name for data in sets)
    n = sum(effect.items for effect in after)
    return Row.of(LEFT, left, sets[0], dataset=name, n=n)


class LegitimateDifferences(Cost):
    """Mean |change| of output shares on legitimate differences."""

    is_of_edits = True
    counts = "legitimate_difference_change"
    default_budget = 0.03
    title = "mean |change of P|, legitimate differences"
    digits = 4

    def prepare(self) -> None:
        for data in self.task.legitimate_sets:
            for sample in data.samples:
                if len(sample.outputs) < 2:
                    raise UserError(
                        f"legitimate_differences: {sample.template!r} of {data.name!r} has "
                        f"{len(sample.outputs)} output; give two or more, such as ' tenor' and "
                        "' alto'"
                    )

    def measure(
        self, context: EvaluationContext, edit: NamedEdit | None, split: MeasuredSplit = "test"
    ) -> list[Row]:
        """Changes over all sets and of each, and the effect left; none without sets."""
        sets = self.task.legitimate_differences.get(split, ())
        if not sets:
            return []
        pairs = [(context.scores(data, None), context.scores(data, edit)) for data in sets]
        rows = [change_row(pairs, self.counts, context.seed)]
        if len(sets) > 1:
            rows += [change_row([pair], OF_SET, context.seed) for pair in pairs]
        return [*rows, left_row(pairs, context.seed)]
