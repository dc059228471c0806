"""Guardedness: what probes still find of the groups after an erasure, as certificates say.

Comes in: the certificate of an eraser's fit, which an experiment makes when it fits. Goes out: its
rows, and how they are shown.
"""

from __future__ import annotations

from countergen_edit.data.task import Task
from countergen_edit.edits import EditRecord, NamedEdit
from countergen_edit.erasers import Certificate
from countergen_edit.metrics import remains
from countergen_edit.metrics.base import MeasuredSplit, Metric
from countergen_edit.metrics.blocks import Block, Cell, Figure, Number, Section, Table
from countergen_edit.metrics.by_layer import SHARE, by_layer, single
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.panels import Panel, line
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.statistics import Estimate

PROBES = {"linear": "linear probe", "nonlinear": "non-linear probe"}
SIGNIFICANTLY = (
    "A probe finds the group significantly where its interval lies above chance, the share of the "
    "largest group."
)


def certificate_rows(
    certificate: Certificate,
    task: Task,
    n: int,
    seed: int,
    *,
    refitted: bool = True,
    remark: str = "",
) -> list[Row]:
    """Held-out accuracy of probes before and after an erasure, and what the theorem says.

    Args:
        certificate: of one fit.
        task: the task that was fitted on.
        n: activations that were fitted on, those to be kept not among them.
        seed: the run's seed.
        refitted: whether the eraser was fitted anew without the names that probes are measured on.
        remark: what a reader should know of the fit, as the end of a sentence.
    """
    values = {
        f"{kind}_probe_accuracy{end}": _of(certificate, f"{kind}_accuracy_{when}")
        for kind in PROBES
        for when, end in (("before", "_before"), ("after", ""))
    }
    values |= {
        "probe_majority_rate": _of(certificate, "majority_rate"),
        "variance_removed": _of(certificate, "variance_removed"),
    }
    several = {"groups": [*task.groups]} if len(task.groups) > 2 else {}
    detail = {
        "guaranteed": certificate.guaranteed,
        "reason": certificate.reason,
        "refitted": refitted,
        "remark": remark,
    } | several
    return [
        Row.of_set(
            task.fit[0],
            metric,
            value,
            dataset="+".join(data.name for data in task.fit),
            split="validation",
            n=n,
            seed=seed,
            detail=detail,
        )
        for metric, value in values.items()
    ]


def _of(certificate: Certificate, name: str) -> Estimate:
    """A figure of a certificate, with its interval where it has one."""
    nan = float("nan")
    return Estimate(getattr(certificate, name), *certificate.intervals.get(name, (nan, nan)), nan)


class Guardedness(Metric):
    """What certificates say; an experiment that fits an eraser records their rows."""

    is_selectable = False
    is_of_edits = True

    def rows(
        self, context: EvaluationContext, edit: NamedEdit | None, split: MeasuredSplit = "test"
    ) -> list[Row]:
        """None: a certificate is made where an eraser is fitted, not where an edit is measured."""
        return []

    @classmethod
    def remaining(cls, results: Results, edit: EditRecord) -> list[str]:
        """That a probe still finds the group."""
        return remains.remaining(results, edit)

    @classmethod
    def sentences(cls, results: Results) -> list[str]:
        """What is still to be read at the place of each edit that is shown, and what that means."""
        return remains.sentences(results)

    @classmethod
    def caveats(cls, results: Results) -> list[str]:
        """What is to be known of the fits that are shown, each once."""
        edits: dict[str, list[str]] = {}
        for edit in results.shown:
            for row in results.of("linear_probe_accuracy", "validation", edit.id):
                if remark := row.detail.get("remark"):
                    edits.setdefault(remark, []).append(edit.label)
        return [f"Of {', '.join(labels)}: {remark}." for remark, labels in edits.items()]

    @classmethod
    def sections(cls, results: Results) -> list[Section]:
        """What probes find at each layer, and every certificate."""
        rows = results.of("linear_probe_accuracy", "validation")
        if not rows:
            return []
        blocks: list[Block] = [*_by_layer(results), *_of_shown(results), _certificates(results)]
        return [Section("layers", "Layers and erasers", tuple(blocks))]


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
