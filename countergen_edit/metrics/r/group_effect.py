"""The group effect G: the difference of two groups beyond the differences within a group, nats.

Of an item (one output after one template) let d be the difference of the groups' mean
log-probabilities, and v its sampling variance over names. d² - v is an unbiased estimate of the
squared group difference; its mean over items, G², is the two-sample statistic of Chen and Qin
(Annals of Statistics 38, 2010).

The test permutes the groups among the names, in all permutations of up to eight names per group.
Where people are drawn anew for each prompt, it swaps two people at the same places of the lists.

The interval has two parts. Given G, the mean of d² over names that all prompts share is
(G + s)² + q, with s the noise along the group difference and q the noise across it, both drawn from
the residuals of names with Gaussian multipliers, s as Student's t, q with the degrees of freedom
that the residuals show. The mean d² of contents, or of templates without contents, is skewed: its
part is the generalised confidence interval for the mean of a log-normal distribution
(Krishnamoorthy and Mathew, Journal of Statistical Planning and Inference 115, 2003), less v, with
the mean of a content's logarithmic and linear influence, of which the first holds for few clusters
and the second for many. People and templates that come back in other clusters add their covariances
(Cameron, Gelbach and Miller, Journal of Business & Economic Statistics 29, 2011). Where it has no
useful upper bound (two to four templates without contents that share their names) or covers less
(changes of prompts about one person), templates are drawn with the resamples of the other metrics.

In simulations intervals covered 88 to 100 %, over names alone 94 to 99 % (88 to 90 % where a large
spread of names lies along G); without an effect the test rejected in 4.6 % (docs/findings.md).
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
"""The largest number of people per group that is searched."""
_LEAST_SHARE = 0.2
"""Least share of the mean that the d² of a cluster counts as in a logarithm."""
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


def squares(gram: Gram, items: int) -> tuple[float, float, float]:
    """tr V and tr V² of one group's part V of the noise, and half the variance of tr V.

    Unbiased for Gaussian residuals (Srivastava, Journal of the Japan Statistical Society 35, 2005):
    few residuals span few directions and overstate tr V².
    """
    few, trace, raw = gram.shape[0] - 1, float(gram.trace()), float((gram**2).sum())
    if trace <= 0:
        return trace, 0.0, 0.0
    unbiased = few**2 / ((few - 1) * (few + 2)) * (raw - trace**2 / few) if few > 1 else raw
    squares = float(np.clip(unbiased, trace**2 / items, trace**2))
    return trace, squares, squares / few


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

    def _rng(self, *unit: object) -> np.random.Generator:
        return generator(self.seed, self.scores.data.name, *unit)

    @property
    def has_spread(self) -> bool:
        """Whether every group has several names."""
        return self.people.fewest > 1

    @cached_property
    def _by_block(self) -> tuple[list[Float64[np.ndarray, "_ _"]], Float64[np.ndarray, " row"]]:
        """Products of the residuals of each block's people with each other, and with d."""
        people, grams, toward = self.people, [], []
        residuals, difference = people.residuals / np.sqrt(self.items), people.difference
        for rows, items in people.blocks:
            of_block = residuals[rows[rows < len(residuals)], items]  # of twins the first
            grams.append(of_block @ of_block.T)
            toward.append(of_block @ difference[items])
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
        """G², nats²: unbiased, so that it may be below 0."""
        return float(self.by_item.mean())

    @property
    def share(self) -> float | None:
        """Share of the squared difference between two people of the two groups that is G²."""
        if not self.has_spread:
            return None
        people, group = self.people, max(self.squared, 0.0)
        counts = people.counts[0] if people.twins else people.counts[people.side]
        within = float((people.residuals**2 * counts).sum(axis=0).mean())
        return group / (group + within) if group + within > 0 else None

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
            rng = self._rng("permutations", "pairs")
            sizes = (rows.stop - rows.start for rows in portions(self.permutations, count))
            drawn = (rng.choice([-1.0, 1.0], (size, count)) for size in sizes)
            signs = chain([np.ones((1, count))], drawn)
        gram = parts @ parts.T
        return np.concatenate([((deals @ gram) * deals).sum(axis=1) for deals in signs])

    def _permuted(self) -> Float64[np.ndarray, " deal"]:
        """Mean d² times a constant, first as it is, then of other groups among the names."""
        people, totals = self.people, np.zeros(1)
        exact = people.deals() <= EXACT
        for block, (rows, items) in enumerate(people.blocks):
            centred = people.log_p[rows, items]
            centred = centred - centred.mean(axis=0)
            rng = self._rng("permutations", block)
            drawn = None if exact else people.dealt(rows, rng, self.permutations)
            shares = people.every_deal(rows) if drawn is None else drawn
            values = ((shares @ (centred @ centred.T)) * shares).sum(axis=1)
            totals = np.add.outer(totals, values).ravel() if exact else totals + values
        return totals

    @cached_property
    def within_group_null(self) -> float | None:
        """Mean |R| of these names if their group made no difference, by permuted residuals."""
        people = self.people
        if not self.has_spread or (people.pair is None and len(people.blocks) > 1):
            return None
        side, counts = people.side, people.counts[people.side]
        log_p = (people.log_p - people.means[side]) * np.sqrt(counts / (counts - 1.0))
        p = np.exp(log_p - np.nanmax(log_p, axis=0))
        rng = self._rng("floor")
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

        By the power of a t-test in the direction in which names differ most. None for many names,
        or where no P is below the level.
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

        The part of noise in the measured difference is subtracted; where the effect is not above
        the noise, the largest variance of any direction counts.
        """
        grams, toward = self._by_block
        gram, sides = self._gram, self.people.sides
        across = sum((squares(gram[np.ix_(side, side)], self.items)[1] for side in sides), 0.0)
        crossed = (gram[np.ix_(*pair)] for pair in combinations(sides, 2))
        across += 2 * sum(float((block**2).sum()) for block in crossed)
        toward = toward / np.sqrt(self.items)
        length = float(self.observed.mean())
        naive = float(toward @ toward) / length if length > 0 else 0.0
        largest = max(naive, *(float(np.linalg.eigvalsh(block)[-1]) for block in grams))
        null = np.sqrt(2 * across)
        along = max(float(toward @ toward) - across, 0.0) + largest * null
        below = max(self.squared, 0.0) + null
        return float(np.clip(along / below if below > 0 else 0.0, naive, largest)), across

    def _multipliers(self, rng: np.random.Generator) -> Iterator[Float64[np.ndarray, "_ row"]]:
        """Gaussian draws of the people, with `together` from a generator for each list of names."""
        count = self._gram.shape[0]
        generators = [(np.arange(count), rng)]
        if self.together:
            names = (self.scores.names(k) or (k,) for k in range(len(self.people.sides)))
            by_side = (self._rng("people", *unit) for unit in names)
            generators = [*zip(self.people.sides, by_side, strict=True)]
        for rows in portions(RESAMPLES, count):
            drawn = np.zeros((rows.stop - rows.start, count))
            for side, of_side in generators:
                drawn[:, side] = of_side.standard_normal((len(drawn), len(side)))
            yield drawn

    def _people_draws(self) -> Draws:
        """G² in every draw of the names that all prompts share, templates as they are."""
        observed, gram = float(self.observed.mean()), self._gram
        # The spread of clusters holds that of people drawn anew for each.
        if self.people.pair is not None or gram.trace() <= 1e-15 * observed:
            return np.full(RESAMPLES, self.squared)
        rng = self._rng("people")
        toward, sides = self._by_block[1] / np.sqrt(self.items * observed), self.people.sides
        of_sides, lengths = [], []
        for multipliers in self._multipliers(rng):
            of_sides.append([multipliers[:, side] @ toward[side] for side in sides])
            lengths.append(((multipliers @ gram) * multipliers).sum(axis=1))
        along, across = self._noise()
        naive = float(toward @ toward)
        unit = np.sqrt(along / naive) if naive > 0 else 0.0
        s, s_naive = np.zeros((2, RESAMPLES))
        total = uncertainty = 0.0
        for side, part in zip(sides, np.concatenate(of_sides, axis=1), strict=True):
            s_naive += part
            few = len(side) - len(self.people.blocks)
            s += unit * part * np.sqrt(few / rng.chisquare(few, RESAMPLES))
            trace, _, uncertain = squares(gram[np.ix_(side, side)], self.items)
            total += trace
            uncertainty += uncertain
        q = np.maximum(np.concatenate(lengths) - s_naive**2, 0.0)
        shrink = np.sqrt(min(across / float((gram**2).sum()), 1.0))
        q = np.maximum(q.mean() + shrink * (q - q.mean()), 0.0)
        freedom = total**2 / uncertainty
        q = q * freedom / rng.chisquare(freedom, RESAMPLES)
        return np.asarray(np.maximum(np.sqrt(np.maximum(observed - q, 0.0)) - s, 0.0) ** 2)

    def _paraphrase_draws(self) -> Draws:
        """The change of G² when templates are drawn anew; a single template cannot be drawn.

        Effects of templates are at least 0 and few are large: draws below an effect are spread as
        its logarithm, those above it as its root.
        """
        weights = self.scores.template_weights(self.seed)
        count = weights.shape[1]
        if len(weights) == 1:
            return np.zeros(RESAMPLES)
        of_paraphrase = np.bincount(self.scores.template, self.by_item - self.squared, count)
        drawn = [(weights[1:][rows] - 1) @ of_paraphrase for rows in portions(RESAMPLES, count)]
        added = np.concatenate(drawn) / self.items
        # K templates drawn with replacement vary (K - 1)/K as much; their spread is known from few.
        rng = self._rng("wordings")
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
        """Whether templates are too few for logarithms, or have no people whose noise is known."""
        few = len(self.scores.data.templates) < MANY_TEMPLATES and self.people.pair is None
        return not self._is_crossed and (few or not self.has_spread)

    def _cluster_draws(self) -> Draws:
        """The change of G² when clusters of prompts are drawn anew; one cluster cannot be drawn."""
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
        rng = self._rng("wordings")
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
        """The content of each item; its template without contents."""
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
            first = row < len(influence)  # of twins the first
            sums = np.add.reduceat(influence, people.starts, axis=1)[row[first], block[first]]
            total += _shared(sums, people.person[first])
        if self._is_crossed:
            off = np.bincount(self.scores.sample, self.by_item - self.squared) / self.items
            total += _shared(off, numbered([sample.frame for sample in samples]))
        return total


def _shared(influence: Float64[np.ndarray, " unit"], owner: Int[np.ndarray, " unit"]) -> float:
    """The covariances of units of one owner, summed; 0 where they are negative."""
    return max(float((np.bincount(owner, influence) ** 2).sum() - (influence**2).sum()), 0.0)
