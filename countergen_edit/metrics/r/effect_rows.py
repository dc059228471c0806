"""The rows of `r`: R and mean |R| of a set, the group effect of every pair, the largest gap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from itertools import groupby

import numpy as np

from countergen_edit.data.design import HALF_WIDTH, SetDesign
from countergen_edit.metrics.r.formula import mean_r
from countergen_edit.metrics.r.group_effect import GroupEffect
from countergen_edit.metrics.r.holm import SIGNIFICANT, holm_tests
from countergen_edit.metrics.r.largest_gap import LARGEST, largest_gap
from countergen_edit.metrics.rows import GROUPS, Row
from countergen_edit.metrics.scores import SetScores

DETECTABLE = "detectable_effect"


def r_rows(scores: SetScores, seed: int) -> list[Row]:
    """Rows `r` and `mean_abs_r` of one set."""
    data, rows = scores.data, []
    for metric, e in zip(("r", "mean_abs_r"), mean_r(scores, seed), strict=True):
        error = e.standard_error if np.isfinite(e.standard_error) else None
        detail = {"standard_error": error, "templates": len(data.templates)}
        if metric == "r":
            detail["starred"] = e.starred
        rows.append(Row.of_set(data, metric, e, n=len(scores.output), seed=seed, detail=detail))
    return rows


def effect_rows(effects: Sequence[GroupEffect], power: bool = False) -> list[Row]:
    """Rows `group_effect`, `group_share` and `null_abs_r` of pairs; P is Holm's over all of them.

    A set with a prompt of fewer than two names per group has no test: `detail` then has no p. With
    `power`, sets that are not significant have a row `detectable_effect`, if their names are few.
    """
    rows, tests = [], holm_tests(effects)
    unshown = sum(test.get("p_adjusted", 0.0) > SIGNIFICANT for test in tests)
    for effect, test in zip(effects, tests, strict=True):
        data, columns = effect.scores.data, {"n": effect.items, "seed": effect.seed}
        size = {
            "squared": effect.squared,
            "people": effect.people.fewest,
            "people_needed": effect.people_needed,
            "paraphrases": len(data.templates),
            "prompts": len(data.samples),
            "prompts_with_names": sum(any(v.person for v in s.variations) for s in data.samples),
        }
        rows.append(
            Row.of_set(data, "group_effect", effect.estimate, detail=test | size, **columns)
        )
        others = {"group_share": effect.share, "null_abs_r": effect.within_group_null}
        if power and test.get("p_adjusted", 0.0) > SIGNIFICANT:
            others[DETECTABLE] = effect.detectable(SIGNIFICANT / unshown)
        rows += [Row.of_set(data, m, x, **columns) for m, x in others.items() if x is not None]
    return rows


def design_row(effect: GroupEffect, design: SetDesign) -> Row:
    """Row `half_width`: that of the interval of a group effect, with the design behind it."""
    estimate, data = effect.estimate, effect.scores.data
    value = (estimate.hi - estimate.lo) / 2
    return Row.of_set(
        data, HALF_WIDTH, value, n=effect.items, seed=effect.seed, detail=asdict(design)
    )


def gap_rows(effects: Sequence[GroupEffect], rows: Sequence[Row]) -> list[Row]:
    """A row `largest_gap` for each set of more than two groups.

    Args:
        effects: of every pair of some sets, set by set.
        rows: their `group_effect`, whose P of the same table it takes.
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
        if "p_adjusted" in row.detail:
            detail["p_adjusted"] = row.detail["p_adjusted"]
        about = {"group_a": "", "group_b": "", "facets": {GROUPS: len(groups)}}
        found.append(Row.of_set(data, LARGEST, gap, n=row.n, seed=row.seed, detail=detail, **about))
    return found


def among(rows: Sequence[Row], groups: int) -> list[Row]:
    """Rows about pairs, which say of how many groups where there are more than two."""
    if groups == 2:
        return [*rows]
    return [replace(row, facets={**row.facets, GROUPS: groups}) for row in rows]
