"""Where counterfactual sets come from: templates, files, hub datasets, the testbed, own code."""

from countergen_edit.data.sources.base import SOURCES, Request
from countergen_edit.data.sources.loading import fingerprint, load_set

__all__ = ["SOURCES", "Request", "fingerprint", "load_set"]
