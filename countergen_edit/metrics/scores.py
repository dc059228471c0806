"""Scores of a counterfactual set: log P(output | prompt) for every prompt of every group.

Comes in: a set and a model. Goes out: a padded array from which `r` and agreement are formed, with
the templates and names that the bootstrap draws. Of more than two groups, `pairs` gives the scores
of every two; what is drawn of a group is the same in all of its pairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float64, Int

from countergen_edit.data.counterfactual import CounterfactualSet, Sample
from countergen_edit.metrics.statistics import Weights, resample
from countergen_edit.models import LanguageModel, continuation_log_probs


@dataclass(frozen=True)
class SetScores:
    """Log-probabilities of a set; an item is one output of one sample."""

    data: CounterfactualSet
    log_p: Float64[np.ndarray, "item side variation"]
    """Natural log; −inf where a sample has fewer variations than the largest."""
    present: Bool[np.ndarray, "item side variation"]
    template: Int[np.ndarray, " item"]
    """Index into `data.templates`."""
    output: tuple[str, ...]
    """The item's output."""

    @cached_property
    def pairs(self) -> tuple[SetScores, ...]:
        """The scores of every two groups, in their order; of two groups these very scores."""
        if len(self.data.groups) == 2:
            return (self,)
        place = {group: side for side, group in enumerate(self.data.groups)}
        return tuple(
            SetScores(
                self.data.between(*pair),
                self.log_p[:, [place[group] for group in pair]],
                self.present[:, [place[group] for group in pair]],
                self.template,
                self.output,
            )
            for pair in self.data.pairs
        )

    @property
    def sample(self) -> Int[np.ndarray, " item"]:
        """Index into `data.samples`."""
        counts = [len(sample.outputs) for sample in self.data.samples]
        return np.repeat(np.arange(len(counts)), counts)

    def template_weights(self, seed: int) -> Weights:
        """Bootstrap weights of the templates; the same for every edit of the same set."""
        return resample(len(self.data.templates), seed, self.data.name, "templates")

    def names(self, side: int) -> tuple[str, ...] | None:
        """One side's names, where every sample is asked of the same ones; else None."""
        lists = {tuple(v.name for v in s.of(self.data.groups[side])) for s in self.data.samples}
        names = tuple(name for name in next(iter(lists)) if name is not None)
        return names if lists == {names} else None

    @property
    def twins(self) -> bool:
        """Whether both groups are the same people, whose group other words than names indicate."""
        names = self.names(0)
        return bool(names) and names == self.names(1)

    def name_weights(self, seed: int, side: int) -> Float64[np.ndarray, "resample variation"]:
        """Bootstrap weights of one side's names; of people who are on both sides the same.

        Names can be drawn only where every sample is asked of the same names; elsewhere the
        variations of a sample are part of it and weigh one.
        """
        names = self.names(side)
        if names is None:
            return np.ones((1, self.log_p.shape[2]))
        group = self.data.groups[0 if self.twins else side]
        return resample(len(names), seed, self.data.name, "names", group)

    def weights(self, seed: int) -> tuple[Weights, ...]:
        """All that is drawn: the templates, and the names of each side, those of both once."""
        sides = (0,) if self.twins else (0, 1)
        return self.template_weights(seed), *(self.name_weights(seed, side) for side in sides)


def score(model: LanguageModel, data: CounterfactualSet, progress: str | None = None) -> SetScores:
    """Score every output after every variation in one batched call."""
    items = [(s, output) for s in data.samples for output in s.outputs]
    prompts, continuations = [], []
    for sample, output in items:
        for group in data.groups:
            for variation in sample.of(group):
                prompts.append(variation.text)
                continuations.append(output)
    flat = continuation_log_probs(model, prompts, continuations, progress=progress)
    widest = max(len(sample.of(data.groups[0])) for sample in data.samples)
    present = np.zeros((len(items), len(data.groups), widest), dtype=bool)
    for i, (sample, _) in enumerate(items):
        present[i, :, : _variations(sample, data)] = True
    log_p = np.full(present.shape, -np.inf)
    log_p[present] = flat
    index = {template: i for i, template in enumerate(data.templates)}
    return SetScores(
        data,
        log_p,
        present,
        np.array([index[sample.template] for sample, _ in items]),
        tuple(output for _, output in items),
    )


def _variations(sample: Sample, data: CounterfactualSet) -> int:
    return len(sample.of(data.groups[0]))
