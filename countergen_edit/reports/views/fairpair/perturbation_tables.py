"""FairPair's Tables 1 and 2: how often perturbing worked, and perturbations with their similarity.

Comes in: the rows of a run. Goes out: plain tables. Nothing is computed here.
"""

from __future__ import annotations

from countergen_edit.data.fairpair import UNITS
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import Row
from countergen_edit.reports.blocks import Cell, Number, Table
from countergen_edit.reports.views.fairpair.tables import published_success

FILTERS = (
    "By characters: the Jaccard similarity that comes nearest to the paper's Table 2; by neutral "
    "words: ours, without the words of either group, which any right perturbation changes."
)


def perturbed(results: Results) -> Table | None:
    """How often perturbing worked (Table 1), whatever the third filter compares."""
    rows = results.of("fairpair_perturbed")
    if not rows:
        return None
    lines: list[tuple[Cell, ...]] = [
        (
            results.label(row.edit),
            Number.of(row, 4, percent=True),
            *(Number(row.detail["shares"][unit], digits=4, percent=True) for unit in UNITS),
            _reasons(row),
            str(row.n),
        )
        for row in rows
    ]
    if (success := published_success(results)) is not None:
        number = Number(success / 100, digits=4, percent=True)
        lines.append(("published", number, *[""] * (len(UNITS) + 2)))
    by = [f"by {unit}" for unit in UNITS]
    return Table(
        "fairpair_perturbed",
        "Perturbations that pass",
        ("edit", "pass the filters", *by, "left out", "n"),
        tuple(lines),
        f"The third filter of this run compares {rows[0].detail['compared']}. {FILTERS}",
    )


def perturbations(results: Results) -> Table | None:
    """Perturbations that passed and that did not, with their similarity (Table 2)."""
    lines: list[tuple[Cell, ...]] = []
    for row in results.of("fairpair_perturbed"):
        for e in row.detail.get("examples", []):
            outcome = "passed" if e["left_out"] is None else f"left out: {e['left_out']}"
            alike = [Number(1 - e["dissimilarity"][unit], digits=4, percent=True) for unit in UNITS]
            lines.append((results.label(row.edit), e["original"], e["perturbed"], *alike, outcome))
    columns = ("edit", "original", "perturbed", *(f"alike by {unit}" for unit in UNITS), "filters")
    name, title = "fairpair_perturbations", "Examples of perturbations"
    return Table(name, title, columns, tuple(lines), FILTERS) if lines else None


def _reasons(row: Row) -> str:
    left_out = row.detail.get("left_out", {})
    return ", ".join(f"{reason}: {count}" for reason, count in left_out.items() if count)
