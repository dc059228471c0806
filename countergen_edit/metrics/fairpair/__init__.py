"""FairPair (Dwivedi-Yu et al. 2024): a model's continuations, held against their variability."""

from countergen_edit.metrics.fairpair.metric import FairPair
from countergen_edit.metrics.fairpair.perturbers import PERTURBERS
from countergen_edit.metrics.fairpair.phi import PHIS, Phi, ScoreDifference

__all__ = ["PERTURBERS", "PHIS", "FairPair", "Phi", "ScoreDifference"]
