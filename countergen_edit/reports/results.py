"""Rows, looked up by what a table needs; nothing is computed here."""

from __future__ import annotations

from collections.abc import Sequence

from countergen_edit.metrics.rows import Row


class Results:
    """The rows of a run."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = list(rows)
        self._index = {self._key(row): row for row in self.rows}

    @staticmethod
    def _key(row: Row) -> tuple[str, str, str, str, str, str]:
        return row.metric, row.dataset, row.group_a, row.group_b, row.edit, row.split

    def find(
        self,
        metric: str,
        *,
        dataset: str,
        edit: str,
        group_a: str = "",
        group_b: str = "",
        split: str = "test",
    ) -> Row | None:
        """The one row with these columns, if the run has it."""
        return self._index.get((metric, dataset, group_a, group_b, edit, split))

    def under(self, row: Row, edit: str, metric: str | None = None) -> Row | None:
        """The row about the same data under another edit, or of another metric."""
        return self.find(
            metric or row.metric,
            dataset=row.dataset,
            group_a=row.group_a,
            group_b=row.group_b,
            edit=edit,
            split=row.split,
        )

    def unedited(self, metric: str, split: str = "test") -> list[Row]:
        """The rows of a metric of the model as it came."""
        return [row for row in self.of(metric, split) if row.edit == "none"]

    def of(self, metric: str, split: str = "test") -> list[Row]:
        """All rows of a metric in one split."""
        return [row for row in self.rows if row.metric == metric and row.split == split]

    @property
    def edits(self) -> list[Row]:
        """One test row for every edit measured, in the order of measuring."""
        return list({r.edit: r for r in self.rows if r.split == "test" and r.eraser}.values())
