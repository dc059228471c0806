"""Tables and sentences of classifier tasks: before and after edits, and template by template.

Edits are fitted on original templates, so that paraphrases tell whether they generalise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from countergen_edit.metrics.classifier_tasks.kept import KEPT
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import UNEDITED, Row
from countergen_edit.reports.blocks import Block, Cell, Figure, Number, Table
from countergen_edit.reports.panels import Panel, Series

EVEN: Mapping[str, float] = {"b_associations": 50.0}
"""What a measure is where groups are treated alike; 0 where it is not named."""


def edits_of(results: Results) -> list[str]:
    """Ids of the edits that a task was measured under."""
    return [e for e in dict.fromkeys(row.edit for row in _templates(results)) if e != UNEDITED]


def before_and_after(results: Results) -> list[Block]:
    """What each edit makes of every template and paraphrase."""
    edits = edits_of(results)
    return [_by_template(results, edits), _by_paraphrase(results, edits)] if edits else []


def edit_sentences(results: Results) -> list[str]:
    """What each edit makes of the paraphrases, and which answers it keeps."""
    sentences = []
    measures = dict.fromkeys(row.metric for row in _templates(results))
    kept = {row.edit: row for row in results.of(KEPT, split="") if row.dataset == "all"}
    for edit in edits_of(results):
        sizes = ", ".join(
            f"{metric.replace('_', ' ')} {before.text} → {after.text}"
            for metric in measures
            for before, after in [
                [_mean_size(results, metric, None, e, original=False) for e in (UNEDITED, edit)]
            ]
        )
        share = Number.of(kept.get(edit), percent=True)
        sentences.append(
            f"{results.label(edit)} on paraphrases, to which it was not fitted, in mean size: "
            f"{sizes}; {share.text} of their answers stay."
        )
    return sentences


def _templates(results: Results) -> list[Row]:
    return [
        row
        for row in results.rows
        if not row.split and "paraphrase" in row.facets and "test" not in row.facets
    ]


def _mean_size(
    results: Results, metric: str, dataset: str | None, edit: str, *, original: bool
) -> Number:
    """Mean distance of a measure from equal treatment, over paraphrases or originals."""
    sizes = [
        abs(row.value - EVEN.get(metric, 0.0))
        for row in _templates(results)
        if row.metric == metric
        and row.edit == edit
        and dataset in (None, row.dataset)
        and row.detail.get("original") is original
        and row.value is not None
    ]
    return Number(float(np.mean(sizes)) if sizes else None)


def _by_template(results: Results, edits: Sequence[str]) -> Table:
    kept = {(row.dataset, row.edit): row for row in results.of(KEPT, split="")}
    originals = [row for row in _templates(results) if row.detail.get("original")]
    first = {row.key[:-2]: row for row in originals if row.edit == UNEDITED}
    lines: list[tuple[Cell, ...]] = []
    for row in first.values():
        for edit in (UNEDITED, *edits):
            lines.append(
                (
                    f"{row.metric.replace('_', ' ')}, {row.dataset}",
                    results.label(edit),
                    Number.of(results.under(row, edit)),
                    _mean_size(results, row.metric, row.dataset, edit, original=False),
                    Number.of(kept.get((row.dataset, edit), kept.get(("all", edit))), percent=True)
                    if edit != UNEDITED
                    else "",
                )
            )
    return Table(
        "classifier_edits",
        "Before and after",
        ("measure", "edit", "original", "paraphrases, mean size", "answers kept"),
        tuple(lines),
        "Edits are fitted on the original templates; what they do to paraphrases they were not "
        "fitted to. Mean size is the distance from groups treated alike. Answers kept: of the "
        "paraphrases' texts, those that get the answer that they got before.",
        grouped=True,
        brief=True,
    )


def _by_paraphrase(results: Results, edits: Sequence[str]) -> Table:
    lines: list[tuple[Cell, ...]] = [
        (
            row.dataset,
            str(row.facets["paraphrase"]),
            "original" if row.detail.get("original") else "",
            row.metric.replace("_", " "),
            *(Number.of(results.under(row, edit)) for edit in (UNEDITED, *edits)),
        )
        for row in _templates(results)
        if row.edit == UNEDITED
    ]
    labels = [results.label(edit) for edit in (UNEDITED, *edits)]
    return Table(
        "classifier_templates_edited",
        "Template by template, before and after",
        ("template", "paraphrase", "", "measure", *labels),
        tuple(lines),
        searchable=True,
        grouped=True,
    )


def category_name(row: Row, category: int) -> str:
    """What a test says of a template: which group is ahead, or neither.

    >>> category_name(Row("r", 0.0, group_a="female", group_b="male"), -1)
    'M>F'
    """
    a, b = row.group_a, row.group_b
    short = (a[0].upper(), b[0].upper()) if a[0] != b[0] else (a, b)
    return {1: f"{short[0]}>{short[1]}", -1: f"{short[1]}>{short[0]}", 0: "insig."}[category]


def template_blocks(results: Results) -> list[Block]:
    """Every template and paraphrase, drawn and listed, with its tests."""
    every = [row for row in results.rows if not row.split and "paraphrase" in row.facets]
    rows = [row for row in every if "test" not in row.facets]
    if not rows:
        return []
    metrics = dict.fromkeys(row.metric for row in rows if row.value is not None)
    figures = [_figure_by_template(metric, rows) for metric in metrics]
    tests: dict[str, dict[tuple[str, str], Row]] = {}
    for row in every:
        if "test" in row.facets:
            of = row.dataset, str(row.facets["paraphrase"])
            tests.setdefault(str(row.facets["test"]), {})[of] = row
    lines: list[tuple[Cell, ...]] = []
    for row in rows:
        first = "original" if row.detail.get("original") else ""
        of = row.dataset, str(row.facets["paraphrase"])
        said = [cell for test in tests.values() for cell in _test_cells(test.get(of))]
        lines.append((*of, first, row.metric.replace("_", " "), Number.of(row), *said))
    titles = [title for test in tests for title in (f"over {test}", "p")]
    table = Table(
        "classifier_templates",
        "Template by template",
        ("template", "paraphrase", "", "measure", "value", *titles),
        tuple(lines),
        "Paired t-tests at 5 %, uncorrected." if tests else "",
        searchable=True,
        grouped=True,
    )
    return [*figures, table]


def _test_cells(test: Row | None) -> tuple[Cell, ...]:
    """What a test says, and its p."""
    if test is None:
        return "", ""
    return category_name(test, test.detail["category"]), Number(test.value, digits=4, bounded=True)


def _figure_by_template(metric: str, rows: Sequence[Row]) -> Figure:
    """The values of a measure, template by template."""
    title = metric.replace("_", " ")
    own_rows = [row for row in rows if row.metric == metric and row.value is not None]
    series = []
    for template in dict.fromkeys(row.dataset for row in own_rows):
        own = [
            (row.facets["paraphrase"], row.value or 0.0)
            for row in own_rows
            if row.dataset == template
        ]
        values = tuple(value for _, value in own)
        tips = tuple(f"{template}: {value:.3f}" for template, value in own)
        series.append(Series(template, (template,) * len(own), values, kind="spread", tips=tips))
    panel = Panel(title, title, "", tuple(series), downwards=True)
    note = "Every dot is one template of a template; boxes are quartiles."
    return Figure(f"classifier_{metric}", f"{title}, by template", (panel,), note)
