"""How the perturbation effect is shown: λ* by kind, similarity by λ, and the perturbations one by
one (Figures 4, 9 and 8).

Comes in: rows `cid_lambda_star` and `cid_similarity`. Goes out: blocks of the tab `cid`.
"""

from __future__ import annotations

from countergen_edit.metrics.cid.contrasts import LAMBDA
from countergen_edit.metrics.cid.perturbation_effect import KIND
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import Row
from countergen_edit.reports.blocks import Block, Cell, Figure, Number, Table
from countergen_edit.reports.panels import Panel, Series, line


def effect_blocks(results: Results) -> list[Block]:
    """λ* of every kind of perturbation; nothing where there are none."""
    rows = results.of("cid_lambda_star")
    if not rows:
        return []
    largest = rows[0].detail["largest"]
    panel = Panel("λ* by kind of perturbation", "λ*", "", tuple(map(_spread, rows)), downwards=True)
    note = (
        "Every dot is a pair of prompts, boxes are quartiles, whose median is that of the table. A "
        f"pair that no λ drove apart is drawn at the largest, {largest:g}."
    )
    titles = ("kind of perturbation", "median λ*", "quartiles", "never apart", "sentences", "n")
    meaning = (
        f"λ* drives the two sides below a similarity of {rows[0].detail['tau']:g}; smaller is "
        "stronger. Sentences are what was perturbed; where there are several, they are drawn for "
        "the intervals."
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
        Table(
            "cid_perturbations",
            "Perturbations one by one",
            ("kind of perturbation", "perturbation", "of", "λ*"),
            tuple(
                (str(row.facets[KIND]), text, source, _at(value, row.detail["largest"]))
                for row in rows
                for (source, text), value in zip(
                    row.detail["perturbations"], row.detail["values"], strict=True
                )
            ),
            "Strongest first.",
            searchable=True,
            grouped=True,
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
    values = tuple(_drawn(value, largest) for value in row.detail["values"])
    low, high = row.detail["quartiles"]
    box = tuple(_drawn(value, largest) for value in (low, row.value, high))
    tips = tuple(f"{kind}: {value:g}" for value in values)
    return Series(kind, (kind,) * len(values), values, kind="spread", tips=tips, box=box)


def _drawn(value: float | None, largest: float) -> float:
    return float(largest if value is None else value)


def _at(value: float | None, largest: float) -> str:
    return f"> {largest:g}" if value is None else f"{value:.3g}"


def _line(row: Row) -> tuple[Cell, ...]:
    largest = row.detail["largest"]
    low, high = (_at(quartile, largest) for quartile in row.detail["quartiles"])
    median: Cell = _at(row.value, largest) if row.value is None else Number.of(row, 1)
    if row.value is not None and row.lo is not None and row.hi is None:
        median = f"{row.value:.1f} ({row.lo:.1f} to > {largest:g})"
    never, sentences = str(row.detail["never"]), str(row.detail["sources"])
    return (str(row.facets[KIND]), median, f"{low} to {high}", never, sentences, str(row.n))
