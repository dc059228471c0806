"""The view of `Augmented`."""

from __future__ import annotations

from countergen_edit.metrics.augmented import PAIRED, WORDS, reasons_of, said_of
from countergen_edit.metrics.results import Results
from countergen_edit.reports.blocks import Cell, Number, Section, Table
from countergen_edit.reports.views.base import View


class AugmentedView(View):
    """The texts that were kept, and the first pairs."""

    def sections(self, results: Results) -> list[Section]:
        """Counts of kept texts with the reasons of the others, and the first pairs."""
        rows = [row for metric in WORDS for row in results.of(metric, "")]
        if not rows:
            return []
        lines: list[tuple[Cell, ...]] = [
            (
                said_of(row),
                str(row.n),
                str(row.detail["kept"]),
                Number.of(row, percent=True),
                reasons_of(row),
            )
            for row in rows
        ]
        columns = ("of", "number", "kept", "share", "left out")
        counts = Table("augmentation", "Kept texts", columns, tuple(lines), brief=True)
        pairs = tuple((str(a), str(b)) for a, b in rows[0].detail["examples"])
        groups = (rows[0].group_a, rows[0].group_b)
        examples = [Table("augmented_pairs", "The first pairs", groups, pairs)] if pairs else []
        return [Section("augmentation", "Augmentation", (counts, *examples))]

    def sentences(self, results: Results) -> list[str]:
        """The number of pairs."""
        return [
            f"{row.detail['kept']} of {row.n} texts became pairs of {row.group_a} and "
            f"{row.group_b}."
            for row in results.of(PAIRED, "")
        ]
