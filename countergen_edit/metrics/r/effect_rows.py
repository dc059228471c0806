"""The rows of `r`: R and mean |R| of a set, the group effect of every pair, the largest gap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

import numpy as np

from countergen_edit.metrics.r.formula import mean_r
from countergen_edit.metrics.r.group_effect import GroupEffect
from countergen_edit.metrics.r.holm import holm_tests
from countergen_edit.metrics.r.largest_gap import LARGEST, LargestGap
from countergen_edit.metrics.rows import GROUPS, Row
from countergen_edit.metrics.scores import SetScores


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


def effect_rows(effects: Sequence[GroupEffect]) -> list[Row]:
    """Rows `group_effect`, `group_share` and `null_abs_r` of pairs; P is Holm's over all of them.

    A set with a prompt of fewer than two names per group has no test: `detail` then has no p.
    """
    rows = []
    for effect, test in zip(effects, holm_tests(effects), strict=True):
        data, columns = effect.scores.data, {"n": effect.items, "seed": effect.seed}
        size = {
            "squared": effect.squared,
            "people": effect.people.fewest,
            "people_needed": effect.people_needed,
            "paraphrases": len(data.templates),
            "prompts": len(data.samples),
            "prompts_with_names": sum(any(v.name for v in s.variations) for s in data.samples),
        }
        rows.append(
            Row.of_set(data, "group_effect", effect.estimate, detail=test | size, **columns)
        )
        for metric, value in (
            ("group_share", effect.share),
            ("null_abs_r", effect.within_group_null),
        ):
            if value is not None:
                rows.append(Row.of_set(data, metric, value, **columns))
    return rows


def gap_rows(effects: Sequence[GroupEffect], rows: Sequence[Row]) -> list[Row]:
    """A row `largest_gap` for each set of more than two groups.

    Args:
        effects: of every pair of some sets, set by set.
        rows: their `group_effect`, whose P of the same table it takes.
    """
    by_pair = {(r.dataset, r.group_a, r.group_b): r for r in rows if r.metric == "group_effect"}
    found = []
    for _, own in groupby(effects, key=lambda effect: effect.scores.data.name):
        gap = LargestGap([*own])
        if len(gap.effects) < 2:
            continue
        data = gap.widest.scores.data
        row = by_pair[data.name, data.groups[0], data.groups[1]]
        groups = dict.fromkeys(g for effect in gap.effects for g in effect.scores.data.groups)
        test = {key: row.detail[key] for key in ("p_adjusted",) if key in row.detail}
        about = {"pair": [*data.groups], "groups": [*groups], "pairs": len(gap.effects)}
        found.append(
            replace(
                Row.of_set(data, LARGEST, gap.estimate, n=row.n, seed=row.seed),
                group_a="",
                group_b="",
                facets={GROUPS: len(groups)},
                detail=about | test,
            )
        )
    return found


def among(rows: Sequence[Row], groups: int) -> list[Row]:
    """Rows about pairs, which say of how many groups where there are more than two."""
    if groups == 2:
        return [*rows]
    return [replace(row, facets={**row.facets, GROUPS: groups}) for row in rows]
