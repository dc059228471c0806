"""Contrastive input decoding (CID; Yona et al. 2023): template audits, ratings, perturbations."""

from countergen_edit.metrics.cid.metric import Cid

__all__ = ["Cid"]
