"""FairPair (Dwivedi-Yu et al. 2024): bias of continuations against their sampling variability."""

from countergen_edit.metrics.fairpair.continuations import PERTURBERS
from countergen_edit.metrics.fairpair.metric import FairPair
from countergen_edit.metrics.fairpair.phi import PHIS, Phi, ScoreDifference

__all__ = ["PERTURBERS", "PHIS", "FairPair", "Phi", "ScoreDifference"]
