"""What raters said of a run, as rows beside its results.

Comes in: rows of a run and what raters agreed on. Goes out: rows `cid_biased_fraction` and
`cid_rater_agreement` in `ratings.jsonl`, and results with them. Refused: a damaged file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from countergen_edit.core.reading import json_lines
from countergen_edit.core.writing import whole
from countergen_edit.metrics.cid.contrasts import DATASET, Continuation
from countergen_edit.metrics.cid.ratings import Item, agreed, agreement
from countergen_edit.metrics.cid.statistics import fraction_rows
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import Row

RATINGS = "ratings.jsonl"
"""The file within a run folder."""
FRACTION, AGREEMENT = "cid_biased_fraction", "cid_rater_agreement"

Store = Mapping[tuple[str, str], Sequence[Continuation]]
"""(task, id of the edit) → its continuations."""


def rated_rows(
    rows: Sequence[Row], texts: Store, ratings: Mapping[str, Mapping[Item, bool]], seed: int
) -> list[Row]:
    """The share of biased continuations by edit, group and λ, and how far raters agreed.

    Args:
        rows: of the run, whose edits the texts were written under.
        texts: the run's continuations.
        ratings: sheet → what its rater said of all items.
        seed: the seed of what is drawn.
    """
    answers = list(ratings.values())
    biased = {(item.template, item.text): yes for item, yes in agreed(answers).items()}
    by_people = {"rated_by": f"{len(ratings)} rater(s), majority", "sheets": list(ratings)}
    rows_of_edits = {(row.task, row.edit): row for row in rows if row.metric == "cid_divergence"}
    shares = [
        replace(
            row,
            task=about.task,
            edit=about.edit,
            eraser=about.eraser,
            site=about.site,
            layers=about.layers,
            rank=about.rank,
            baseline=about.baseline,
            split="test",
        )
        for key, items in texts.items()
        if (about := rows_of_edits.get(key)) is not None
        for row in fraction_rows(items, biased, FRACTION, seed, axis=about.axis, rated_by=by_people)
    ]
    if len(answers) < 2:
        return shares
    kappa = agreement(answers, seed).columns
    reason = {"reason": "every rater gave the same answer throughout"}
    shared = Row(
        AGREEMENT,
        **kappa,
        dataset=DATASET,
        split="test",
        n=len(answers[0]),
        seed=seed,
        detail={
            "statistic": "Fleiss' kappa",
            **by_people,
            **(reason if kappa["value"] is None else {}),
        },
    )
    return [*shares, shared]


def write_ratings(run: Path, rows: Sequence[Row]) -> None:
    """Keep rated rows in a run folder, in the place of those of an earlier rating."""
    lines = (json.dumps(row.to_dict(), ensure_ascii=False) + "\n" for row in rows)
    with whole(run / RATINGS) as temporary:
        temporary.write_text("".join(lines), "utf-8")


def with_ratings(results: Results) -> Results:
    """The results with what raters said of their edits, where the run's folder holds that.

    Raises:
        UserError: a line of the file is not a row.
    """
    path = None if results.folder is None else results.folder / RATINGS
    if path is None or not path.is_file():
        return results
    edits = {row.edit for row in results.rows}
    rows = []
    for where, content in json_lines(path):
        row = Row.from_dict(content, where)
        if row.edit in edits and (not results.task or row.task in ("", results.task)):
            rows.append(row)
    return Results([*results.rows, *rows], results.records, results.folder, results.task)
