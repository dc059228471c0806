"""The group effect G: the difference of two groups beyond the differences within a group, nats.

Of an item (one output after one template) let d be the difference of the groups' mean
log-probabilities, and v its sampling variance over names. d² - v is an unbiased estimate of the
squared group difference; its mean over items, G², is the two-sample statistic of Chen and Qin
(Annals of Statistics 38, 2010).

The test permutes the groups among the names, each with all of their items; it makes all
permutations of up to eight names per group. Where people are drawn anew for each prompt, it swaps
the groups of two people at the same places of the lists, in all of their prompts.

The interval has two parts. Given G, the mean of d² over names that all prompts share is
(G + s)² + q, with s the noise along the group difference and q the noise across it, both drawn from
the residuals of names with Gaussian multipliers, s as Student's t, q with the degrees of freedom
that the residuals show. The mean d² of contents, or of templates without contents, is skewed: its
part is the generalised confidence interval for the mean of a log-normal distribution
(Krishnamoorthy and Mathew, Journal of Statistical Planning and Inference 115, 2003), less v, with
the mean of a content's logarithmic and linear influence, of which the first holds for few clusters
and the second for many. People and templates that come back in other clusters add their covariances
(Cameron, Gelbach and Miller, Journal of Business & Economic Statistics 29, 2011). Of two to four
templates without contents that share their names, it has no useful upper bound, and for changes of
prompts about one person each it covers less: templates are then drawn with the resamples of the
other metrics.

In simulations intervals covered 88 to 100 %, and without an effect the test rejected in 4.6 %
(table in docs/findings.md). Over names alone, intervals covered 94 to 99 %, 88 to 90 % where a
large spread of names lies along G.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, combinations, product
from typing import TypeAlias

import numpy as np
from jaxtyping import Float64, Int
from scipy.sparse import block_diag, csr_array
from scipy.special import nctdtrinc, stdtrit
from scipy.stats import norm

from countergen_edit.core.seeds import generator
from countergen_edit.metrics.r.formula import relative_difference
from countergen_edit.metrics.r.people import People, numbered
from countergen_edit.metrics.scores import SetScores
from countergen_edit.metrics.statistics import LEVEL, RESAMPLES, Estimate, portions

# The names of generators are part of the seed: another name gives other draws.
PERMUTATIONS = 2000
EXACT = 20_000
"""Up to so many deals all are made, else some are drawn."""
NULL_DRAWS = 200
_POWER = 0.8
_MOST_PEOPLE = 10_000
"""Where even so many people a group would not do, there is no effect to speak of."""
_LEAST_SHARE = 0.2
"""In a logarithm, a cluster whose d² is below this share of the mean counts as that share."""
MANY_TEMPLATES = 5
"""Fewer, without contents, are drawn with the resamples of the other metrics."""
MOST_GROWTH = 50.0
"""A power of e that stands for no upper bound."""


Draws = Float64[np.ndarray, " resample"]
Gram: TypeAlias = Float64[np.ndarray, "person person"] | csr_array


def root(squared: Draws) -> Draws:
    """G from G²: nats; 0 where G² is not above 0."""
    return np.asarray(np.sqrt(np.maximum(squared, 0.0)))


def interval(draws: Draws) -> Estimate:
    """A value, the first, with the middle 95 % of its draws; undefined ones are left out."""
    value, drawn = float(draws[0]), draws[1:][~np.isnan(draws[1:])]
    if not np.isfinite(value) or len(drawn) < RESAMPLES / 2:
        return Estimate(value)
    lo, hi = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(value, min(float(lo), value), max(float(hi), value), float(drawn.std(ddof=1)))


def squares(gram: Gram, items: int) -> tuple[float, float]:
    """tr V² of one group's part V of the noise, and what it takes of the trace's own variance.

    Unbiased for Gaussian residuals (Srivastava, Journal of the Japan Statistical Society 35, 2005):
    few residuals span few directions and overstate it.
    """
    few, trace, raw = gram.shape[0] - 1, float(gram.trace()), float((gram**2).sum())
    if trace <= 0:
        return 0.0, 0.0
    unbiased = few**2 / ((few - 1) * (few + 2)) * (raw - trace**2 / few) if few > 1 else raw
    squares = float(np.clip(unbiased, trace**2 / items, trace**2))
    return squares, squares / few


@dataclass(frozen=True)
class GroupEffect:
    """The group effect of one set."""

    scores: SetScores
    seed: int = 0
    """Draws depend on it and on the set's name, so that the draws of two edits are paired."""
    together: bool = False
    """Whether the draws of a name are the same in every pair of groups."""
    permutations: int = PERMUTATIONS

    @cached_property
    def people(self) -> People:
        return People.of(self.scores)

    @property
    def has_spread(self) -> bool:
        """Whether every group has several names."""
        return self.people.fewest > 1

    @cached_property
    def _by_block(self) -> tuple[list[Float64[np.ndarray, "own own"]], Float64[np.ndarray, " row"]]:
        """Products of the residuals of each block's people with each other, and of all with d."""
        people, grams, toward = self.people, [], []
        residuals, difference = people.residuals / np.sqrt(self.items), people.difference
        for rows, items in people.blocks:
            own = residuals[rows[rows < len(residuals)], items]  # of twins the first
            grams.append(own @ own.T)
            toward.append(own @ difference[items])
        return grams, np.concatenate(toward)

    @cached_property
    def _gram(self) -> Gram:
        grams, _ = self._by_block
        return csr_array(block_diag(grams)) if len(grams) > 1 else grams[0]

    @property
    def items(self) -> int:
        return len(self.scores.output)

    @cached_property
    def by_item(self) -> Float64[np.ndarray, " item"]:
        """Unbiased squared group difference of each item, nats²."""
        return np.asarray(self.observed - (self.people.residuals**2).sum(axis=0))

    @cached_property
    def squared(self) -> float:
        """G², nats²: unbiased, so below 0 at times where the groups hardly differ."""
        return float(self.by_item.mean())

    @property
    def share(self) -> float | None:
        """Share of the squared difference between two people of the two groups that is G²."""
        if not self.has_spread:
            return None
        people, group = self.people, max(self.squared, 0.0)
        counts = people.counts[0] if people.twins else people.counts[people.side]
        own = float((people.residuals**2 * counts).sum(axis=0).mean())
        return group / (group + own) if group + own > 0 else None

    @property
    def z(self) -> Float64[np.ndarray, " item"] | None:
        """The difference of each item in units of its standard error over people."""
        if not self.has_spread:
            return None
        error = np.sqrt((self.people.residuals**2).sum(axis=0))
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.nan_to_num(self.people.difference / error, posinf=0, neginf=0))

    @cached_property
    def squared_draws(self) -> Draws:
        """G² itself, then in every draw of people and templates."""
        drawn = self._people_draws() + (
            self._paraphrase_draws() if self._draws_templates else self._cluster_draws()
        )
        return np.concatenate([[self.squared], np.maximum(drawn, 0.0)])

    @property
    def estimate(self) -> Estimate:
        """G in nats with its 95 % interval; 0 where G² is not above 0."""
        draws = root(self.squared_draws)
        one = np.ptp(draws[1:]) == 0  # one template and nobody to draw
        # Logarithms of two clusters give no useful upper bound.
        two = not self._draws_templates and int(self._cluster.max()) == 1
        return Estimate(float(draws[0])) if one or two else interval(draws)

    def least_p(self, names: int | None = None) -> float:
        """The smallest P that the test can give, with these people or with `names` a group."""
        drawn = 0.0 if self.people.deals(names) <= EXACT else 1 / (1 + self.permutations)
        return max(self.people.least_p(names), drawn)

    @cached_property
    def p_value(self) -> float | None:
        """P of a mean d² at least as large under random permutations of the groups."""
        if not self.has_spread:
            return None
        totals = self._swapped() if self.people.pair is not None else self._permuted()
        # Equal deals may differ in their last digits.
        share = float((totals >= totals[0] * (1 - 1e-12)).mean())
        return max(share, self.least_p())

    def _swapped(self) -> Float64[np.ndarray, " deal"]:
        """Mean d², first as it is, then with the groups of pairs of people swapped at random."""
        parts = self.people.differences_of_pairs()
        count = parts.shape[0]
        if self.people.deals() <= EXACT:
            signs: Iterable[np.ndarray] = [np.array([*product([1.0, -1.0], repeat=count)])]
        else:
            rng = generator(self.seed, self.scores.data.name, "permutations", "pairs")
            sizes = (rows.stop - rows.start for rows in portions(self.permutations, count))
            drawn = (rng.choice([-1.0, 1.0], (size, count)) for size in sizes)
            signs = chain([np.ones((1, count))], drawn)
        gram = parts @ parts.T
        return np.concatenate([((some @ gram) * some).sum(axis=1) for some in signs])

    def _permuted(self) -> Float64[np.ndarray, " deal"]:
        """Mean d² times a constant, first as it is, then of other groups among the names."""
        people, totals = self.people, np.zeros(1)
        exact = people.deals() <= EXACT
        for block, (rows, items) in enumerate(people.blocks):
            own = people.log_p[rows, items]
            own = own - own.mean(axis=0)
            rng = generator(self.seed, self.scores.data.name, "permutations", block)
            drawn = None if exact else people.dealt(rows, rng, self.permutations)
            shares = people.every_deal(rows) if drawn is None else drawn
            values = ((shares @ (own @ own.T)) * shares).sum(axis=1)
            totals = np.add.outer(totals, values).ravel() if exact else totals + values
        return totals

    @cached_property
    def within_group_null(self) -> float | None:
        """Mean |R| of these names if their group made no difference.

        Each residual is added to the mean of both groups, and names are permuted at random.
        """
        people = self.people
        if not self.has_spread or (people.pair is None and len(people.blocks) > 1):
            return None
        side, counts = people.side, people.counts[people.side]
        own = (people.log_p - people.means[side]) * np.sqrt(counts / (counts - 1.0))
        p = np.exp(own - np.nanmax(own, axis=0))
        rng = generator(self.seed, self.scores.data.name, "floor")
        total = 0.0
        for rows, items in people.blocks:
            dealt = people.dealt(rows, rng, NULL_DRAWS)[1:] > 0
            inside = np.asfortranarray(p[rows, items])  # the order is in the last digits
            a, b = (chosen @ inside / chosen.sum(axis=1)[:, None] for chosen in (dealt, ~dealt))
            total += float(np.abs(relative_difference(np.log(a), np.log(b))).sum())
        return total / (NULL_DRAWS * self.items)

    @cached_property
    def people_needed(self) -> int | None:
        """Names per group to find an effect of this size 4 times in 5; None without an effect."""
        if not self.has_spread or self.squared <= 0 or self.people.pair is not None:
            return None
        scale = self.people.fewest
        along, across = self._noise()
        counts = np.unique(np.geomspace(2, _MOST_PEOPLE, 400).astype(int))
        null = np.sqrt(2 * across) * scale / counts
        spread = np.sqrt(4 * along * self.squared * scale / counts + null**2)
        enough = self.squared > norm.ppf(LEVEL) * null + norm.ppf(_POWER) * spread
        return int(counts[enough][0]) if enough.any() else None

    def detectable(self, level: float) -> float | None:
        """The smallest G, nats, that is significant at `level` about 4 times in 5 with few names.

        By the power of a t-test in the direction in which names differ most (in simulations 3 to 4
        times in 5 there, else more). None for many names, or where no P is below the level.
        """
        people, deals = self.people, self.people.deals()
        is_exact = people.pair is None and len(people.blocks) == 1 and deals <= EXACT
        if not (self.has_spread and is_exact) or self.least_p() > level:
            return None
        [gram], _ = self._by_block
        free = len(gram) - len(people.sides)
        critical = stdtrit(free, 1 - int(level * deals / 2) / deals)  # P has steps of 2 / deals
        error = np.sqrt(max(np.linalg.eigvalsh(gram)[-1], 0.0)) * (1 + 0.5 / free)
        return float(nctdtrinc(free, 1 - _POWER, critical) * error)

    def _noise(self) -> tuple[float, float]:
        """Variance of the noise along the difference, nats², and tr V² of all noise, nats⁴.

        The difference as measured has noise in it: what that adds to the first is taken off, and
        where the effect is not above the noise, the largest variance of any direction counts.
        """
        grams, toward = self._by_block
        gram, sides = self._gram, self.people.sides
        across = sum((squares(gram[np.ix_(own, own)], self.items)[0] for own in sides), 0.0)
        crossed = (gram[np.ix_(*two)] for two in combinations(sides, 2))
        across += 2 * sum(float((block**2).sum()) for block in crossed)
        toward = toward / np.sqrt(self.items)
        length = float(self.observed.mean())
        naive = float(toward @ toward) / length if length > 0 else 0.0
        largest = max(naive, *(float(np.linalg.eigvalsh(own)[-1]) for own in grams))
        null = np.sqrt(2 * across)
        along = max(float(toward @ toward) - across, 0.0) + largest * null
        below = max(self.squared, 0.0) + null
        return float(np.clip(along / below if below > 0 else 0.0, naive, largest)), across

    def _multipliers(self, rng: np.random.Generator) -> Iterator[Float64[np.ndarray, "_ row"]]:
        """Gaussian draws of the people; where asked `together`, a list of names has its own."""
        count, drawn_by = self._gram.shape[0], [rng]
        sides = self.people.sides if self.together else [np.arange(count)]
        if self.together:
            units = (self.scores.names(side) or (side,) for side in range(len(sides)))
            name = self.scores.data.name
            drawn_by = [generator(self.seed, name, "people", *unit) for unit in units]
        for rows in portions(RESAMPLES, count):
            drawn = np.zeros((rows.stop - rows.start, count))
            for own, of_side in zip(sides, drawn_by, strict=True):
                drawn[:, own] = of_side.standard_normal((len(drawn), len(own)))
            yield drawn

    def _people_draws(self) -> Draws:
        """G² in every draw of the names that all prompts share, templates as they are."""
        if self.people.pair is not None:  # of each cluster's own people, its spread tells
            return np.full(RESAMPLES, self.squared)
        observed, gram = float(self.observed.mean()), self._gram
        if gram.trace() <= 1e-15 * observed:
            return np.full(RESAMPLES, self.squared)
        rng = generator(self.seed, self.scores.data.name, "people")
        toward, sides = self._by_block[1] / np.sqrt(self.items * observed), self.people.sides
        of_sides, lengths = [], []
        for multipliers in self._multipliers(rng):
            of_sides.append([multipliers[:, own] @ toward[own] for own in sides])
            lengths.append(((multipliers @ gram) * multipliers).sum(axis=1))
        along, across = self._noise()
        naive = float(toward @ toward)
        unit = np.sqrt(along / naive) if naive > 0 else 0.0
        s, s_naive, total, uncertainty = np.zeros(RESAMPLES), np.zeros(RESAMPLES), 0.0, 0.0
        for own, part in zip(sides, np.concatenate(of_sides, axis=1), strict=True):
            s_naive += part
            few = len(own) - len(self.people.blocks)
            s += unit * part * np.sqrt(few / rng.chisquare(few, RESAMPLES))
            trace = float(gram[np.ix_(own, own)].trace())
            _, within = squares(gram[np.ix_(own, own)], self.items)
            total, uncertainty = total + trace, uncertainty + within
        q = np.maximum(np.concatenate(lengths) - s_naive**2, 0.0)
        shrink = np.sqrt(min(across / float((gram**2).sum()), 1.0))
        q = np.maximum(q.mean() + shrink * (q - q.mean()), 0.0)
        freedom = total**2 / uncertainty
        q = q * freedom / rng.chisquare(freedom, RESAMPLES)
        return np.asarray(np.maximum(np.sqrt(np.maximum(observed - q, 0.0)) - s, 0.0) ** 2)

    def _paraphrase_draws(self) -> Draws:
        """What drawing the templates anew adds to G²; a single template cannot be drawn.

        Effects of templates are never below 0 and few of them are large, so that where there is an
        effect, draws below it are spread as its logarithm is, and those above it as its root.
        """
        weights = self.scores.template_weights(self.seed)
        count = weights.shape[1]
        if len(weights) == 1:
            return np.zeros(RESAMPLES)
        of_paraphrase = np.bincount(self.scores.template, self.by_item - self.squared, count)
        drawn = [(weights[1:][rows] - 1) @ of_paraphrase for rows in portions(RESAMPLES, count)]
        added = np.concatenate(drawn) / self.items
        # K templates drawn with replacement vary (K - 1)/K as much as K fresh ones, and their own
        # spread is known from few.
        rng = generator(self.seed, self.scores.data.name, "wordings")
        heavier = np.sqrt((count - 1) / rng.chisquare(count - 1, RESAMPLES))
        added *= np.sqrt(count / (count - 1))
        scale = max(self.squared, float(added.std()))
        if scale <= 0:
            return np.zeros(RESAMPLES)
        x = added * heavier / scale
        return np.asarray(scale * np.where(x < 0, np.expm1(np.minimum(x, 0.0)), x + x**2 / 4))

    @property
    def _is_crossed(self) -> bool:
        """Whether templates are crossed with contents."""
        return all(sample.frame for sample in self.scores.data.samples)

    @property
    def _draws_templates(self) -> bool:
        """Whether templates are drawn with the resamples of the other metrics.

        Logarithms need several templates, and people whose noise is taken off.
        """
        few = len(self.scores.data.templates) < MANY_TEMPLATES and self.people.pair is None
        return not self._is_crossed and (few or not self.has_spread)

    def _cluster_draws(self) -> Draws:
        """What drawing the clusters of prompts anew adds to G²; one cluster cannot be drawn."""
        cluster = self._cluster
        count = int(cluster.max()) + 1
        if count == 1:
            return np.zeros(RESAMPLES)
        sizes = np.bincount(cluster)
        m, g = (np.bincount(cluster, x) / sizes for x in (self.observed, self.by_item))
        mean = float(np.average(m, weights=sizes))
        if mean <= 0:
            return np.zeros(RESAMPLES)
        y = (np.log(np.maximum(m / mean, _LEAST_SHARE)) + m / mean) / 2
        rng = generator(self.seed, self.scores.data.name, "wordings")
        weights = rng.standard_normal((RESAMPLES, count))
        heavier = (count - 1) / rng.chisquare(count - 1, RESAMPLES)
        weights *= np.sqrt(heavier / (count * (count - 1)))[:, None]
        growth = weights @ (y - y.mean()) + y.var(ddof=1) * (heavier - 1) / 2
        v = m - g
        drawn = mean * np.expm1(np.minimum(growth, MOST_GROWTH)) - weights @ (v - v.mean())
        return np.asarray(drawn + np.sqrt(self._covariance) * rng.standard_normal(RESAMPLES))

    @cached_property
    def observed(self) -> Float64[np.ndarray, " item"]:
        return np.asarray(self.people.difference**2)

    @cached_property
    def _cluster(self) -> Int[np.ndarray, " item"]:
        """The content of each item; its template where there are no contents."""
        if not self._is_crossed:
            return self.scores.template
        samples = self.scores.data.samples
        return np.asarray(numbered([sample.content for sample in samples])[self.scores.sample])

    @property
    def _covariance(self) -> float:
        """Variance of G², nats⁴, from people and templates that several clusters share."""
        people, samples = self.people, self.scores.data.samples
        total = 0.0
        if people.person is not None:
            influence = 2 * people.residuals * people.difference / self.items
            block, row = people.places
            own = row < len(influence)  # of twins the first
            sums = np.add.reduceat(influence, people.starts, axis=1)[row[own], block[own]]
            total += _shared(sums, people.person[own])
        if self._is_crossed:
            off = np.bincount(self.scores.sample, self.by_item - self.squared) / self.items
            total += _shared(off, numbered([sample.frame for sample in samples]))
        return total


def _shared(influence: Float64[np.ndarray, " unit"], owner: Int[np.ndarray, " unit"]) -> float:
    """The covariances of units of one owner, summed; 0 where they are negative."""
    return max(float((np.bincount(owner, influence) ** 2).sum() - (influence**2).sum()), 0.0)
