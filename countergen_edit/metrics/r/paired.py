"""A group effect before and after an edit, on paired draws: the share removed, the change."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from countergen_edit.metrics.r.group_effect import Draws, GroupEffect, interval, root
from countergen_edit.metrics.statistics import Estimate

LEAST = 0.02
"""The least share of the group effect that is called a change."""
HALF = 0.5
"""The least share of the group effect that is called removed."""


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
    """The share of G removed over some sets together: its value, then its draws.

    NaN where there was nothing to remove. Before and after are drawn alike.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        share = 1 - root(_pooled(after)) / root(_pooled(before))
    return np.where(np.isfinite(share), share, np.nan)


def removed(before: Sequence[GroupEffect], after: Sequence[GroupEffect]) -> Estimate:
    """The share of G removed over some sets together, with its interval."""
    draws = removed_draws(before, after)
    return interval(float(draws[0]), draws[1:])


def _pooled(effects: Sequence[GroupEffect]) -> Draws:
    items = np.array([effect.items for effect in effects])
    return np.asarray(items @ np.stack([e.squared_draws for e in effects]) / items.sum())
