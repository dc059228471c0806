"""A group effect before and after an edit: how much of it is gone, and how much it changed.

Comes in: effects of the same sets and seed, without and with an edit, whose draws are paired. Goes
out: estimates with their intervals.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from countergen_edit.metrics.r.draws import Draws, interval, root
from countergen_edit.metrics.r.group_effect import GroupEffect
from countergen_edit.metrics.statistics import Estimate

LEAST = 0.02
"""Share of the group effect that must come or go to be called a change."""
HALF = 0.5
"""Share of the group effect that must be gone for it to be called removed."""


def changed(before: GroupEffect, after: GroupEffect) -> tuple[Estimate, float | None]:
    """How much G grew, nats, with its paired interval and P; NaN and None where nothing is drawn.

    Args:
        before: of a set, without the edit.
        after: of the same set and seed, under it.
    """
    draws = root(after.squared_draws) - root(before.squared_draws)
    value, drawn = float(draws[0]), draws[1:]
    if np.ptp(before.squared_draws[1:]) == np.ptp(after.squared_draws[1:]) == 0:
        return Estimate(value, *[float("nan")] * 3), None
    beyond = min((drawn <= 0).sum(), (drawn >= 0).sum())
    return interval(value, drawn), min(1.0, float(2 * (1 + beyond) / (1 + len(drawn))))


def removed_draws(before: Sequence[GroupEffect], after: Sequence[GroupEffect]) -> Draws:
    """Share of G that is gone over the items of some sets together; first the value, then draws.

    NaN where there was nothing to remove. Before and after are drawn alike.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        share = 1 - root(_pooled(after)) / root(_pooled(before))
    return np.where(np.isfinite(share), share, np.nan)


def removed(before: Sequence[GroupEffect], after: Sequence[GroupEffect]) -> Estimate:
    """Share of G that is gone over the items of some sets together, with its interval."""
    draws = removed_draws(before, after)
    return interval(float(draws[0]), draws[1:])


def _pooled(effects: Sequence[GroupEffect]) -> Draws:
    items = np.array([effect.items for effect in effects])
    return np.asarray(items @ np.stack([e.squared_draws for e in effects]) / items.sum())
