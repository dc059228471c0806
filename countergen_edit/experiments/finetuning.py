"""The recipe by which a classifier is made: a grid of settings, chosen on validation data.

Comes in: a pretrained encoder, labelled texts, a grid. Goes out: a row for each cell of the grid,
and in the run folder the best classifier, `checkpoint/`, which `countergen-edit classifiers` reads.
A killed run goes on with the cells that are left.

Source: Seshadri et al. 2022, section 2.3 and appendix A: RoBERTa base; learning rate 2e-5 or 5e-5,
batches of 16 or 32, 3 to 6 epochs, by grid search on validation data. Which figure decides there is
not said; here it is accuracy, and of equals the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import f1_score

from countergen_edit.data.labelled import LabelledTexts
from countergen_edit.experiments.run_folder import RunFolder
from countergen_edit.metrics.classifier_tasks.tuning import CHOSEN, TUNED
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.statistics import bootstrap_mean
from countergen_edit.models.classifiers import classifier_from_objects
from countergen_edit.models.finetuning import Recipe, finetune, new_classifier
from countergen_edit.writing import whole_folder

CHECKPOINT = "checkpoint"


def grid(
    learning_rates: Sequence[float], batch_sizes: Sequence[int], epochs: Sequence[int]
) -> list[Recipe]:
    """Every combination, in the order of the lists."""
    return [Recipe(*cell) for cell in product(learning_rates, batch_sizes, epochs)]


def finetuned(
    base: str | Path,
    task: str,
    labels: Sequence[str],
    train: LabelledTexts,
    validation: LabelledTexts,
    recipes: Sequence[Recipe],
    folder: RunFolder,
    *,
    seed: int = 0,
    device: str = "auto",
    revision: str | None = None,
) -> Path:
    """Fine-tune by every recipe and keep the best.

    Args:
        base: the pretrained encoder, by hub id or directory.
        task: whose labels they are, a key of `LABELS`.
        labels: the classes, in the order of their indices.
        train: what it is trained on.
        validation: what recipes are chosen on.
        recipes: what is tried.
        folder: where rows and the classifier go.
        seed: of new heads, dropout and the order of texts, alike for every recipe.
        device: as for `load`.
        revision: as for `load`.

    Returns:
        The folder of the best classifier.

    Raises:
        UserError: the encoder cannot be fine-tuned.
    """
    place = folder.path / CHECKPOINT
    for recipe in recipes:
        unit = f"finetune/{recipe}"
        if folder.done(unit):
            continue
        model, tokenizer = new_classifier(base, labels, seed, revision)
        finetune(model, tokenizer, train, recipe, seed=seed, device=device)
        correct, f1 = _judged(model, tokenizer, task, labels, validation)
        e = bootstrap_mean(correct, seed, unit)
        best = _best(folder.rows())
        if best is None or e.value > (best.value or 0.0):
            # First the weights, then the row: a kill between them costs this recipe alone.
            with whole_folder(place) as temporary:
                model.save_pretrained(temporary)
                tokenizer.save_pretrained(temporary)
        facets: dict[str, str | float] = {
            "learning_rate": recipe.learning_rate,
            "batch_size": float(recipe.batch_size),
            "epochs": float(recipe.epochs),
        }
        majority = np.bincount(validation.classes).max() / len(validation)
        detail = {"macro_f1": f1, "majority": float(majority), "trained_on": len(train)}
        about: dict[str, Any] = {"dataset": task, "n": len(validation), "seed": seed}
        folder.record(unit, [Row(TUNED, **e.columns, **about, facets=facets, detail=detail)])
    best = _best(folder.rows())
    if best is not None and not folder.done("finetune/chosen"):
        about = {"dataset": task, "facets": best.facets, "n": best.n, "seed": seed}
        folder.record("finetune/chosen", [Row(CHOSEN, best.value, lo=best.lo, hi=best.hi, **about)])
    return place


def _best(rows: Sequence[Row]) -> Row | None:
    """The recipe of highest accuracy; of equals the first."""
    tuned = [row for row in rows if row.metric == TUNED]
    return max(tuned, key=lambda row: row.value or 0.0) if tuned else None


def _judged(
    model: Any, tokenizer: Any, task: str, labels: Sequence[str], data: LabelledTexts
) -> tuple[np.ndarray, float]:
    """Of each text whether it gets its class, and the macro F1."""
    classifier = classifier_from_objects(CHECKPOINT, model, tokenizer, task)
    roles = classifier.probabilities(list(data.texts), data.pairs and list(data.pairs), cut=True)
    said = np.stack([roles[label] for label in labels]).argmax(axis=0)
    truth = np.array(data.classes)
    return (said == truth).astype(np.float64), float(f1_score(truth, said, average="macro"))
