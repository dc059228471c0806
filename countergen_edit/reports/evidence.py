"""Evidence of how a bias was examined and mitigated, for technical documentation.

`evidence.md` follows points of Regulation (EU) 2024/1689 (AI Act): Annex IV 2(g), Article 10(2)(f)
to (h).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from countergen_edit.core.writing import whole
from countergen_edit.decisions.judgement import selected
from countergen_edit.metrics.rows import UNEDITED
from countergen_edit.reports.findings import advice, cautions
from countergen_edit.reports.render.card import figure_lines, filled
from countergen_edit.runs.run import Run


def write_evidence(run: Run, folder: Path) -> Path:
    """Write the examination, the mitigation and their limits in Markdown; the path."""
    parts = [_part(part) for part in run.by_task().values()]
    about = {"title": run.title, "parts": parts, "cautions": cautions(run)}
    with whole(folder / "evidence.md") as temporary:
        temporary.write_text(filled("evidence.md.jinja", run, **about), "utf-8")
    return folder / "evidence.md"


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
        "caveats": dict.fromkeys(s for view in run.views for s in view.caveats(results)),
    }
