"""A result is a row: the one shape of every number that is shown anywhere."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from countergen_edit.data.counterfactual import CounterfactualSet
from countergen_edit.errors import UserError
from countergen_edit.metrics.statistics import Estimate

BASELINE = "random"
"""The eraser of the control that every edit must beat: random directions of its rank."""


@dataclass(frozen=True)
class Row:
    """One line of `results.jsonl`."""

    metric: str
    value: float | None
    """None where the metric is undefined; `detail` then says why."""
    dataset: str = ""
    axis: str = ""
    group_a: str = ""
    group_b: str = ""
    edit: str = "none"
    layer: int | None = None
    eraser: str = ""
    rank: int = 0
    split: str = ""
    lo: float | None = None
    hi: float | None = None
    """Ends of the 95 % interval."""
    n: int = 0
    unit: str = ""
    """The unit of work that made the row, by which a run resumes."""
    seed: int = 0
    detail: dict[str, Any] = field(default_factory=dict)

    @property
    def is_baseline(self) -> bool:
        """Whether the row is of the control, which no choice may fall on."""
        return self.eraser == BASELINE

    def to_dict(self) -> dict[str, Any]:
        """The row as JSON would have it, columns in their order."""
        columns = asdict(self)
        return {column: columns[column] for column in COLUMNS}

    @classmethod
    def of_set(
        cls, data: CounterfactualSet, metric: str, estimate: Estimate | float, **columns: Any
    ) -> Row:
        """A row about a set, with the columns of an estimate."""
        if not isinstance(estimate, Estimate):
            estimate = Estimate(estimate, math.nan, math.nan, math.nan)
        about = {
            "dataset": data.name,
            "axis": data.axis,
            "group_a": data.groups[0],
            "group_b": data.groups[1],
        }
        return cls(metric=metric, **(about | estimate.columns | columns))

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Row:
        """Read a row back.

        Raises:
            UserError: a column is missing or unknown.
        """
        if set(content) != set(COLUMNS):
            odd = sorted(set(content) ^ set(COLUMNS))
            raise UserError(f"a result row has missing or unknown columns: {', '.join(odd)}")
        return cls(**content)


COLUMNS = (
    "metric",
    "dataset",
    "axis",
    "group_a",
    "group_b",
    "edit",
    "layer",
    "eraser",
    "rank",
    "split",
    "value",
    "lo",
    "hi",
    "n",
    "unit",
    "seed",
    "detail",
)
assert set(COLUMNS) == {f.name for f in fields(Row)}
