"""The overview: what stands side by side, in which order."""

from __future__ import annotations

from countergen_edit.metrics.rows import Row
from countergen_edit.reports.overview import as_tested
from tests.reports.runs import columns, in_memory


def test_an_eraser_has_one_place_in_the_figures_of_both_splits() -> None:
    """On validation data leace was tried first; of test data rlace is the first."""
    tried = [("leace", 2), ("rlace", 2), ("leace", 3), ("rlace", 3)]
    rows = [Row("kl", 0.1, split="validation", **columns(*cell)) for cell in tried]
    rows += [Row("kl", 0.1, split="test", **columns(*cell)) for cell in [tried[3], tried[0]]]
    ids = dict.fromkeys(row.edit for row in rows)
    results = in_memory(rows).results
    listed = [record.eraser for record in as_tested(results) if record.id in ids]
    assert listed == ["rlace", "rlace", "leace", "leace"]
