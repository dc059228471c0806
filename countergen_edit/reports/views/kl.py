"""How `KL` is shown."""

from __future__ import annotations

from countergen_edit.edits import EditRecord
from countergen_edit.metrics.results import Results
from countergen_edit.reports.views.base import CostView, Quantity, alike


class KLView(CostView):
    """The tables, figures and sentences of `KL`."""

    def quantities(self, results: Results, split: str = "test") -> list[Quantity]:
        """The divergence; perplexity, which moves with it, stands for neutral text in figures."""
        return [
            Quantity(
                self.metric.title,
                alike(results, row),
                "cost",
                self.metric.digits,
                axis="KL from the unedited model, nats per token",
                covers=(0.0, 0.05),
                drawn=False,
            )
            for row in results.unedited(self.metric.counts, split)
        ]

    def outcome(self, results: Results, edit: EditRecord) -> str:
        """Nothing: the perplexity of the same text is what a sentence tells."""
        return ""
