"""Scores of a counterfactual set: log P(output | prompt) of every prompt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float64, Int

from countergen_edit.core.writing import digest, whole
from countergen_edit.data.counterfactual import CounterfactualSet
from countergen_edit.metrics.statistics import (
    Estimate,
    Resampled,
    Weights,
    estimate,
    resample,
    weighted_mean,
)
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

    @classmethod
    def of(cls, data: CounterfactualSet, log_p: Float64[np.ndarray, " prompt"]) -> SetScores:
        """Scores from log P of every output after every variation of every group."""
        counts = [len(s.of(data.groups[0])) for s in data.samples for _ in s.outputs]
        present = np.arange(max(counts)) < np.array(counts)[:, None, None]
        present = np.repeat(present, len(data.groups), axis=1)
        table = np.full(present.shape, -np.inf)
        table[present] = log_p
        index = {template: i for i, template in enumerate(data.templates)}
        template = np.array([index[s.template] for s in data.samples for _ in s.outputs])
        outputs = tuple(output for sample in data.samples for output in sample.outputs)
        return cls(data, table, present, template, outputs)

    @cached_property
    def pairs(self) -> tuple[SetScores, ...]:
        """The scores of every two groups, in their order."""
        if len(self.data.groups) == 2:
            return (self,)
        pairs = []
        for pair in self.data.pairs:
            columns = [self.data.groups.index(group) for group in pair]
            sides = self.log_p[:, columns], self.present[:, columns]
            pairs.append(SetScores(self.data.between(*pair), *sides, self.template, self.output))
        return tuple(pairs)

    @property
    def summed(self) -> SetScores:
        """The outputs of each prompt as one, with the sum of P, as in `countergen`."""
        samples = [replace(s, outputs=(" or".join(s.outputs),)) for s in self.data.samples]
        log_p = np.logaddexp.reduceat(self.log_p, self.first, axis=0)
        data = replace(self.data, samples=tuple(samples))
        outputs = tuple(sample.outputs[0] for sample in samples)
        return SetScores(data, log_p, self.present[self.first], self.template[self.first], outputs)

    @property
    def sample(self) -> Int[np.ndarray, " item"]:
        """Index into `data.samples`."""
        counts = [len(sample.outputs) for sample in self.data.samples]
        return np.repeat(np.arange(len(counts)), counts)

    @property
    def first(self) -> Int[np.ndarray, " sample"]:
        """The first item of each sample."""
        return np.flatnonzero(np.diff(self.sample, prepend=-1))

    def template_weights(self, seed: int) -> Weights:
        """Bootstrap weights of the templates, the same for every edit."""
        return resample(len(self.data.templates), seed, self.data.name, "templates")

    def names(self, side: int) -> tuple[str, ...] | None:
        """One side's names, if every sample has the same; else None."""
        return shared(self.data, self.data.groups[side], "name")

    @cached_property
    def pairs_of_people(self) -> tuple[tuple[tuple[str, str], ...], ...] | None:
        """Of each sample, the people at the same places; None if samples share their people."""
        if len(self.data.groups) > 2 or None not in (self.names(0), self.names(1)):
            return None
        pairs = []
        for sample in self.data.samples:
            a, b = ([v.person or "" for v in sample.of(group)] for group in self.data.groups)
            pairs.append(tuple(zip(a, b, strict=True)))
        return tuple(pairs) if all(a and b for pair in pairs for a, b in pair) else None

    @property
    def twins(self) -> bool:
        """Whether both groups have the same people."""
        if pairs := self.pairs_of_people:
            return all(a == b for of_sample in pairs for a, b in of_sample)
        names = self.names(0)
        return bool(names) and names == self.names(1)

    def name_weights(self, seed: int, side: int) -> Float64[np.ndarray, "resample variation"]:
        """Bootstrap weights of one side's names; 1 where samples differ in them."""
        names = self.names(side)
        if names is None:
            return np.ones((1, self.log_p.shape[2]))
        group = self.data.groups[0 if self.twins else side]
        return resample(len(names), seed, self.data.name, "names", group)

    def weights(self, seed: int) -> tuple[Weights, ...]:
        """Bootstrap weights of the templates and of each group's names, of twins once."""
        sides = (0,) if self.twins else (0, 1)
        return self.template_weights(seed), *(self.name_weights(seed, side) for side in sides)

    def mean(
        self,
        values: Float64[np.ndarray, " item"] | Float64[np.ndarray, "item group variation"],
        seed: int,
    ) -> Estimate:
        """The mean with its 95 % interval over templates, for values of prompts over names too."""
        drawn, by_item = [self.template_weights(seed)], values
        if values.ndim == 3:
            by_group = []
            for group in range(values.shape[1]):
                weights, present = self.name_weights(seed, group), self.present[:, group]
                filled = np.where(present, values[:, group], 0.0)
                with np.errstate(invalid="ignore"):  # a resample may hold no name of a prompt
                    by_group.append((weights @ filled.T) / (weights @ present.T))
                drawn += [] if self.twins and group else [weights]
            by_item = np.mean(np.broadcast_arrays(*by_group), axis=0)
        return estimate(weighted_mean(by_item, self.template, drawn[0]), *drawn)


@dataclass(frozen=True)
class StoredScores:
    """Unedited log-probabilities of sets on disk, for this run and its neighbours."""

    folder: Path
    """`scores` in the folder of this run."""
    key: str
    """Digest of all but the data that scores depend on."""
    read: bool = True
    """Whether scores are read; else they are only written."""
    others: set[str] = field(default_factory=set)
    """The folders of other runs that scores were read from."""

    def score(self, model: LanguageModel, data: CounterfactualSet, progress: str) -> SetScores:
        """`score`, read where this run or one beside it has it, else written."""
        prompts = [
            [s.outputs, [v.text for g in data.groups for v in s.of(g)]] for s in data.samples
        ]
        file = self.folder / f"{digest([self.key, prompts])}.npy"
        runs = self.folder.parent.parent
        same = sorted(runs.glob(f"*/{self.folder.name}/{file.name}"))
        for path in (file, *same) if self.read else ():
            with suppress(OSError, EOFError, ValueError):  # missing or damaged
                scores = SetScores.of(data, np.load(path))
                if path != file:
                    self.others.add(str(path.parent.parent))
                return scores
        scores = score(model, data, progress)
        with whole(file) as temporary, temporary.open("wb") as stream:
            np.save(stream, scores.log_p[scores.present])
        return scores


def shared(data: CounterfactualSet, group: str, who: str = "person") -> tuple[str, ...] | None:
    """The people (or names) of a group, if every sample has the same; else None."""
    lists = {tuple(getattr(v, who) for v in sample.of(group)) for sample in data.samples}
    people = tuple(person for person in next(iter(lists)) if person)
    return people if lists == {people} else None


def means_by_group(
    sets: Sequence[SetScores],
    values: Sequence[Float64[np.ndarray, "_sample group _variation"]],
    seed: int,
) -> Iterator[tuple[Weights, list[Resampled]]]:
    """Of each group the draws of its names, which sets may share, and the mean over each set.

    Variations without a name are not drawn; a prompt without a drawn name has the mean of the data.
    """
    name = "+".join(scores.data.name for scores in sets)
    for side, group in enumerate(sets[0].data.groups):
        names = [[v.name for v in s.of(group)] for scores in sets for s in scores.data.samples]
        rows = [row[side] for of_set in values for row in of_set]
        place = {n: i for i, n in enumerate(dict.fromkeys(n for row in names for n in row if n))}
        total, count = np.zeros((2, len(names), len(place) + 1))  # the last has no name
        for sums, counts, of_row, row in zip(total, count, names, rows, strict=True):
            at = [place.get(n or "", -1) for n in of_row]
            np.add.at(sums, at, row[: len(at)])
            np.add.at(counts, at, 1)
        drawn = resample(max(len(place), 1), seed, name, "names", group)
        people = np.ones((len(drawn), len(place) + 1))
        people[:, : len(place)] = drawn[:, : len(place)]
        n = people @ count.T
        of_data = np.tile(total.sum(axis=1) / count.sum(axis=1), (len(n), 1))
        means = np.divide(people @ total.T, n, out=of_data, where=n > 0)
        parts = np.split(means, np.cumsum([len(of_set) for of_set in values])[:-1], axis=1)
        by_set = [
            weighted_mean(part, scores.template[scores.first], scores.template_weights(seed))
            for scores, part in zip(sets, parts, strict=True)
        ]
        yield drawn, by_set


def score(model: LanguageModel, data: CounterfactualSet, progress: str | None = None) -> SetScores:
    """Score every output after every variation in one batched call."""
    prompts, continuations = [], []
    for sample in data.samples:
        for output in sample.outputs:
            texts = [v.text for group in data.groups for v in sample.of(group)]
            prompts += texts
            continuations += [output] * len(texts)
    log_p = continuation_log_probs(model, prompts, continuations, progress=progress)
    return SetScores.of(data, log_p)
