"""What an edit costs: agreement kept and lost, and harm to text about nobody."""

from __future__ import annotations

from countergen_edit.reports.blocks import Cell, Figure, Number, Section, Table
from countergen_edit.reports.figures.panels import Panel
from countergen_edit.reports.run import Run
from countergen_edit.reports.sections.labels import COVERED, compared, edit_label, listed

NEUTRAL = {
    "perplexity": ("perplexity of neutral text", "", 3),
    "perplexity_ratio": ("perplexity", "edited / unedited", 4),
    "kl": ("KL from the unedited model", "nats per token", 4),
}
"""Metrics on neutral text → what they are called, their unit, and digits."""


def costs(run: Run) -> Section | None:
    """Agreement and neutral text, before and after."""
    results = run.results
    agreement = results.unedited("agreement")
    neutral = [(row, *NEUTRAL[m]) for m in NEUTRAL for row in results.unedited(m)]
    if not agreement and not neutral:
        return None
    edits = compared(results)
    panels, lines = [], []
    for row in agreement:
        who = "both groups" if row.group_b else row.group_a
        series = tuple(listed(results, row))
        title = f"agreement, {who}"
        panels.append(Panel(title, "P(right form)", "", series, True, limits=(0, 1)))
        cells: list[Cell] = [Number.of(results.under(row, edit)) for edit in edits]
        lines.append((title, *cells, str(row.n)))
    for row, label, unit, digits in neutral:
        if unit:
            series = tuple(listed(results, row))
            panels.append(Panel(label, unit, "", series, True, covers=COVERED[row.metric]))
        cells = [Number.of(results.under(row, edit), digits) for edit in edits]
        lines.append((f"{label}, {unit}" if unit else label, *cells, str(row.n)))
    figure = Figure(
        "costs",
        "Agreement kept and lost, and harm to neutral text",
        tuple(panels),
        "Agreement is grammar: after a prompt about a woman “her” is right. An edit that lowers it "
        "misgenders people. Perplexity and KL are measured on text about nobody.",
    )
    table = Table(
        "costs",
        "What each edit costs",
        ("cost", *map(edit_label, edits), "n"),
        tuple(lines),
        "Agreement is P(right form).",
    )
    return Section("costs", "Costs", (figure, table))
