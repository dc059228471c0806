"""Rows, looked up by what a table needs; nothing is computed here."""

from __future__ import annotations

from collections.abc import Sequence

from countergen_edit.metrics.rows import Row


def axis_of(row: Row) -> str:
    """The axis that an edit is named after, as it is in a sweep of several.

    >>> axis_of(Row("r", 0.0, edit="inlp-8@resid_post.3/gender")), axis_of(Row("r", 0.0))
    ('gender', '')
    """
    return row.edit.partition("/")[2]


class Results:
    """The rows of a run."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = list(rows)
        self._index = {self._key(row): row for row in self.rows}
        self._references = {"none", *(row.edit for row in self.rows if row.is_baseline)}

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

    def by_axis(self) -> dict[str, Results]:
        """The rows of each axis, where edits are named after theirs; else all, under no name.

        >>> rows = [Row("r", 0.1, unit="race/unedited"), Row("r", 0.0, unit="age/unedited")]
        >>> rows += [Row("r", 0.0, edit="leace-1@embed/age", unit="age/cell/embed/leace()")]
        >>> rows += [Row("r", 0.0, edit="leace-1@embed/race", unit="race/cell/embed/leace()")]
        >>> {axis: len(part.rows) for axis, part in Results(rows).by_axis().items()}
        {'race': 2, 'age': 2}
        """
        by_unit: dict[str, list[Row]] = {}
        for row in self.rows:
            by_unit.setdefault(row.unit.partition("/")[0], []).append(row)
        named = {
            axis: Results(rows)
            for axis, rows in by_unit.items()
            if axis and any(axis_of(row) == axis for row in rows)
        }
        return named or {"": self}

    def is_reference(self, edit: str) -> bool:
        """Whether others are held against it: no edit, or random directions."""
        return edit in self._references

    @property
    def edits(self) -> list[Row]:
        """One test row for every edit measured, in the order of measuring."""
        return list({r.edit: r for r in self.rows if r.split == "test" and r.eraser}.values())
