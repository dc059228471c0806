"""Runs end with the verdict that follows from what was planted."""

from __future__ import annotations

from pathlib import Path

import pytest

from countergen_edit.decisions import HARMFUL, JUDGEMENT, RECOMMENDED, TOO_DEAR
from countergen_edit.reports.findings import MOST_LINES
from countergen_edit.runs.run import open_run
from tests.cli.support import said

pytestmark = pytest.mark.slow  # every test is of a whole run

OWN = '''
from countergen_edit.erasers import AffineErasure, MeanDifference


class Doubled(MeanDifference):
    """Adds what mean_difference takes."""

    def fit(self, X, y):
        found = super().fit(X, y).erasure_
        self.erasure_ = AffineErasure(-found.left, found.right, found.mean)
        return self
'''
SHARED = {
    "metric": "r",
    "cost": "[agreement,perplexity,kl]",
    "names": "{fit: 20, few: 6, agreement: 4, validation: 4, test: 12}",
    "edit.layers": "[3]",
    "data.fit": "[{source: testbed, family: occupations}]",
    "data.validation": "[]",
    "data.test": "[{source: testbed, family: occupations}]",
}
STEREOTYPES = "[{source: testbed, family: occupations},{source: testbed, family: stereotypes}]"
CASES = {
    "one recommended, one breaks grammar, one does harm": (
        {"eraser": "[rlace,preserving,own.py:Doubled]"},
        {"rlace": TOO_DEAR, "preserving": RECOMMENDED, "Doubled": HARMFUL},
        ["Recommended: preserving", "Not recommended: rlace"],
    ),
    "half of grammar may go": (
        {"eraser": "rlace", "cost.agreement.budget": "0.7"},
        {"rlace": RECOMMENDED},
        ["Recommended: rlace"],
    ),
    "stereotypes without names stay": (
        {"eraser": "preserving", "data.test": STEREOTYPES},
        {"preserving": RECOMMENDED},
        ["removed on 1 (occupations", "partly removed on 1 (stereotypes"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_run_ends_with_its_verdict(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own.py").write_text(OWN, "utf-8")
    own, edits, says = CASES[case]
    words = [f"{key}={value}" for key, value in {**SHARED, **own, "run_dir": "run"}.items()]
    printed = said("audit", *words)
    run = open_run("run")
    judged = run.results.of(JUDGEMENT)
    assert {run.results.records[row.edit].eraser: row.detail["word"] for row in judged} == edits
    for start in says:
        assert any(start in sentence for sentence in run.findings), run.findings
    assert len(run.verdict.lines) <= MOST_LINES
    assert all(" ".join(line.split()) in printed for line in run.verdict.lines)
