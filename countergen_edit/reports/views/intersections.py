"""Tables and sentences of intersections."""

from __future__ import annotations

from collections.abc import Sequence

from countergen_edit.decisions.significance import by_class
from countergen_edit.metrics.intersections import INTERSECTION, MARGINAL
from countergen_edit.metrics.r.holm import SIGNIFICANT
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import UNEDITED, Row, dataset_label
from countergen_edit.reports.blocks import Cell, Number, Section, Table
from countergen_edit.reports.views.base import View

MOST = 4
"""Cells that a sentence names."""


def _said(rows: Sequence[Row], noun: str, about: str) -> list[str]:
    """The significant rows of one kind, or that there is none, or no test."""
    found = by_class(rows)
    if len(found["not tested"]) == len(rows):
        return [
            f"No {noun} {about} is tested, as a within-group null needs two names per group, the "
            "same on every prompt."
        ]
    if significant := sorted(found["biased"], key=lambda row: -(row.value or 0.0)):
        each = ", ".join(map(_sized, significant[:MOST]))
        more = f", and {len(significant) - MOST} more" if len(significant) > MOST else ""
        return [
            f"{len(significant)} of {len(rows)} {noun}s {about} are significant "
            f"(P ≤ {SIGNIFICANT}, Holm): {each}{more}."
        ]
    p = [row.detail["p_adjusted"] for row in rows if "p_adjusted" in row.detail]
    return [
        f"No {noun} {about} is significant (smallest P "
        f"{Number(min(p), digits=2, bounded=True).text}, Holm over {len(p)} {noun}s)."
    ]


def _sized(row: Row) -> str:
    ends = "" if row.lo is None or row.hi is None else f" [{row.lo:.2f}, {row.hi:.2f}]"
    value = Number(row.value, digits=2).text
    return f"{_who(row)} {value}{ends} nats on {dataset_label(row.dataset)}"


def _who(row: Row) -> str:
    both = f"{row.group_a} and {row.group_b}" if row.group_b else row.group_a
    return both.replace("_", " ")


def _table(results: Results, kind: str) -> Table:
    lines: list[tuple[Cell, ...]] = []
    for row in results.unedited(kind):
        cells = [Number.of(results.under(row, edit)) for edit in results.compared]
        p = Number(row.detail.get("p_adjusted"), bounded=True)
        lines.append((dataset_label(row.dataset), _who(row), p, *cells))
    alone = kind == MARGINAL
    note = (
        "Nats between the people of two groups of one axis, whatever they are on the others."
        if alone
        else "Nats between a cell and what its groups alone add up to, root mean square over "
        "prompt-output pairs; 0 where the axes act each by itself."
    )
    return Table(
        kind,
        "Each axis alone" if alone else "Cells beyond both axes",
        ("set", "groups" if alone else "cell", "P (Holm)", *map(results.label, results.compared)),
        tuple(lines),
        f"{note} P is of the noise of people, {results.label(UNEDITED)}.",
        brief=alone,
    )


class IntersectionsView(View):
    """Marginal effects, and the effect of every cell beyond them."""

    def sections(self, results: Results) -> list[Section]:
        """A line for each marginal effect and each cell, a column for each edit."""
        tables = [_table(results, kind) for kind in (MARGINAL, INTERSECTION)]
        known = tuple(table for table in tables if table.rows)
        return [Section("intersections", "Intersections", known)] if known else []

    def sentences(self, results: Results) -> list[str]:
        """Significant effects of each axis alone, and of cells beyond both."""
        rows = results.unedited(INTERSECTION)
        if not rows:
            return []
        marginal = results.unedited(MARGINAL)
        axes = " and ".join(dict.fromkeys(row.axis for row in marginal))
        about = (
            (marginal, "difference", f"of {axes} alone"),
            (rows, "cell", f"beyond what {axes} add up to"),
        )
        return [said for some, noun, which in about for said in _said(some, noun, which)]
