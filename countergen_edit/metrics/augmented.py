"""What came of augmentation: how many texts became counterfactual pairs, and why others did not.

Comes in: texts with what was made of them. Goes out: rows, and of rows a table, examples and a
sentence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from statsmodels.stats.proportion import proportion_confint

from countergen_edit.data.augmentation import Case, Paraphrase
from countergen_edit.data.text.substitution import Substitution
from countergen_edit.metrics.rows import Row

PAIRED, TURNED, PARAPHRASED = "augmented", "augmented_turned", "augmented_paraphrases"
WORDS = {PAIRED: "texts", TURNED: "turned to {to}", PARAPHRASED: "paraphrases"}
"""Rows, and what each is a share of: texts that became pairs, texts that were turned into a group's
where they had to be, paraphrases that were kept."""
EXAMPLES = 5
"""Pairs that a report quotes."""


def augmented_rows(
    name: str,
    cases: Sequence[Case],
    paraphrases: Sequence[Paraphrase],
    substitution: Substitution,
    seed: int,
) -> list[Row]:
    """Shares with Wilson's 95 % interval, and how many were left out for which reason.

    Args:
        name: of the texts.
        cases: every text, kept paraphrases among them.
        paraphrases: every one that was asked for.
        substitution: between the two groups.
        seed: the run's seed.
    """
    a, b = substitution.groups
    about = {"dataset": name, "axis": substitution.axis.name, "group_a": a, "group_b": b}
    pairs = [case.variations((a, b)) for case in cases if not case.reason]
    quoted = [[pair[a], pair[b]] for pair in pairs[:EXAMPLES]]
    columns: dict[str, Any] = {**about, "seed": seed}
    rows = [_share(PAIRED, [c.reason for c in cases], {"examples": quoted}, **columns)]
    attempts = {a.change: a for case in cases for a in case.attempts}.values()
    for group in (a, b):
        reasons = [each.reason for each in attempts if each.change.target == group]
        if reasons:
            rows.append(_share(TURNED, reasons, facets={"to": group}, **columns))
    if paraphrases:
        rows.append(_share(PARAPHRASED, [r.reason for r in paraphrases], **columns))
    return rows


def _share(
    metric: str, reasons: Sequence[str | None], detail: dict[str, Any] | None = None, **columns: Any
) -> Row:
    kept, of = reasons.count(None), len(reasons)
    lo, hi = proportion_confint(kept, of, method="wilson")
    counted = Counter(reason for reason in reasons if reason)
    detail = {"kept": kept, "refused": dict(sorted(counted.items())), **(detail or {})}
    return Row(metric, kept / of, lo=float(lo), hi=float(hi), n=of, detail=detail, **columns)


def said_of(row: Row) -> str:
    """What a row is a share of."""
    return WORDS[row.metric].format_map(row.facets)


def reasons_of(row: Row) -> str:
    """Why others were left out, and how many."""
    return ", ".join(f"{reason} {count}" for reason, count in row.detail["refused"].items())
