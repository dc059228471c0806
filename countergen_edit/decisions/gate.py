"""Whether figures keep to a limit, by their intervals; docs/gate.md gives the rule and its errors.

P, of a true value at the limit, is read off the half of the interval that faces the limit, as
Gaussian (Altman and Bland, BMJ 343, 2011, d2304). Few templates have heavier tails, so that a
failure may be found too often; not so a pass, for which all intervals of a figure must keep the
limit (Berger, Technometrics 24, 1982). The interval of a difference that is not paired is put
together as if both runs were independent (Zou and Donner, Statistics in Medicine 27, 2008).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from scipy.special import ndtr, ndtri

from countergen_edit.metrics.base import Way
from countergen_edit.metrics.r.effect_rows import SIGNIFICANT
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.statistics import LEVEL, adjusted

GateVerdict = Literal["holds", "fails", "cannot tell"]


@dataclass(frozen=True)
class Check:
    """One figure against its limit."""

    row: Row
    """The figure of a set, or its difference from another run's."""
    limit: float
    better: Way
    """Which way the figure is better: `lower` makes the limit an upper one."""
    p_adjusted: float | None
    """P of a true value at the limit, Holm's over the sets; None without an interval."""
    verdict: GateVerdict
    figure: str = ""
    of: str = ""
    """The task, set, groups and facets, as people read them."""
    text: str = ""


def checked(rows: Sequence[Row], limit: float, better: Way, *, strict: bool = True) -> list[Check]:
    """Hold the rows of a figure, one for each set, to a limit.

    Intervals decide; estimates do if not `strict`.
    """
    p_values = [p_at(row, limit) for row in rows]
    corrected = iter(adjusted([p for p in p_values if p is not None]).tolist())
    sign, checks = 1 if better == "lower" else -1, list[Check]()
    for row, p in zip(rows, p_values, strict=True):
        p_adjusted = None if p is None else float(next(corrected))
        ends = [row.lo, row.hi] if strict else [row.value]
        excess = [sign * (end - limit) for end in ends if end is not None]
        doubtful = strict and (p_adjusted is None or p_adjusted > SIGNIFICANT)
        verdict: GateVerdict = "cannot tell"
        if excess and not doubtful and max(excess) <= 0:  # the limit itself holds
            verdict = "holds"
        elif excess and not doubtful and min(excess) > 0:
            verdict = "fails"
        checks.append(Check(row, limit, better, p_adjusted, verdict))
    return checks


def p_at(row: Row, limit: float) -> float | None:
    """Two-sided P of a true value at the limit; None without an interval."""
    if row.value is None or row.lo is None or row.hi is None:
        return None
    away = abs(limit - row.value)
    reach = row.hi - row.value if limit > row.value else row.value - row.lo
    if away == 0 or reach <= 0:
        return float(away == 0 and row.hi > row.lo)  # nothing varies, or the estimate is the limit
    return round(2 * float(ndtr(ndtri((1 - LEVEL) / 2) * away / reach)), 12)


def difference(row: Row, other: Row | None, paired: Row | None = None) -> Row:
    """A figure less that of another run; without a value where one is missing.

    `paired` is their difference on shared prompts, and is taken where both have an interval.
    """
    if other is None or row.value is None or other.value is None:
        return replace(row, value=None, lo=None, hi=None)
    value = row.value - other.value
    if row.lo is None or row.hi is None or other.lo is None or other.hi is None:
        return replace(row, value=value, lo=None, hi=None)
    if paired is not None:
        return replace(row, value=paired.value, lo=paired.lo, hi=paired.hi)
    below = math.hypot(row.value - row.lo, other.hi - other.value)
    above = math.hypot(row.hi - row.value, other.value - other.lo)
    return replace(row, value=value, lo=value - below, hi=value + above)


def overall(checks: Sequence[Check]) -> GateVerdict:
    """Of several checks: that of one that fails, else of one that cannot be told."""
    verdicts = {check.verdict for check in checks}
    order: tuple[GateVerdict, ...] = ("fails", "cannot tell", "holds")
    return next(verdict for verdict in order if verdict in verdicts)
