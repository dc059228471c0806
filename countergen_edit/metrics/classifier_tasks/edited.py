"""Edited classifiers: each measure before and after, and how many answers an edit leaves.

Comes in: rows of a task as it came and under edits. Goes out: rows of what an edit leaves as it
was, tables and sentences. An edit is fitted on original templates, so that their rewordings say
whether it holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Bool

from countergen_edit.metrics.blocks import Block, Cell, Number, Table
from countergen_edit.metrics.classifier_tasks.base import Asked
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import UNEDITED, Row
from countergen_edit.metrics.statistics import bootstrap_mean

KEPT = "answers_kept"
"""The share of texts that an edit leaves with the answer that they had."""
EVEN: Mapping[str, float] = {"b_associations": 50.0}
"""What a measure is where groups are treated alike; 0 where it is not named."""


def kept_rows(asked: Sequence[Asked], kept: Bool[np.ndarray, " text"], seed: int) -> list[Row]:
    """`answers_kept` of each template's rewordings, and of all, with intervals over texts."""
    of = np.array([one.family for one in asked])
    rows = []
    for name in (*dict.fromkeys(of.tolist()), "all"):
        own = kept if name == "all" else kept[of == name]
        e = bootstrap_mean(own.astype(np.float64), seed, KEPT, name)
        rows.append(Row(KEPT, **e.columns, dataset=name, n=len(own), seed=seed))
    return rows


def edits_of(results: Results) -> list[str]:
    """The ids of the edits that a task was measured under, in the order of measuring."""
    return [e for e in dict.fromkeys(row.edit for row in _wordings(results)) if e != UNEDITED]


def before_and_after(results: Results) -> list[Block]:
    """What each edit makes of every template, and of every wording; nothing without edits."""
    edits = edits_of(results)
    return [_by_template(results, edits), _by_wording(results, edits)] if edits else []


def edit_sentences(results: Results) -> list[str]:
    """What each edit makes of the rewordings, on which none was fitted, and what it leaves."""
    sentences = []
    measures = dict.fromkeys(row.metric for row in _wordings(results))
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
            f"{results.label(edit)} on rewordings, to which it was not fitted, in mean size: "
            f"{sizes}; {share.text} of their answers stay."
        )
    return sentences


def _wordings(results: Results) -> list[Row]:
    return [
        row
        for row in results.rows
        if not row.split and "wording" in row.facets and "test" not in row.facets
    ]


def _mean_size(
    results: Results, metric: str, dataset: str | None, edit: str, *, original: bool
) -> Number:
    """How far a measure is, in the mean over wordings, from that of groups treated alike."""
    sizes = [
        abs(row.value - EVEN.get(metric, 0.0))
        for row in _wordings(results)
        if row.metric == metric
        and row.edit == edit
        and dataset in (None, row.dataset)
        and row.detail.get("original") is original
        and row.value is not None
    ]
    return Number(float(np.mean(sizes)) if sizes else None)


def _by_template(results: Results, edits: Sequence[str]) -> Table:
    kept = {(row.dataset, row.edit): row for row in results.of(KEPT, split="")}
    originals = [row for row in _wordings(results) if row.detail.get("original")]
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
        ("measure", "edit", "original", "rewordings, mean size", "answers kept"),
        tuple(lines),
        "Edits are fitted on the original templates; what they do to rewordings they were not "
        "fitted to. Mean size is the distance from groups treated alike. Answers kept: of the "
        "rewordings' texts, those that get the answer that they got before.",
        grouped=True,
        brief=True,
    )


def _by_wording(results: Results, edits: Sequence[str]) -> Table:
    lines: list[tuple[Cell, ...]] = [
        (
            row.dataset,
            str(row.facets["wording"]),
            "original" if row.detail.get("original") else "",
            row.metric.replace("_", " "),
            *(Number.of(results.under(row, edit)) for edit in (UNEDITED, *edits)),
        )
        for row in _wordings(results)
        if row.edit == UNEDITED
    ]
    labels = [results.label(edit) for edit in (UNEDITED, *edits)]
    return Table(
        "classifier_wordings_edited",
        "Wording by wording, before and after",
        ("template", "wording", "", "measure", *labels),
        tuple(lines),
        searchable=True,
        grouped=True,
    )
