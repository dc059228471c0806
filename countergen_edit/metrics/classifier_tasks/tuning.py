"""How a classifier was fine-tuned: every recipe that was tried, and the one that was chosen.

Comes in: rows of a fine-tuning run. Goes out: its table and its sentence.
"""

from __future__ import annotations

from countergen_edit.metrics.blocks import Block, Cell, Number, Table
from countergen_edit.metrics.results import Results

TUNED, CHOSEN = "validation_accuracy", "chosen_accuracy"


def tuning_blocks(results: Results) -> list[Block]:
    """The grid, cell by cell; nothing where nothing was fine-tuned."""
    chosen = [row.facets for row in results.of(CHOSEN, split="")]
    lines: list[tuple[Cell, ...]] = [
        (
            f"{row.facets['learning_rate']:g}",
            f"{row.facets['batch_size']:g}",
            f"{row.facets['epochs']:g}",
            Number.of(row, percent=True, digits=4),
            Number(row.detail["macro_f1"]),
            "chosen" if row.facets in chosen else "",
        )
        for row in results.of(TUNED, split="")
    ]
    if not lines:
        return []
    first = results.of(TUNED, split="")[0]
    majority = Number(first.detail["majority"], percent=True, digits=4).text
    return [
        Table(
            "classifier_tuning",
            "Recipes, on validation data",
            ("learning rate", "batch", "epochs", "accuracy", "macro F1", ""),
            tuple(lines),
            f"Trained on {first.detail['trained_on']} texts, validated on {first.n}, of which the "
            f"commonest class is {majority}. What is chosen on validation data is judged too well "
            "by them.",
            brief=True,
        )
    ]


def tuning_sentences(results: Results) -> list[str]:
    """The recipe that was chosen, and its accuracy."""
    return [
        f"Fine-tuned for {row.dataset}: learning rate {row.facets['learning_rate']:g}, batches of "
        f"{row.facets['batch_size']:g}, {row.facets['epochs']:g} epochs; "
        f"{Number.of(row, percent=True, digits=4).text} of validation texts right."
        for row in results.of(CHOSEN, split="")
    ]
