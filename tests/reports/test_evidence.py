"""The evidence of a run holds its figures, and its records are valid in their formats."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from huggingface_hub.repocard_data import model_index_to_eval_results

from countergen_edit.metrics.rows import UNEDITED, Row
from countergen_edit.reports.evidence import write_evidence
from countergen_edit.reports.render.card import model_card
from countergen_edit.runs.run import Run
from tests.reports.runs import LEACE, MANIFEST, audit_rows, in_memory
from tests.reports.test_card_and_closing import CARD

RAN = {
    "begin": "2026-11-24T08:00:00+00:00",
    "end": "2026-11-24T08:01:00+00:00",
    "seconds": 60.0,
    "hardware": ["a processor, 2 cores"],
}
AUDIT = in_memory(audit_rows(), MANIFEST | {"ran": RAN})
ALONE = in_memory([row for row in audit_rows() if row.edit == UNEDITED])


def written(run: Run, folder: Path) -> dict[str, str]:
    return {path.name: path.read_text("utf-8") for path in write_evidence(run, folder)}


def measured(rows: list[Row], edit: str) -> list[Row]:
    names = ("group_effect", "agreement", "perplexity_ratio")
    return [r for r in rows if (r.metric, r.edit, r.split) in [(n, edit, "test") for n in names]]


@pytest.mark.parametrize("run", [AUDIT, ALONE], ids=["edited", "unedited"])
def test_the_bill_of_materials_is_valid_and_has_every_figure(run: Run, tmp_path: Path) -> None:
    text = written(run, tmp_path)["bom.cdx.json"]
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    [component] = json.loads(text)["components"]
    card = component["modelCard"]
    edit = LEACE["edit"] if run is AUDIT else UNEDITED
    found = {
        (m["slice"], float(m["value"]), float(m["confidenceInterval"]["lowerBound"]))
        for m in card["quantitativeAnalysis"]["performanceMetrics"]
    }
    expected = measured(run.results.rows, edit)
    assert len(expected) >= 3
    assert {(row.dataset, row.value, row.lo) for row in expected} <= found
    [assessment] = card["considerations"]["fairnessAssessments"]
    assert assessment["groupAtRisk"] == "female and male (gender)"
    assert (assessment["mitigationStrategy"] == "No edit was made.") == (run is ALONE)


def test_the_model_index_is_read_by_the_hub_here_and_in_the_card(tmp_path: Path) -> None:
    own = yaml.safe_load(written(AUDIT, tmp_path)["model_index.yaml"])["model-index"]
    in_card = yaml.safe_load(model_card(AUDIT, *CARD).split("---\n")[1])["model-index"]
    assert in_card == own
    name, results = model_index_to_eval_results(own)
    assert name == "testbed"
    found = {(r.metric_type, r.dataset_name, r.metric_value) for r in results}
    rows = measured(AUDIT.results.rows, LEACE["edit"])
    assert {(row.metric, row.dataset, row.value) for row in rows} <= found
    before = {row.dataset: row.value for row in measured(AUDIT.results.rows, UNEDITED)}
    effects = [r for r in results if r.metric_type == "group_effect"]
    assert {r.dataset_name: r.metric_args["unedited"] for r in effects}.items() <= before.items()


def test_the_document_says_both_figures_the_budget_and_what_is_missing(tmp_path: Path) -> None:
    text = written(AUDIT, tmp_path)["evidence.md"]
    [line] = [line for line in text.splitlines() if line.startswith("| perplexity ratio |")]
    assert line.count("1.250 [1.200, 1.300]") == 2
    assert "| 0.5 |" in line
    assert "no legal advice" in text
    assert "Not covered" in text
    assert MANIFEST["model_hash"] in text
    assert "2026-11-24 08:00 UTC" in text
    alone = written(ALONE, tmp_path)["evidence.md"]
    assert "no edit was made" in alone
    assert "budget" not in alone
