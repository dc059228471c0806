"""The view of distillations."""

from __future__ import annotations

from countergen_edit.metrics.fits import LOSS, OWN_CONTEXTS
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import Row
from countergen_edit.reports.blocks import Section
from countergen_edit.reports.views.base import (
    View,
    as_figure,
    as_section,
    as_table,
    grouped,
    lines_along,
)


class DistillationView(View):
    """Held-out losses by step, and contexts that the model wrote."""

    def sections(self, results: Results) -> list[Section]:
        """The curves of the edits shown, seed by seed, and examples of contexts."""
        rows = [row for row in results.of(LOSS, "validation") if row.edit in results.compared]
        panels = [
            lines_along(results, own, "step", f"seed {seed:g}", "step", "held-out loss")
            for seed, own in grouped(rows, lambda row: row.facets["seed"]).items()
        ]
        note = (
            "Weighted sum of the squared group difference and the divergence from the target, on "
            "validation data, without the constraints."
        )
        losses = as_figure("distillation", "Held-out loss during training", panels, note)
        own = [row for row in results.of(OWN_CONTEXTS, "fit") if row.edit in results.compared]
        contexts = as_table(
            "own_contexts",
            "Contexts that the model wrote",
            [
                {"edit": results.label(row.edit), "use": one["use"], "text": one["text"]}
                for row in own
                for one in row.detail["examples"]
            ],
            " ".join(map(_counts, own)),
        )
        return as_section("layers", "Layers and erasers", losses, contexts)


def _counts(row: Row) -> str:
    """How many contexts were used and refused."""
    detail = row.detail
    refused = ", ".join(f"{count} ({why})" for why, count in detail["refused"].items())
    return (
        f"Examples of {detail['to_erase']} contexts to erase and {detail['to_keep']} to keep. "
        f"Refused: {refused or 'none'}."
    )
