"""P-values of rows that are tested together."""

from __future__ import annotations

from collections.abc import Sequence

from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.statistics import adjusted


def with_holm(rows: Sequence[Row], key: str = "p") -> list[Row]:
    """The rows, with P of a key of their details adjusted over all that have it; None is taken out.

    >>> rows = [Row("r", 0.1, detail={"p": p}) for p in (0.01, 0.04, None)]
    >>> [row.detail.get("p_adjusted") for row in with_holm(rows)], rows[2].detail
    ([0.02, 0.04, None], {})
    """
    tested = [row for row in rows if row.detail.get(key) is not None]
    for row in rows:
        if row.detail.get(key) is None:
            row.detail.pop(key, None)
    p_values = adjusted([row.detail[key] for row in tested]).tolist()
    for row, p in zip(tested, p_values, strict=True):
        row.detail[f"{key}_adjusted"] = p
    return [*rows]
