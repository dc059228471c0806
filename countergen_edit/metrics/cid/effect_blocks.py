"""How the perturbation effect is shown: λ* by kind, and similarity by λ (Figures 4 and 9).

Comes in: rows `cid_lambda_star` and `cid_similarity`. Goes out: blocks of the tab `cid`.
"""

from __future__ import annotations

from countergen_edit.metrics.blocks import Block, Cell, Figure, Number, Table
from countergen_edit.metrics.cid.contrasts import LAMBDA
from countergen_edit.metrics.cid.perturbation_effect import KIND
from countergen_edit.metrics.panels import Panel, Series, line
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import Row


def effect_blocks(results: Results) -> list[Block]:
    """λ* of every kind of perturbation; nothing where there are none."""
    rows = results.of("cid_lambda_star")
    if not rows:
        return []
    largest = rows[0].detail["largest"]
    panel = Panel("λ* by kind of perturbation", "λ*", "", tuple(map(_spread, rows)), downwards=True)
    note = (
        "Every dot is a pair of prompts, boxes are quartiles. A pair that no λ drove apart is "
        f"drawn at the largest, {largest:g}."
    )
    titles = ("kind of perturbation", "median λ*", "quartiles", "never apart", "n")
    meaning = (
        f"λ* drives the two sides below a similarity of {rows[0].detail['tau']:g}; smaller is "
        "stronger."
    )
    lines = tuple(map(_line, rows))
    return [
        Figure("cid_effects", "Perturbation effect", (panel,), note),
        Table("cid_effects", "Perturbation effect", titles, lines, meaning, brief=True),
        Table(
            "cid_similarity",
            "Similarity of the two continuations",
            ("λ", "mean", "n"),
            tuple(
                (f"{row.facets[LAMBDA]:g}", Number.of(row), str(row.n))
                for row in results.of("cid_similarity")
            ),
            brief=True,
        ),
    ]


def similarity_panels(results: Results) -> list[Panel]:
    """Similarity of the two sides by λ, with τ."""
    rows = results.of("cid_similarity")
    if not rows:
        return []
    tau = float(rows[0].detail["tau"])
    series = (
        line("similarity", [float(row.facets[LAMBDA]) for row in rows], rows),
        Series(f"τ = {tau:g}", (), (tau,), kind="level", baseline=True),
    )
    return [Panel("similarity of the two sides", "λ", "cosine", series)]


def _spread(row: Row) -> Series:
    kind, largest = str(row.facets[KIND]), row.detail["largest"]
    values = tuple(float(largest if v is None else v) for v in row.detail["values"])
    tips = tuple(f"{kind}: {value:g}" for value in values)
    return Series(kind, (kind,) * len(values), values, kind="spread", tips=tips)


def _line(row: Row) -> tuple[Cell, ...]:
    largest = row.detail["largest"]
    low, high = (f"> {largest:g}" if q is None else f"{q:g}" for q in row.detail["quartiles"])
    median: Cell = f"> {largest:g}" if row.value is None else Number.of(row, 1)
    kind, never = str(row.facets[KIND]), str(row.detail["never"])
    return (kind, median, f"{low} to {high}", never, str(row.n))
