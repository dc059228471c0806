"""Figures 3 to 6 of FairPair from the rows of a run, as Plotly figures.

Comes in: `Results`. Goes out: figures by name; those whose rows the run lacks are absent. Nothing
is computed here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from countergen_edit.errors import UserError
from countergen_edit.metrics.rows import Row
from countergen_edit.reports.results import Results

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

_QUANTITIES = (("B", 1), ("V_gp", 2), ("V_pg", 3))


def fairpair_figures(results: Results) -> dict[str, Figure]:
    """Every figure that the rows allow, by name.

    `samples/<Φ>` is the paper's Figure 3, `folds/<Φ>` Figure 4, `distributions/<Φ>` Figure 5 and
    `phrases/<edit>` Figure 6.

    Raises:
        UserError: Plotly is not installed.
    """
    figures: dict[str, Figure] = {}
    for row in _unique(results.of("fairpair_bias"), "dataset"):
        phi = row.dataset.rpartition("/")[2]
        rows = [r for r in results.of("fairpair_bias") if r.dataset == row.dataset]
        for key, name, axis in (
            ("by_samples", "samples", "continuations of each side"),
            ("by_folds", "folds", "folds of each side"),
        ):
            if any(key in r.detail for r in rows):
                figures[f"{name}/{phi}"] = _curves(rows, key, axis, phi)
        distributions = [r for r in results.of("fairpair_f") if r.dataset == row.dataset]
        figures[f"distributions/{phi}"] = _distributions(distributions, phi)
    for row in results.of("fairpair_ngrams"):
        if row.detail["terms"]:
            figures[f"phrases/{row.edit}"] = _phrases(row)
    return figures


def _plotly() -> Any:
    try:
        import plotly.graph_objects as go
    except ImportError:
        raise UserError("figures need plotly: pip install 'countergen-edit[report]'") from None
    return go


def _unique(rows: list[Row], column: str) -> list[Row]:
    return list({getattr(row, column): row for row in reversed(rows)}.values())[::-1]


def _curves(rows: list[Row], key: str, axis: str, phi: str) -> Figure:
    """B and both V against the number of samples or folds, a line for each edit."""
    go = _plotly()
    figure = go.Figure()
    for row in rows:
        points = row.detail.get(key, [])
        for name, column in _QUANTITIES:
            figure.add_scatter(
                x=[point[0] for point in points],
                y=[point[column] for point in points],
                mode="lines+markers",
                name=f"{name}, {row.edit}",
                line={"dash": "solid" if name == "B" else "dot"},
            )
    figure.update_layout(xaxis_title=axis, yaxis_title=f"mean over prompts ({phi})")
    return figure


def _distributions(rows: list[Row], phi: str) -> Figure:
    """B, V_gp and V_pg of every prompt, side by side for each edit."""
    go = _plotly()
    figure = go.Figure()
    for name, column in _QUANTITIES:
        values = [(row.edit, prompt) for row in rows for prompt in row.detail["prompts"]]
        figure.add_box(
            x=[edit for edit, _ in values],
            y=[prompt[column] for _, prompt in values],
            text=[prompt[0] for _, prompt in values],
            name=name,
            boxpoints="all",
        )
    figure.update_layout(boxmode="group", yaxis_title=f"{phi}, one point a prompt")
    return figure


def _phrases(row: Row) -> Figure:
    """How much of each side's continuations has a phrase, the most telling ones of both sides."""
    go = _plotly()
    terms = row.detail["terms"]
    figure = go.Figure()
    for side, key in ((row.detail["source"], "share_pg"), (row.detail["target"], "share_gp")):
        figure.add_bar(
            y=[term["text"] for term in terms],
            x=[term[key] for term in terms],
            name=f"prompts about {side}",
            orientation="h",
        )
    figure.update_layout(
        barmode="group", xaxis_title="share of continuations", xaxis_tickformat=".0%"
    )
    return figure
