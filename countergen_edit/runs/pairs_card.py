"""The card of counterfactual pairs: how they were made, for whoever finds them.

Comes in: how they were made, and the rows that count them. Goes out: Markdown.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import countergen_edit
from countergen_edit.metrics.augmented import reasons_of, said_of
from countergen_edit.metrics.rows import Row
from countergen_edit.models import LanguageModel
from countergen_edit.core.writing import digest

if TYPE_CHECKING:
    from countergen_edit.runs.augmenting import Augmentation


def card(plan: Augmentation, rows: Sequence[Row], model: LanguageModel | None) -> str:
    """The texts, the model, what it was asked, the filter, and how many passed."""
    conditions, substitution = plan.conditions, plan.conditions.substitution
    a, b = substitution.groups
    what = "neutral words" if conditions.compared == "neutral" else conditions.compared
    legitimate_differences = {
        "Texts": f"{plan.name}, {len(plan.inputs)}, SHA-256 {digest([*map(asdict, plan.inputs)])}",
        "Axis": f"{substitution.axis.name}, {a} and {b}",
        "Seed": str(plan.seed),
        "Made by": f"countergen-edit {countergen_edit.__version__}",
        "Rewritten by": "word substitution, no model",
        "Filter": f"FairPair's start, source name and dissimilarity (of {what}, at most "
        f"{conditions.max_dissimilarity:g}); the drawn name is there, no word of the other "
        "group is left, and one of its own is there",
    }
    if model is not None:
        legitimate_differences["Rewritten by"] = (
            f"{model.name}, SHA-256 {model.fingerprint}, likeliest tokens"
        )
        legitimate_differences["Request"] = json.dumps(plan.request, ensure_ascii=False)
    if plan.paraphrases:
        legitimate_differences["Paraphrases"] = (
            f"{plan.paraphrases} of each text, sampled: top_p {plan.top_p:g}, temperature "
            f"{plan.temperature:g}"
        )
        legitimate_differences["Request of them"] = json.dumps(
            plan.paraphrase_request, ensure_ascii=False
        )
    counts = [f"| {said_of(r)} | {r.n} | {r.detail['kept']} | {reasons_of(r)} |" for r in rows]
    lines = [
        f"# Counterfactual pairs: {a} and {b}",
        "",
        "Each line of `pairs.jsonl` holds a text, its outputs, and the text as either group would "
        "have it; a group that a text shows alone has it as it was. `refused.jsonl` holds what was "
        "left out, and why.",
        "",
        *(f"- {key}: {value}" for key, value in legitimate_differences.items()),
        "",
        "| of | number | kept | left out |",
        "|---|---|---|---|",
        *counts,
    ]
    return "\n".join([*lines, ""])
