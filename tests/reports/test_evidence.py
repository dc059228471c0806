"""The evidence of a run holds its figures."""

from __future__ import annotations

from pathlib import Path

from countergen_edit.metrics.rows import UNEDITED
from countergen_edit.reports.evidence import write_evidence
from countergen_edit.runs.run import Run
from tests.reports.runs import MANIFEST, audit_rows, in_memory

RAN = {
    "begin": "2026-11-24T08:00:00+00:00",
    "end": "2026-11-24T08:01:00+00:00",
    "seconds": 60.0,
    "hardware": ["a processor, 2 cores"],
}
AUDIT = in_memory(audit_rows(), MANIFEST | {"ran": RAN})
ALONE = in_memory([row for row in audit_rows() if row.edit == UNEDITED])


def written(run: Run, folder: Path) -> str:
    return write_evidence(run, folder).read_text("utf-8")


def test_the_document_says_both_figures_the_budget_and_what_is_missing(tmp_path: Path) -> None:
    text = written(AUDIT, tmp_path)
    [line] = [line for line in text.splitlines() if line.startswith("| perplexity ratio |")]
    assert line.count("1.250 [1.200, 1.300]") == 2
    assert "| 0.5 |" in line
    assert "no legal advice" in text
    assert "Not covered" in text
    assert MANIFEST["model_hash"] in text
    assert "2026-11-24 08:00 UTC" in text
    alone = written(ALONE, tmp_path)
    assert "no edit was made" in alone
    assert "budget" not in alone
