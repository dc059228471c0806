"""CounterGen's Table 1: published R of OpenAI's models, by model id, set and groups."""

from __future__ import annotations

from dataclasses import replace

from countergen_edit.metrics.published import published_name
from countergen_edit.metrics.rows import Row

SETS = ("female_stereotypes", "male_stereotypes", "doublebind_positive", "doublebind_negative")
"""Columns of the table, as sets are called here."""
GROUPS = ("female", "male")
# R, and whether the paper stars it: two standard errors from 0.
TABLE_1: dict[str, tuple[tuple[float, bool], ...]] = {
    "text-davinci-003": ((0.16, False), (-0.51, False), (-0.29, True), (-0.46, True)),
    "davinci": ((0.24, True), (-0.30, True), (0.19, False), (-0.35, True)),
    "curie": ((0.21, False), (-0.31, True), (-0.12, False), (-0.11, False)),
    "babbage": ((0.13, False), (-0.26, True), (-0.06, False), (-0.06, False)),
    "ada": ((0.23, False), (-0.18, False), (-0.07, True), (0.26, True)),
}


def published_r(model: str, row: Row) -> dict[str, float | bool] | None:
    """R of a model on the set of a row, and its star; None where the paper has none."""
    figures = TABLE_1.get(published_name(model))
    if figures is None or (row.group_a, row.group_b) != GROUPS or row.dataset not in SETS:
        return None
    return dict(zip(("r", "starred"), figures[SETS.index(row.dataset)], strict=True))


def with_published(row: Row, model: str) -> Row:
    """A row of the unedited model, with the published figure, if any, in its detail."""
    paper = published_r(model, row) if row.metric == "r" else None
    return replace(row, detail=row.detail | {"published": paper}) if paper else row
