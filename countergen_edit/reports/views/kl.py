"""The view of `KL`."""

from __future__ import annotations

from countergen_edit.edits import EditRecord
from countergen_edit.metrics.results import Results
from countergen_edit.reports.views.base import CostView


class KLView(CostView):
    """The divergence in tables; figures and sentences give perplexity, of the same text."""

    axis = "KL from the unedited model, nats per token"
    covers = (0.0, 0.05)
    drawn = False

    def outcome(self, results: Results, edit: EditRecord) -> str:
        """Nothing."""
        return ""
