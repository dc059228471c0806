"""Tables and figure of probes; their sentences are in `remains`."""

from __future__ import annotations

from countergen_edit.edits import EditRecord
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import Row
from countergen_edit.reports.blocks import Figure
from countergen_edit.reports.views import remains
from countergen_edit.reports.views.base import Record, Shown, View
from countergen_edit.reports.views.by_layer import SHARE, layer_figures


class GuardednessView(View):
    """Probe accuracy before and after edits, with certificates."""

    shows = (
        *(
            Shown(metric + end, f"{kind} probe {when}")
            for kind, metric in remains.ACCURACY.items()
            for when, end in (("before", remains.BEFORE), ("after", ""))
        ),
        Shown(remains.CHANCE, "chance"),
        Shown("variance_removed", "variance removed"),
    )
    place = "layers", "Layers and erasers"
    heading = "Probe accuracy, held out"
    split = "validation"
    note = (
        "A probe finds the group significantly where its interval lies above chance, the share of "
        "the largest group."
    )
    brief = True

    def _certificates(self, results: Results) -> list[Row]:
        return results.of(remains.ACCURACY["linear"], self.split)

    def remaining(self, results: Results, edit: EditRecord) -> list[str]:
        """That a probe still finds the group."""
        return remains.remaining(results, edit)

    def sentences(self, results: Results) -> list[str]:
        """What is still to be read at the place of each edit that is shown, and what that means."""
        return remains.sentences(results)

    def caveats(self, results: Results) -> list[str]:
        """What is to be known of the fits that are shown, each once."""
        edits: dict[str, list[str]] = {}
        shown = {edit.id for edit in results.shown}
        for row in self._certificates(results):
            if row.edit in shown and (remark := row.detail.get("remark")):
                edits.setdefault(remark, []).append(results.label(row.edit))
        return [f"Of {', '.join(labels)}: {remark}." for remark, labels in edits.items()]

    def about(self, row: Row) -> str:
        return ""

    def records(self, results: Results) -> list[Record]:
        """Probe accuracy under each edit that was fitted as one, and what is proved of it."""
        records = super().records(results)
        proofs = {results.label(row.edit): _proof(row) for row in self._certificates(results)}
        title = "no linear probe can do better than chance on the fitted data"
        known = {column: proofs[column] for column in (*records, {})[0] if column in proofs}
        return [*records, {"figure": title, **known}] if known else records

    def figure(self, results: Results) -> list[Figure]:
        """What probes find at each layer."""
        heading, axis = "probe under an edit at each layer", "held-out accuracy"
        return [
            figure
            for kind, metric in remains.ACCURACY.items()
            for figure in layer_figures(results, metric, metric, f"{kind} {heading}", axis, SHARE)
        ]


def _proof(row: Row) -> str:
    is_guaranteed = row.detail.get("guaranteed")
    if is_guaranteed is None:
        return ""
    return "yes" if is_guaranteed else f"no: {row.detail.get('reason') or ''}"
