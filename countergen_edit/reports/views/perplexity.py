"""How `Perplexity` is shown."""

from __future__ import annotations

from countergen_edit.edits import EditRecord
from countergen_edit.metrics.results import Results
from countergen_edit.reports.blocks import Number
from countergen_edit.reports.views.base import CostView, Quantity, alike


class PerplexityView(CostView):
    """The tables, figures and sentences of `Perplexity`."""

    def quantities(self, results: Results, split: str = "test") -> list[Quantity]:
        """The ratio, which counts, and perplexity itself, which stands alone without edits."""
        ratios = [
            Quantity(
                self.metric.title,
                alike(results, row),
                "cost",
                axis="perplexity ratio (1 = unchanged)",
                covers=(1.0, 1.01),
            )
            for row in results.unedited(self.metric.counts, split)
        ]
        plain = [
            Quantity(
                "perplexity of neutral text",
                alike(results, row),
                "cost",
                main=results.is_unedited,
                drawn=False,
            )
            for row in results.unedited("perplexity", split)
        ]
        return plain if results.is_unedited else ratios + plain

    def outcome(self, results: Results, edit: EditRecord) -> str:
        """The ratio under an edit."""
        ratios = results.of(self.metric.counts, edit=edit.id)
        return f"neutral perplexity × {Number.of(ratios[0]).text}" if ratios else ""
