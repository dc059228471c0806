"""The view of intersections."""

from __future__ import annotations

from collections.abc import Sequence

from countergen_edit.decisions.significance import by_class
from countergen_edit.metrics.intersections import INTERSECTION, MARGINAL
from countergen_edit.metrics.r.effect_rows import SIGNIFICANT
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import Row, dataset_label
from countergen_edit.reports.blocks import Number
from countergen_edit.reports.views.base import Shown, View, first_few

MOST = 4
"""Cells that a sentence names."""


class IntersectionsView(View):
    """Marginal effects, and the effect of every cell beyond them."""

    shows = (
        Shown(MARGINAL, "each axis alone, nats"),
        Shown(INTERSECTION, "cells beyond both axes, nats"),
    )
    place = "intersections", "Intersections"
    note = (
        "Of each axis alone: between the people of two of its groups, whatever they are on the "
        "other axis. Of cells: between a cell and what its groups alone add up to, root mean "
        "square over prompt-output pairs; 0 where the axes act each by itself."
    )
    brief = True

    def about(self, row: Row) -> str:
        return f"{dataset_label(row.dataset)}, {_who(row)}"

    def sentences(self, results: Results) -> list[str]:
        """Significant effects of each axis alone, and of cells beyond both."""
        rows, marginal = results.unedited(INTERSECTION), results.unedited(MARGINAL)
        if not rows:
            return []
        axes = " and ".join(dict.fromkeys(row.axis for row in marginal))
        return [
            *_said(marginal, "difference", f"of {axes} alone"),
            *_said(rows, "cell", f"beyond what {axes} add up to"),
        ]


def _said(rows: Sequence[Row], noun: str, about: str) -> list[str]:
    """The significant rows of one kind, or that there is none, or no test."""
    found = by_class(rows)
    if len(found["not tested"]) == len(rows):
        return [
            f"No {noun} {about} is tested, as a within-group null needs two names per group, the "
            "same on every prompt."
        ]
    if significant := sorted(found["biased"], key=lambda row: -(row.value or 0.0)):
        return [
            f"{len(significant)} of {len(rows)} {noun}s {about} are significant "
            f"(P ≤ {SIGNIFICANT}, Holm): {first_few(map(_sized, significant), MOST)}."
        ]
    p = [row.detail["p_adjusted"] for row in rows if "p_adjusted" in row.detail]
    least = Number(min(p), digits=2, bounded=True).text
    return [f"No {noun} {about} is significant (smallest P {least}, Holm over {len(p)} {noun}s)."]


def _sized(row: Row) -> str:
    return f"{_who(row)} {Number.of(row, 2).in_text} nats on {dataset_label(row.dataset)}"


def _who(row: Row) -> str:
    both = f"{row.group_a} and {row.group_b}" if row.group_b else row.group_a
    return both.replace("_", " ")
