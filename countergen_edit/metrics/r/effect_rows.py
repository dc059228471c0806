"""Group effects of one table: tests by Holm's method, the largest gap, changes, and their rows.

The largest estimate among the pairs of a set exceeds the largest true effect on average; its
interval therefore comes from bands that hold for all pairs at once (Mandel and Betensky,
Computational Statistics & Data Analysis 52, 2008): the draws of each pair are cut at one rank from
either end, at which 95 % of the draws lie within all bands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import compress
from typing import Any

import numpy as np
from jaxtyping import Float64

from countergen_edit.core.seeds import generator
from countergen_edit.data.counterfactual import CounterfactualSet
from countergen_edit.metrics.r.formula import mean_r
from countergen_edit.metrics.r.group_effect import PERMUTATIONS, Draws, GroupEffect, interval, root
from countergen_edit.metrics.r.people import numbered
from countergen_edit.metrics.rows import GROUPS, OMNIBUS, Row, with_holm
from countergen_edit.metrics.scores import SetScores
from countergen_edit.metrics.statistics import LEVEL, Estimate, adjusted, finite

SIGNIFICANT = 0.05
MOST_NAMES = 100
"""The largest number of names per group that is named as needed for a test."""
TESTED = ("p", "p_adjusted", "least_p_adjusted", "names_to_test")
"""The details of a test in a row."""
GROUP_EFFECT = "group_effect"
LARGEST = "largest_gap"
"""The row of the largest group effect among the pairs of a set."""
OFF_TARGET_CHANGE = "off_target_change"
PER_TEST = 50
"""Deals for each test of a table, so that Holm's correction can still find an effect."""
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
    p = [effect.p_value or 0.0 for effect in tested]
    least = np.array([effect.least_p() for effect in tested])
    least_adjusted = adjusted(least)
    columns = zip(p, adjusted(p).tolist(), least_adjusted.tolist(), strict=True)
    tests: list[dict[str, Any]] = [dict(zip(TESTED, test, strict=False)) for test in columns]
    lacking = least_adjusted > SIGNIFICANT
    for names in range(2, MOST_NAMES):  # names, had all effects as many
        if not lacking.any():
            break
        possible = adjusted(np.minimum(least, [effect.least_p(names) for effect in tested]))
        for test in compress(tests, lacking & (possible <= SIGNIFICANT)):
            test["names_to_test"] = names
        lacking &= possible > SIGNIFICANT
    remaining = iter(tests)
    return [{} if effect.p_value is None else next(remaining) for effect in effects]


def permutations_for(count: int) -> int:
    """The number of permutations of each of so many tests of one table."""
    return max(PERMUTATIONS, PER_TEST * count)


def effects_of(sets: Sequence[SetScores], seed: int) -> list[GroupEffect]:
    """The group effect of every pair of every set, as tests of one table."""
    permutations = permutations_for(sum(len(scores.pairs) for scores in sets))
    return [
        GroupEffect(pair, seed, len(scores.pairs) > 1, permutations)
        for scores in sets
        for pair in scores.pairs
    ]


def largest_gap(effects: Sequence[GroupEffect]) -> tuple[GroupEffect, Estimate]:
    """The largest effect of the pairs of a set, and its G with a 95 % interval, in nats."""
    widest = max(effects, key=lambda effect: effect.squared)
    gap = widest.estimate
    if np.isnan(gap.lo):  # nothing can be drawn
        return widest, gap
    drawn = np.stack([root(effect.squared_draws[1:]) for effect in effects])
    lo, hi = (float(ends.max()) for ends in bands(drawn))
    error = float(drawn.max(axis=0).std(ddof=1))
    return widest, Estimate(gap.value, min(lo, gap.value), max(hi, gap.value), error)


def bands(drawn: Float64[np.ndarray, "pair resample"]) -> Float64[np.ndarray, "2 pair"]:
    """The ends, pair by pair, between which 95 % of the draws lie for all pairs at once."""
    count = drawn.shape[1]
    ranks = drawn.argsort(axis=1, kind="stable").argsort(axis=1, kind="stable") + 1
    outermost = np.maximum(ranks, count + 1 - ranks).max(axis=0)
    rank = int(np.quantile(outermost, LEVEL, method="higher"))
    return np.sort(drawn, axis=1).T[[count - rank, rank - 1]]


def changed(before: GroupEffect, after: GroupEffect) -> tuple[Estimate, float | None]:
    """The growth of G on a set, nats, with paired interval and P; NaN and None without draws."""
    draws = root(after.squared_draws) - root(before.squared_draws)
    if np.ptp(before.squared_draws[1:]) == np.ptp(after.squared_draws[1:]) == 0:
        return Estimate(float(draws[0])), None
    beyond = min((draws[1:] <= 0).sum(), (draws[1:] >= 0).sum())
    return interval(draws), min(1.0, float(2 * (1 + beyond) / len(draws)))


def removed_draws(before: Sequence[GroupEffect], after: Sequence[GroupEffect]) -> Draws:
    """The share of G removed over sets together, then its draws; NaN where G was 0."""
    squared = []
    for effects in (before, after):
        items = np.array([effect.items for effect in effects])
        drawn = items @ np.stack([effect.squared_draws for effect in effects])
        squared.append(drawn / items.sum())
    with np.errstate(divide="ignore", invalid="ignore"):
        share = 1 - root(squared[1]) / root(squared[0])
    return np.where(np.isfinite(share), share, np.nan)


def removed(before: Sequence[GroupEffect], after: Sequence[GroupEffect]) -> Estimate:
    """The share of G removed over sets together, with its interval."""
    return interval(removed_draws(before, after))


def r_rows(scores: SetScores, seed: int) -> list[Row]:
    """Rows `r` and `mean_abs_r` of one set."""
    data, (mean, size) = scores.data, mean_r(scores, seed)
    rows = []
    for metric, e, stars in (("r", mean, {"starred": mean.starred}), ("mean_abs_r", size, {})):
        detail = {"standard_error": finite(e.standard_error), "templates": len(data.templates)}
        summed = {"outputs": "summed"} if data.sum_outputs else {}
        rows.append(Row.of(metric, e, data, n=len(scores.output), detail=detail | stars | summed))
    return rows


def group_effect_rows(effects: Sequence[GroupEffect], metric: str = GROUP_EFFECT) -> list[Row]:
    """A row of each effect; P is Holm's, and missing without two names per group."""
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
    rows = []
    tested = group_effect_rows(effects)
    unshown = [row.detail.get("p_adjusted", 0.0) > SIGNIFICANT for row in tested]
    for effect, row, is_unshown in zip(effects, tested, unshown, strict=True):
        rows.append(row)
        values = {"group_share": effect.share, "null_abs_r": effect.within_group_null}
        if power and is_unshown:
            values[DETECTABLE_EFFECT] = effect.detectable(SIGNIFICANT / sum(unshown))
        for metric, value in values.items():
            if value is not None:
                rows.append(Row.of(metric, value, effect.scores.data, n=effect.items))
    return rows


def change_rows(before: Sequence[GroupEffect], after: Sequence[GroupEffect]) -> list[Row]:
    """A row `off_target_change` for each set; its P is Holm's over them."""
    rows = []
    for was, now in zip(before, after, strict=True):
        rise, p = changed(was, now)
        rows.append(Row.of(OFF_TARGET_CHANGE, rise, now.scores.data, n=now.items, detail={"p": p}))
    return with_holm(rows)


def among(rows: Sequence[Row], sets: Sequence[CounterfactualSet]) -> list[Row]:
    """Rows about pairs, with the number of groups of their set where these are several."""
    several = {data.name: {GROUPS: len(data.groups)} for data in sets if len(data.groups) > 2}
    return [replace(row, facets=row.facets | several.get(row.dataset, {})) for row in rows]


def omnibus_p(scores: SetScores, seed: int, permutations: int) -> float | None:
    """P of so large a difference between any groups; None with one person of a group in a prompt.

    The statistic is the mean squared distance between the groups' mean log-probabilities over
    items. The groups of people at the same place of the lists are permuted, in all prompts alike.
    """
    counts = scores.present.sum(axis=2, keepdims=True)
    if counts.min() < 2:
        return None
    shares = np.where(scores.present, scores.log_p, 0.0) / counts
    shares -= shares.mean(axis=1, keepdims=True)  # the mean of all groups is always the same
    people = [
        tuple(v.person for v in at) if all(v.person for v in at) else (number, place)
        for number, sample in enumerate(scores.data.samples)
        for place, at in enumerate(zip(*map(sample.of, scores.data.groups), strict=True))
    ]
    places = np.zeros((len(scores.data.samples), shares.shape[2]), dtype=int)
    places[scores.present[scores.first, 0]] = numbered(people)
    owner = places[scores.sample]
    rng = generator(seed, scores.data.name, "permutations", "omnibus")
    groups = np.tile(np.arange(shares.shape[1]), (int(owner.max()) + 1, 1))
    totals = [(shares.sum(axis=2) ** 2).sum()]
    for _ in range(permutations):
        permuted = rng.permuted(groups, axis=1)[owner].swapaxes(1, 2)
        totals.append((np.take_along_axis(shares, permuted, axis=1).sum(axis=2) ** 2).sum())
    # Equal permutations may differ in their last digits.
    return float((np.array(totals) >= totals[0] * (1 - 1e-12)).mean())


def rows_of_all_groups(
    sets: Sequence[SetScores], effects: Sequence[GroupEffect], rows: Sequence[Row]
) -> list[Row]:
    """Rows `largest_gap` and `omnibus_effect` of each set of more than two groups.

    The P of the largest gap is that of its pair in `rows` of `effects`. The omnibus effect is the
    root mean square over pairs, in nats; its P is Holm's over sets.
    """
    tests = {(r.dataset, r.group_a, r.group_b): r.detail for r in rows if r.metric == GROUP_EFFECT}
    gaps, omnibus = [], []
    for scores in sets:
        data = scores.data
        pairs = [effect for effect in effects if effect.scores.data.name == data.name]
        if len(pairs) < 2:
            continue
        of_all = {"group_a": "", "group_b": "", "facets": {GROUPS: len(data.groups)}}
        n = pairs[0].items
        widest, gap = largest_gap(pairs)
        a, b = widest.scores.data.groups
        detail = {"pair": [a, b], "groups": [*data.groups], "pairs": len(pairs)}
        detail |= {k: v for k, v in tests[data.name, a, b].items() if k == "p_adjusted"}
        gaps.append(Row.of(LARGEST, gap, data, n=n, detail=detail, **of_all))
        p = omnibus_p(scores, pairs[0].seed, pairs[0].permutations)
        pooled = interval(root(np.mean([effect.squared_draws for effect in pairs], axis=0)))
        omnibus.append(Row.of(OMNIBUS, pooled, data, n=n, detail={"p": p}, **of_all))
    return [*gaps, *with_holm(omnibus)]
