"""No bias figure without its spread over templates (Seshadri et al. 2022), for causal models."""

from countergen_edit.metrics.paraphrases.metric import Paraphrases, holding_rows
from countergen_edit.metrics.paraphrases.spread import (
    contents,
    reductions,
    spread_over_paraphrases,
)

__all__ = ["Paraphrases", "contents", "holding_rows", "reductions", "spread_over_paraphrases"]
