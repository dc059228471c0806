"""How `Augmented` is shown."""

from __future__ import annotations

from countergen_edit.metrics.augmented import (
    PAIRED,
    WORDS,
    reasons_of,
    said_of,
)
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import Row
from countergen_edit.reports.blocks import Cell, Number, Section, Table
from countergen_edit.reports.views.base import View


def _line(row: Row) -> tuple[Cell, ...]:
    kept = str(row.detail["kept"])
    return said_of(row), str(row.n), kept, Number.of(row, percent=True), reasons_of(row)


class AugmentedView(View):
    """The tables, figures and sentences of `Augmented`."""

    def sections(self, results: Results) -> list[Section]:
        """How many passed, why others did not, and a few of the pairs."""
        rows = [row for metric in WORDS for row in results.of(metric, "")]
        if not rows:
            return []
        counts = Table(
            "augmentation",
            "What was kept",
            ("of", "number", "kept", "share", "left out"),
            tuple(_line(row) for row in rows),
            brief=True,
        )
        pairs = tuple((str(a), str(b)) for a, b in rows[0].detail["examples"])
        columns = (rows[0].group_a, rows[0].group_b)
        examples = [Table("augmented_pairs", "The first pairs", columns, pairs)] if pairs else []
        return [Section("augmentation", "Augmentation", (counts, *examples))]

    def sentences(self, results: Results) -> list[str]:
        """How many pairs there are."""
        return [
            f"{row.detail['kept']} of {row.n} texts became pairs of {row.group_a} and "
            f"{row.group_b}."
            for row in results.of(PAIRED, "")
        ]
