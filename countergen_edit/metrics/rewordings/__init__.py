"""No bias figure without its spread over wordings (Seshadri et al. 2022), for causal models."""

from countergen_edit.metrics.rewordings.metric import Rewordings, holding_rows
from countergen_edit.metrics.rewordings.spread import (
    contents,
    reductions,
    spread_over_wordings,
)

__all__ = ["Rewordings", "contents", "holding_rows", "reductions", "spread_over_wordings"]
