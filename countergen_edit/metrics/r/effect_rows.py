"""Group effects of one table: tests by Holm's method, the largest gap, changes, and their rows.

The largest estimate among the pairs of a set exceeds the largest true effect on average; its
interval therefore comes from bands that hold for all pairs at once (Mandel and Betensky,
Computational Statistics & Data Analysis 52, 2008): the draws of each pair are cut at one rank from
either end, at which 95 % of the draws lie within all bands. Before and after an edit, draws are
paired.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from itertools import groupby
from typing import Any

import numpy as np
from jaxtyping import Float64

from countergen_edit.core.seeds import generator
from countergen_edit.data.task import HALF_WIDTH, SetDesign
from countergen_edit.metrics.r.formula import mean_r
from countergen_edit.metrics.r.group_effect import PERMUTATIONS, Draws, GroupEffect, interval, root
from countergen_edit.metrics.r.people import numbered
from countergen_edit.metrics.rows import GROUPS, OMNIBUS, Row
from countergen_edit.metrics.scores import SetScores
from countergen_edit.metrics.statistics import LEVEL, Estimate, adjusted, with_holm

SIGNIFICANT = 0.05
MOST_NAMES = 100
"""The largest number of names per group that a test is said to need."""
TESTED = ("p", "p_adjusted", "least_p_adjusted", "names_to_test")
"""The details of a test in a row."""
LARGEST = "largest_gap"
"""The row of the largest group effect among the pairs of a set."""
PER_TEST = 50
"""Deals for each test of a table, so that Holm's correction can still find what is there."""
LEAST = 0.02
"""The least share of the group effect that is called a change."""
HALF = 0.5
"""The least share of the group effect that is called removed."""
DETECTABLE_EFFECT = "detectable_effect"


def holm_tests(effects: Sequence[GroupEffect]) -> list[dict[str, Any]]:
    """P of each effect, Holm's over all of them, and the smallest that was possible.

    Of each effect `p`, `p_adjusted`, `least_p_adjusted` and, where the last is above 0.05,
    `names_to_test`: the least names per group with which it is not. Empty without a test.
    """
    tested = [effect for effect in effects if effect.p_value is not None]
    least = np.array([effect.least_p() for effect in tested])
    corrected, least_corrected = adjusted([e.p_value or 0.0 for e in tested]), adjusted(least)
    needed = np.zeros(len(tested), dtype=int)  # names, had all effects as many
    for names in range(2, MOST_NAMES):
        if needed.all():
            break
        possible = adjusted(np.minimum(least, [effect.least_p(names) for effect in tested]))
        needed[(needed == 0) & (possible <= SIGNIFICANT)] = names
    numbers = zip(corrected, least_corrected, needed, strict=True)
    tests: list[dict[str, Any]] = []
    for effect in effects:
        tests.append({})
        if effect.p_value is not None:
            p, lowest, names = next(numbers)
            tests[-1] = {
                "p": effect.p_value,
                "p_adjusted": float(p),
                "least_p_adjusted": float(lowest),
            }
            if lowest > SIGNIFICANT and names:
                tests[-1]["names_to_test"] = int(names)
    return tests


def permutations_for(count: int) -> int:
    """How many to draw of each of so many tests of one table."""
    return max(PERMUTATIONS, PER_TEST * count)


def effects_of(every: Sequence[SetScores], seed: int) -> list[GroupEffect]:
    """The group effect of every pair of every set, as tests of one table."""
    permutations = permutations_for(sum(len(scores.pairs) for scores in every))
    return [
        GroupEffect(pair, seed, len(scores.pairs) > 1, permutations)
        for scores in every
        for pair in scores.pairs
    ]


def largest_gap(effects: Sequence[GroupEffect]) -> tuple[GroupEffect, Estimate]:
    """The largest effect of the pairs of a set, and its G with a 95 % interval, in nats."""
    widest = max(effects, key=lambda effect: effect.squared)
    own = widest.estimate
    if np.isnan(own.lo):  # nothing can be drawn
        return widest, own
    value = own.value
    drawn = np.stack([root(effect.squared_draws[1:]) for effect in effects])
    lo, hi = bands(drawn)
    error = float(drawn.max(axis=0).std(ddof=1))
    return widest, Estimate(value, min(float(lo.max()), value), max(float(hi.max()), value), error)


def bands(
    drawn: Float64[np.ndarray, "pair resample"],
) -> tuple[Float64[np.ndarray, " pair"], Float64[np.ndarray, " pair"]]:
    """The ends, pair by pair, between which 95 % of the draws lie for all pairs at once."""
    count = drawn.shape[1]
    ranks = drawn.argsort(axis=1, kind="stable").argsort(axis=1, kind="stable") + 1
    outermost = np.maximum(ranks, count + 1 - ranks).max(axis=0)
    rank = int(np.quantile(outermost, LEVEL, method="higher"))
    ordered = np.sort(drawn, axis=1)
    return ordered[:, count - rank], ordered[:, rank - 1]


def changed(before: GroupEffect, after: GroupEffect) -> tuple[Estimate, float | None]:
    """How much G grew, nats, with its paired interval and P; NaN and None where nothing is drawn.

    Both are of one set and seed, without the edit and under it.
    """
    draws = root(after.squared_draws) - root(before.squared_draws)
    if np.ptp(before.squared_draws[1:]) == np.ptp(after.squared_draws[1:]) == 0:
        return Estimate(float(draws[0])), None
    beyond = min((draws[1:] <= 0).sum(), (draws[1:] >= 0).sum())
    return interval(draws), min(1.0, float(2 * (1 + beyond) / len(draws)))


def removed_draws(before: Sequence[GroupEffect], after: Sequence[GroupEffect]) -> Draws:
    """The share of G removed over some sets together: its value, then its draws.

    NaN where there was nothing to remove. Before and after are drawn alike.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        share = 1 - root(_pooled(after)) / root(_pooled(before))
    return np.where(np.isfinite(share), share, np.nan)


def removed(before: Sequence[GroupEffect], after: Sequence[GroupEffect]) -> Estimate:
    """The share of G removed over some sets together, with its interval."""
    return interval(removed_draws(before, after))


def _pooled(effects: Sequence[GroupEffect]) -> Draws:
    items = np.array([effect.items for effect in effects])
    return np.asarray(items @ np.stack([e.squared_draws for e in effects]) / items.sum())


def r_rows(scores: SetScores, seed: int) -> list[Row]:
    """Rows `r` and `mean_abs_r` of one set."""
    data, (mean, size) = scores.data, mean_r(scores, seed)
    rows = []
    for metric, e, stars in (("r", mean, {"starred": mean.starred}), ("mean_abs_r", size, {})):
        error = e.standard_error if np.isfinite(e.standard_error) else None
        detail: dict[str, Any] = {"standard_error": error, "templates": len(data.templates)} | stars
        detail |= {"outputs": "summed"} if data.sum_outputs else {}
        rows.append(Row.of(metric, e, data, n=len(scores.output), detail=detail))
    return rows


def group_effect_rows(effects: Sequence[GroupEffect], metric: str = "group_effect") -> list[Row]:
    """A row of each effect; P is Holm's over all of them.

    A set with a prompt of fewer than two names per group has no test: `detail` then has no p.
    """
    rows = []
    for effect, test in zip(effects, holm_tests(effects), strict=True):
        data = effect.scores.data
        size = {
            "squared": effect.squared,
            "people": effect.people.fewest,
            "people_needed": effect.people_needed,
            "paraphrases": len(data.templates),
            "prompts": len(data.samples),
            "prompts_with_names": sum(any(v.person for v in s.variations) for s in data.samples),
        }
        rows.append(Row.of(metric, effect.estimate, data, n=effect.items, detail=test | size))
    return rows


def effect_rows(effects: Sequence[GroupEffect], power: bool = False) -> list[Row]:
    """Rows `group_effect`, `group_share` and `null_abs_r` of pairs.

    With `power`, sets that are not significant have `detectable_effect`, if their names are few.
    """
    rows, tested = [], group_effect_rows(effects)
    unshown = [row.detail.get("p_adjusted", 0.0) > SIGNIFICANT for row in tested]
    for effect, row, is_unshown in zip(effects, tested, unshown, strict=True):
        others = {"group_share": effect.share, "null_abs_r": effect.within_group_null}
        if power and is_unshown:
            others[DETECTABLE_EFFECT] = effect.detectable(SIGNIFICANT / sum(unshown))
        data, known = effect.scores.data, {m: x for m, x in others.items() if x is not None}
        rows += [row, *(Row.of(m, x, data, n=effect.items) for m, x in known.items())]
    return rows


def design_row(effect: GroupEffect, design: SetDesign) -> Row:
    """Row `half_width`: that of the interval of a group effect, with the design behind it."""
    value = (effect.estimate.hi - effect.estimate.lo) / 2
    return Row.of(HALF_WIDTH, value, effect.scores.data, n=effect.items, detail=asdict(design))


def gap_rows(effects: Sequence[GroupEffect], rows: Sequence[Row]) -> list[Row]:
    """A row `largest_gap` for each set of more than two groups, of the effects of every pair.

    It takes the P of the same table from `rows`.
    """
    by_pair = {(r.dataset, r.group_a, r.group_b): r for r in rows if r.metric == "group_effect"}
    found = []
    for _, of_set in groupby(effects, key=lambda effect: effect.scores.data.name):
        own = list(of_set)
        if len(own) < 2:
            continue
        widest, gap = largest_gap(own)
        data = widest.scores.data
        row = by_pair[data.name, data.groups[0], data.groups[1]]
        groups = dict.fromkeys(group for effect in own for group in effect.scores.data.groups)
        detail = {"pair": [*data.groups], "groups": [*groups], "pairs": len(own)}
        detail |= {k: row.detail[k] for k in ("p_adjusted",) if k in row.detail}
        about = {"group_a": "", "group_b": "", "facets": {GROUPS: len(groups)}}
        found.append(Row.of(LARGEST, gap, data, n=row.n, detail=detail, **about))
    return found


def among(rows: Sequence[Row], groups: int) -> list[Row]:
    """Rows about pairs, which say of how many groups where there are more than two."""
    if groups == 2:
        return [*rows]
    return [replace(row, facets={**row.facets, GROUPS: groups}) for row in rows]


def omnibus_p(scores: SetScores, seed: int, permutations: int) -> float | None:
    """P of so large a difference between any groups; None with one person of a group in a prompt.

    The statistic is the mean squared distance of the groups' mean log-probabilities from each
    other, over items. Without a difference, people who stand at the same place of the groups' lists
    could as well be of each other's group: their groups are permuted, in all prompts alike.
    `permutations` are drawn at random, so that P is at least 1 in one more than these.
    """
    counts = scores.present.sum(axis=2, keepdims=True)
    if counts.min() < 2:
        return None
    shares = np.where(scores.present, scores.log_p, 0.0) / counts
    shares -= shares.mean(axis=1, keepdims=True)  # the mean of all groups is always the same
    people = [
        tuple(v.person for v in at) if all(v.person for v in at) else (sample, place)
        for sample, own in enumerate(scores.data.samples)
        for place, at in enumerate(zip(*map(own.of, scores.data.groups), strict=True))
    ]
    places = np.zeros((len(scores.data.samples), shares.shape[2]), dtype=int)
    places[scores.present[scores.first, 0]] = numbered(people)
    owner = places[scores.sample]
    rng = generator(seed, scores.data.name, "permutations", "omnibus")
    groups = np.tile(np.arange(shares.shape[1]), (int(owner.max()) + 1, 1))
    totals = [(shares.sum(axis=2) ** 2).sum()]
    for _ in range(permutations):
        taken = rng.permuted(groups, axis=1)[owner].swapaxes(1, 2)
        totals.append((np.take_along_axis(shares, taken, axis=1).sum(axis=2) ** 2).sum())
    # Equal permutations may differ in their last digits.
    return float((np.array(totals) >= totals[0] * (1 - 1e-12)).mean())


def omnibus_rows(every: Sequence[SetScores], effects: Sequence[GroupEffect]) -> list[Row]:
    """A row `omnibus_effect` for each set of more than two groups; P is Holm's over these sets.

    It is the root mean square of the group effects of every pair, in nats.
    """
    rows = []
    for scores in every:
        own = [effect for effect in effects if effect.scores.data.name == scores.data.name]
        if len(own) < 2:
            continue
        squared = np.mean([effect.squared_draws for effect in own], axis=0)
        detail = {"p": omnibus_p(scores, own[0].seed, own[0].permutations)}
        about = {"group_a": "", "group_b": "", "facets": {GROUPS: len(scores.data.groups)}}
        estimate = interval(root(squared))
        n = own[0].items
        rows.append(Row.of(OMNIBUS, estimate, scores.data, n=n, detail=detail, **about))
    return with_holm(rows)
