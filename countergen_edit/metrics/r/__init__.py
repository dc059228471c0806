"""R, the average relative probability, of every set (CounterGen, section 2.1)."""

from countergen_edit.metrics.r.effect_rows import r_rows
from countergen_edit.metrics.r.formula import (
    abs_r_reduction,
    mean_r,
    r_values,
    relative_difference,
    resampled_abs_r,
    resampled_r,
)
from countergen_edit.metrics.r.metric import R

__all__ = [
    "R",
    "abs_r_reduction",
    "mean_r",
    "r_rows",
    "r_values",
    "relative_difference",
    "resampled_abs_r",
    "resampled_r",
]
