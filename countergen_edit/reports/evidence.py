"""Evidence of how a bias was examined and mitigated, for technical documentation.

`evidence.md` follows points of Regulation (EU) 2024/1689 (AI Act): Annex IV 2(g), Article 10(2)(f)
to (h). `bom.cdx.json` is a CycloneDX 1.6 bill of materials with a model card, `model_index.yaml`
the model index of a card on the Hugging Face hub.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from countergen_edit.core.writing import whole
from countergen_edit.decisions.judgement import selected
from countergen_edit.edits import EditRecord
from countergen_edit.metrics.rows import UNEDITED, Row
from countergen_edit.reports.findings import advice, cautions
from countergen_edit.reports.render.card import eval_results, figure_lines, filled
from countergen_edit.reports.views.base import Quantity
from countergen_edit.runs.run import Run

UNEDITED_ONLY = "No edit was made."
UNSEEN = "not measured"


def write_evidence(run: Run, folder: Path) -> list[Path]:
    """Write the document and both records into a folder; their paths."""
    texts = {"evidence.md": document, "bom.cdx.json": bom, "model_index.yaml": index}
    for name, text in texts.items():
        with whole(folder / name) as temporary:
            temporary.write_text(text(run), "utf-8")
    return [folder / name for name in texts]


def document(run: Run) -> str:
    """The examination, the mitigation and their limits, in Markdown."""
    parts = [_part(part) for part in run.by_task().values()]
    return filled("evidence.md.jinja", run, title=run.title, parts=parts, cautions=cautions(run))


def bom(run: Run) -> str:
    """A CycloneDX bill of materials of the model, with a model card, as JSON."""
    manifest, parts = run.manifest, [*run.by_task().values()]
    figures = [of for part in parts for of in _figures(part, selected(part.results))]
    caveats = [text for part in parts for text in _caveats(part)]
    assessments = [
        {
            "groupAtRisk": part["groups"],
            "harms": " ".join(part["examined"]) or UNSEEN,
            "mitigationStrategy": " ".join(part["mitigated"]) or UNEDITED_ONLY,
        }
        for part in map(_part, parts)
    ]
    limits = [*cautions(run), *dict.fromkeys(caveats)]
    card = {
        "modelParameters": {"task": "text-generation"},
        "quantitativeAnalysis": {"performanceMetrics": [_measured(*of) for of in figures]},
        "considerations": {"technicalLimitations": limits, "fairnessAssessments": assessments},
    }
    hashed, name = manifest.get("model_hash"), str(manifest.get("model", run.name))
    model: dict[str, Any] = {"type": "machine-learning-model", "bom-ref": "model"}
    model |= {"name": name, "modelCard": card}
    model |= {"hashes": [{"alg": "SHA-256", "content": hashed}]} if hashed else {}
    version = manifest.get("versions", {}).get("countergen-edit")
    tool = _known({"type": "application", "name": "countergen-edit", "version": version})
    made = {"tools": {"components": [tool]}, "timestamp": manifest.get("ran", {}).get("end")}
    about = {"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1}
    schema = {"$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json"}
    content = schema | about | {"metadata": _known(made), "components": [model]}
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def index(run: Run) -> str:
    """The model index of the run's edited or unedited model, as YAML."""
    from huggingface_hub.repocard_data import eval_results_to_model_index

    results = [x for p in run.by_task().values() for x in eval_results(p, selected(p.results))]
    name = Path(str(run.manifest.get("model", run.name))).name
    content = {"model-index": eval_results_to_model_index(name, results)}
    return yaml.safe_dump(content, sort_keys=False, allow_unicode=True)


def _part(run: Run) -> dict[str, Any]:
    """The figures and sentences of one task."""
    record, results = selected(run.results), run.results
    first = next((row for row in results.rows if row.group_a and row.group_b), results.rows[0])
    groups = " and ".join(filter(None, (first.group_a, first.group_b)))
    about = results.only(edits=[UNEDITED, *([record.id] if record else [])])
    biases = [view for view in run.views if view.kind == "bias"]
    others = [view for view in run.views if view.kind != "bias"]
    names = run.manifest.get("names", {}).get(results.task or first.axis, {})
    outcomes = [view.outcome(about, record) for view in biases] if record else []
    return {
        "groups": f"{groups} ({first.axis})" if first.axis else groups,
        "edit": record,
        "examined": [line for view in biases for line in view.headline(about)],
        "mitigated": [*advice(results), *filter(None, outcomes)],
        "remaining": [s for v in others for s in v.remaining(about, record)] if record else [],
        "names": {split: {g: len(own) for g, own in by.items()} for split, by in names.items()},
        "figures": figure_lines(run, record, "bias", "cost"),
        "caveats": _caveats(run),
    }


def _figures(run: Run, record: EditRecord | None) -> list[tuple[Quantity, Row]]:
    """Bias and costs on test data, with the rows under an edit or of the unedited model."""
    edit = UNEDITED if record is None else record.id
    every = [q for q in run.quantities("test") if q.kind != "other"]
    return [(q, q.rows[edit]) for q in every if edit in q.rows]


def _measured(quantity: Quantity, row: Row) -> dict[str, Any]:
    ends = {"lowerBound": f"{row.lo}", "upperBound": f"{row.hi}"} if row.lo is not None else None
    found = {"type": quantity.title, "value": f"{row.value}", "slice": row.dataset}
    return _known({**found, "confidenceInterval": ends})


def _known(content: dict[str, Any]) -> dict[str, Any]:
    """The entries that have a value."""
    return {key: value for key, value in content.items() if value is not None}


def _caveats(run: Run) -> list[str]:
    return [*dict.fromkeys(s for view in run.views for s in view.caveats(run.results))]
