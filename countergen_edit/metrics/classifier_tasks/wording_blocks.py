"""Every wording of a classifier task, drawn and listed, with what each test says of it.

Comes in: the rows of a model as it came. Goes out: figures and a table; nothing without wordings.
"""

from __future__ import annotations

from collections.abc import Sequence

from countergen_edit.metrics.blocks import Block, Cell, Figure, Number, Table
from countergen_edit.metrics.panels import Panel, Series
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import Row


def category_name(row: Row, category: int) -> str:
    """What a test says of a template: which group is ahead, or neither.

    >>> category_name(Row("r", 0.0, group_a="female", group_b="male"), -1)
    'M>F'
    """
    a, b = row.group_a, row.group_b
    short = (a[0].upper(), b[0].upper()) if a[0] != b[0] else (a, b)
    return {1: f"{short[0]}>{short[1]}", -1: f"{short[1]}>{short[0]}", 0: "insig."}[category]


def wording_blocks(results: Results) -> list[Block]:
    """Every wording, drawn and listed, with what each test says of it."""
    every = [row for row in results.rows if not row.split and "wording" in row.facets]
    rows = [row for row in every if "test" not in row.facets]
    if not rows:
        return []
    metrics = dict.fromkeys(row.metric for row in rows if row.value is not None)
    figures = [_by_wording(metric, rows) for metric in metrics]
    tests: dict[str, dict[tuple[str, str], Row]] = {}
    for row in every:
        if "test" in row.facets:
            of = row.dataset, str(row.facets["wording"])
            tests.setdefault(str(row.facets["test"]), {})[of] = row
    lines: list[tuple[Cell, ...]] = []
    for row in rows:
        first = "original" if row.detail.get("original") else ""
        of = row.dataset, str(row.facets["wording"])
        said = [cell for test in tests.values() for cell in _test_cells(test.get(of))]
        lines.append((*of, first, row.metric.replace("_", " "), Number.of(row), *said))
    titles = [title for test in tests for title in (f"over {test}", "p")]
    table = Table(
        "classifier_wordings",
        "Wording by wording",
        ("template", "wording", "", "measure", "value", *titles),
        tuple(lines),
        "Paired t-tests at 5 %, uncorrected." if tests else "",
        searchable=True,
        grouped=True,
    )
    return [*figures, table]


def _test_cells(test: Row | None) -> tuple[Cell, ...]:
    """What a test says of a wording, and its p; nothing where a task did not test it."""
    if test is None:
        return "", ""
    return category_name(test, test.detail["category"]), Number(test.value, digits=4, bounded=True)


def _by_wording(metric: str, rows: Sequence[Row]) -> Figure:
    """The values of a measure, template by template."""
    title = metric.replace("_", " ")
    own_rows = [row for row in rows if row.metric == metric and row.value is not None]
    series = []
    for template in dict.fromkeys(row.dataset for row in own_rows):
        own = [
            (row.facets["wording"], row.value or 0.0) for row in own_rows if row.dataset == template
        ]
        values = tuple(value for _, value in own)
        tips = tuple(f"{wording}: {value:.3f}" for wording, value in own)
        series.append(Series(template, (template,) * len(own), values, kind="spread", tips=tips))
    panel = Panel(title, title, "", tuple(series), downwards=True)
    note = "Every dot is one wording of a template; boxes are quartiles."
    return Figure(f"classifier_{metric}", f"{title}, by wording", (panel,), note)
