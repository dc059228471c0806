"""FairPair (Dwivedi-Yu et al. 2024): a model's continuations, held against their variability."""

from countergen_edit.metrics.fairpair.metric import FairPair

__all__ = ["FairPair"]
