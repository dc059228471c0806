"""Tables, figure and sentences of probes."""

from __future__ import annotations

from countergen_edit.edits import EditRecord
from countergen_edit.metrics.guardedness import PROBES
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import Row
from countergen_edit.reports.blocks import Block, Cell, Figure, Number, Section, Table
from countergen_edit.reports.panels import Panel, line
from countergen_edit.reports.views import remains
from countergen_edit.reports.views.base import View
from countergen_edit.reports.views.by_layer import SHARE, by_layer, single

SIGNIFICANTLY = (
    "A probe finds the group significantly where its interval lies above chance, the share of the "
    "largest group."
)


def _by_layer(results: Results) -> list[Figure]:
    """Accuracy of either probe at each layer of the first site."""
    panels = []
    for kind, title in PROBES.items():
        pairs = single(results, results.of(f"{kind}_probe_accuracy", "validation"))
        pairs = [(row, e) for row, e in pairs if e.sites == pairs[0][1].sites]
        if len({e.layers for _, e in pairs}) < 2:
            continue
        # Before an erasure all erasers have the same activations: each layer's is told once.
        before = {
            e.layers[0]: held_out
            for row, e in reversed(pairs)
            if (held_out := results.under(row, row.edit, f"{kind}_probe_accuracy_before"))
        }
        layers = sorted(before)
        series = [
            line("before", layers, [before[layer] for layer in layers], baseline=True),
            *by_layer(results, [row for row, _ in pairs]),
        ]
        panels.append(Panel(title, "layer", "held-out accuracy", tuple(series), limits=SHARE))
    if not panels:
        return []
    words = f"Accuracy of probes on held-out names. {SIGNIFICANTLY}"
    return [Figure("probes", "Does a probe find the group?", tuple(panels), words)]


def _of_shown(results: Results) -> list[Table]:
    """Probe accuracy before and after each edit that is shown and was fitted as one."""
    lines: list[tuple[Cell, ...]] = [
        (edit.label, *_accuracies(results, rows[0]), _chance(results, rows[0]))
        for edit in results.shown
        if (rows := results.of("linear_probe_accuracy", "validation", edit.id))
    ]
    if not lines:
        return []
    columns = (
        "edit",
        "linear before",
        "linear after",
        "non-linear before",
        "non-linear after",
        "chance",
    )
    title = "Probe accuracy, held out"
    return [Table("probes", title, columns, tuple(lines), SIGNIFICANTLY, brief=True)]


def _certificates(results: Results) -> Table:
    lines: list[tuple[Cell, ...]] = []
    for row in results.of("linear_probe_accuracy", "validation"):
        guaranteed, reason = (row.detail.get(key) for key in ("guaranteed", "reason"))
        removed = Number.of(results.under(row, row.edit, "variance_removed"))
        theorem = "" if guaranteed is None else "yes" if guaranteed else f"no: {reason or ''}"
        lines.append(
            (
                results.label(row.edit),
                *_accuracies(results, row),
                _chance(results, row),
                removed,
                theorem,
            )
        )
    return Table(
        "certificates",
        "Certificates",
        (
            "edit",
            "linear before",
            "linear after",
            "non-linear before",
            "non-linear after",
            "chance",
            "variance removed",
            "no linear probe can do better than chance on the fitted data",
        ),
        tuple(lines),
        f"Accuracies of probes on held-out names. {SIGNIFICANTLY}",
        searchable=len(lines) > 12,
    )


def _chance(results: Results, row: Row) -> Number:
    """The share of the largest group."""
    return Number.of(results.under(row, row.edit, "probe_majority_rate"))


def _accuracies(results: Results, row: Row) -> list[Number]:
    """Before and after an edit, of the linear probe, then of the other."""
    return [
        Number.of(results.under(row, row.edit, f"{kind}_probe_accuracy{when}"))
        for kind in PROBES
        for when in ("_before", "")
    ]


class GuardednessView(View):
    """Probe accuracy before and after edits, with certificates."""

    def remaining(self, results: Results, edit: EditRecord) -> list[str]:
        """That a probe still finds the group."""
        return remains.remaining(results, edit)

    def sentences(self, results: Results) -> list[str]:
        """What is still to be read at the place of each edit that is shown, and what that means."""
        return remains.sentences(results)

    def caveats(self, results: Results) -> list[str]:
        """What is to be known of the fits that are shown, each once."""
        edits: dict[str, list[str]] = {}
        for edit in results.shown:
            for row in results.of("linear_probe_accuracy", "validation", edit.id):
                if remark := row.detail.get("remark"):
                    edits.setdefault(remark, []).append(edit.label)
        return [f"Of {', '.join(labels)}: {remark}." for remark, labels in edits.items()]

    def sections(self, results: Results) -> list[Section]:
        """What probes find at each layer, and every certificate."""
        rows = results.of("linear_probe_accuracy", "validation")
        if not rows:
            return []
        blocks: list[Block] = [*_by_layer(results), *_of_shown(results), _certificates(results)]
        return [Section("layers", "Layers and erasers", tuple(blocks))]
