"""The tables of Seshadri et al. 2022: what a template says, and what its rewordings say."""

from __future__ import annotations

from collections.abc import Callable

from rich import box
from rich.table import Table

from countergen_edit.metrics.rows import Row
from countergen_edit.reports.results import Results
from countergen_edit.reports.table import number, percent

OVER_WORDINGS = " over wordings"
"""Ends the names of metrics that say how a measure spreads over wordings."""


def template_table(results: Results, table: str, model: str, *, published: bool) -> Table:
    """A task's table.

    Args:
        results: the rows of one task.
        table: what the paper calls it.
        model: whose answers these are.
        published: whether the paper's figures, being of the same model, stand beside.
    """
    drawn = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 0, 0, 1))
    drawn.title, drawn.title_justify, drawn.title_style = (
        f"[bold]{table}[/bold], {model}",
        "left",
        "",
    )
    fill: Callable[[Results, Table, bool], None] = _measures
    if results.of("category_flips", split=""):
        fill = _categories
    fill(results, drawn, published)
    return drawn


def category_name(row: Row, category: int) -> str:
    """What a test says of a template: which group is ahead, or neither.

    >>> category_name(Row("r", 0.0, group_a="female", group_b="male"), -1)
    'M>F'
    """
    a, b = row.group_a, row.group_b
    short = (a[0].upper(), b[0].upper()) if a[0] != b[0] else (a, b)
    return {1: f"{short[0]}>{short[1]}", -1: f"{short[1]}>{short[0]}", 0: "insig."}[category]


def _categories(results: Results, table: Table, published: bool) -> None:
    """Table 2: the original's category, and how many rewordings fall in each."""
    rows = results.of("category_flips", split="")
    first = rows[0]
    titles = [
        "template",
        "original",
        category_name(first, -1),
        category_name(first, 1),
        "insig.",
        "flips",
        "Holm",
    ]
    for i, title in enumerate([*titles, *(["published"] if published else [])]):
        table.add_column(title, justify="left" if i < 2 else "right")
    for row in rows:
        if row.dataset == "all":
            table.add_section()
        original = row.detail["original"]
        known = row.detail["published"]
        said = f"{known['original']} {'/'.join(map(str, known['counts']))}" if known else ""
        table.add_row(
            row.dataset,
            "" if original is None else category_name(row, original),
            *(str(count) for count in row.detail["counts"]),
            percent(row.value),
            str(row.detail["flips_holm"]),
            *([said] if published else []),
        )
    if found := next(iter(results.of("names_in_lexicon", split="")), None):
        names = ", ".join(
            f"{name} {valence:+.1f}" for name, valence in found.detail["valence"].items()
        )
        table.caption = f"In VADER's lexicon by themselves, a confound: {names or 'none'}"
        table.caption_justify = "left"


def _measures(results: Results, table: Table, published: bool) -> None:
    """Tables 3 and 4: the original's measure, its rewordings' mean, change and SD."""
    rows = [row for row in results.rows if row.metric.endswith(OVER_WORDINGS)]
    titles = ["", "original", "modified", "change", "SD", "of"]
    for i, title in enumerate([*titles, *(["published"] if published else [])]):
        table.add_column(title, justify="left" if not i else "right")
    for row in rows:
        detail = row.detail
        change = detail["change"]
        table.add_row(
            measure_name(row),
            number(detail["original"]),
            number(row.value),
            "" if change is None else f"{100 * change:+.0f}%",
            number(detail["sd"]),
            str(row.n or ""),
            *([_published(detail.get("published"))] if published else []),
        )


def measure_name(row: Row) -> str:
    """What was measured of a template over its wordings.

    >>> measure_name(Row("FPED over wordings", 0.0, dataset="all"))
    'FPED, all'
    """
    measure = row.metric.removesuffix(OVER_WORDINGS)
    if measure == "b_associations":
        return f"{row.dataset}, % {row.group_b}"
    return f"{measure}, {row.dataset}"


def _published(known: dict[str, float] | list[float] | None) -> str:
    """The paper's original, modified and SD.

    >>> _published({"original": -0.037, "modified": 0.007, "sd": 0.058})
    '-0.037 / 0.007 / 0.058'
    """
    values = known.values() if isinstance(known, dict) else known or []
    return " / ".join(map(str, values))
