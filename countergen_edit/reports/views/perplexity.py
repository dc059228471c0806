"""The view of `Perplexity`."""

from __future__ import annotations

from countergen_edit.edits import EditRecord
from countergen_edit.metrics.results import Results
from countergen_edit.reports.blocks import Number
from countergen_edit.reports.views.base import CostView, Quantity, alike


class PerplexityView(CostView):
    """The ratio to the unedited model, and perplexity itself."""

    axis = "perplexity ratio (1 = unchanged)"
    covers = (1.0, 1.01)

    def quantities(self, results: Results, split: str = "test") -> list[Quantity]:
        """The ratio, then perplexity, which stands alone in a run without edits."""
        name, only = "perplexity of neutral text", results.is_unedited
        plain = [
            Quantity(name, alike(results, row), "cost", main=only, drawn=False)
            for row in results.unedited("perplexity", split)
        ]
        return plain if only else super().quantities(results, split) + plain

    def outcome(self, results: Results, edit: EditRecord) -> str:
        """The ratio under an edit."""
        ratios = results.of(self.metric.counts, edit=edit.id)
        return f"neutral perplexity × {Number.of(ratios[0]).text}" if ratios else ""
