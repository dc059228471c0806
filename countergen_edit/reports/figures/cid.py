"""The figures of contrastive input decoding (Yona et al. 2023: 2, 4, 6, 7 and 9), from rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from countergen_edit.metrics.rows import Row
from countergen_edit.reports.results import Results


def biased_fractions(results: Results) -> Any:
    """Share of biased continuations against λ, by group (Figures 2, 6 and 7).

    What people rated is drawn in full, what the lexicon rated dashed and labelled automatic.
    """
    figure = _figure("Biased continuations", "λ", "share")
    for metric, label, dash in (
        ("cid_biased_fraction", "", "solid"),
        ("cid_biased_fraction_automatic", " (automatic, lexicon)", "dash"),
    ):
        rows = results.of(metric)
        for edit, group in dict.fromkeys((row.edit, row.group_a) for row in rows):
            chosen = [row for row in rows if (row.edit, row.group_a) == (edit, group)]
            name = group + ("" if edit == "none" else f", {edit}") + label
            figure.add_scatter(**_points(chosen), name=name, line={"dash": dash})
    return figure.update_yaxes(range=[0, 1])


def divergence(results: Results) -> Any:
    """Divergence along the CID path against λ, before and after each edit."""
    rows = results.of("cid_divergence")
    figure = _figure("Divergence along the CID path", "λ", "Jensen–Shannon, nats a token")
    for edit in dict.fromkeys(row.edit for row in rows):
        name = "before" if edit == "none" else edit
        figure.add_scatter(**_points([row for row in rows if row.edit == edit]), name=name)
    return figure.update_yaxes(rangemode="tozero")


def lambda_star(results: Results) -> Any:
    """λ* by kind of perturbation: median, quartiles and every value (Figure 4).

    A perturbation that no λ of the grid drove apart is drawn at the largest.
    """
    rows = results.of("cid_lambda_star")
    figure = _figure("Perturbation effect", "kind of perturbation, strongest first", "λ*")
    for row in rows:
        largest = row.detail["largest"]
        low, middle, high = (
            largest if q is None else q
            for q in (row.detail["quartiles"][0], row.value, row.detail["quartiles"][1])
        )
        values = [largest if value is None else value for value in row.detail["values"]]
        figure.add_box(
            x=[row.dataset],
            q1=[low],
            median=[middle],
            q3=[high],
            name=row.dataset,
            lowerfence=[values[0]],
            upperfence=[values[-1]],
            showlegend=False,
        )
        figure.add_scatter(
            x=[row.dataset] * len(values),
            y=values,
            mode="markers",
            showlegend=False,
            marker={"size": 5, "color": "rgba(0,0,0,0.4)"},
        )
    return figure


def similarity(results: Results) -> Any:
    """Mean similarity of the two continuations against λ (Figure 9)."""
    rows = results.of("cid_similarity")
    figure = _figure("Similarity of the two continuations", "λ", "cosine")
    figure.add_scatter(**_points(rows), name="mean")
    if rows:
        figure.add_hline(y=rows[0].detail["tau"], line_dash="dot", annotation_text="τ")
    return figure


FIGURES: dict[str, tuple[str, Callable[[Results], Any]]] = {
    "biased_fractions": ("cid_biased_fraction_automatic", biased_fractions),
    "divergence": ("cid_divergence", divergence),
    "lambda_star": ("cid_lambda_star", lambda_star),
    "similarity": ("cid_similarity", similarity),
}
"""Name → the metric a figure needs, and what draws it."""


def figures(results: Results) -> dict[str, Any]:
    """Every figure for which the run has rows."""
    return {name: draw(results) for name, (metric, draw) in FIGURES.items() if results.of(metric)}


def page(results: Results) -> str:
    """All figures on one page that needs no network."""
    parts: list[str] = []
    for figure in figures(results).values():
        parts.append(figure.to_html(full_html=False, include_plotlyjs=not parts))
    return "<!doctype html><meta charset='utf-8'>" + "\n".join(parts)


def _figure(title: str, x: str, y: str) -> Any:
    from plotly.graph_objects import Figure  # late: slow to import

    return Figure(layout={"title": title, "template": "plotly_white"}).update_layout(
        xaxis_title=x, yaxis_title=y
    )


def _points(rows: list[Row]) -> dict[str, Any]:
    """One point a row, with its interval as an error bar."""
    up, down = (
        [
            None if row.value is None or end is None else sign * (end - row.value)
            for row, end in ends
        ]
        for sign, ends in (
            (1, [(row, row.hi) for row in rows]),
            (-1, [(row, row.lo) for row in rows]),
        )
    )
    return {
        "x": [row.detail["lambda"] for row in rows],
        "y": [row.value for row in rows],
        "error_y": {"type": "data", "symmetric": False, "array": up, "arrayminus": down},
        "mode": "lines+markers",
    }
