"""The four template tasks: a bank of templates and a model of the fitting kind give rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64

from countergen_edit.data.rewordings import TemplateBank
from countergen_edit.errors import unknown
from countergen_edit.experiments.manifest import digest
from countergen_edit.experiments.run_folder import RunFolder
from countergen_edit.metrics.classifier_tasks.association import masked_rows
from countergen_edit.metrics.classifier_tasks.inference import nli_rows
from countergen_edit.metrics.classifier_tasks.sentiment import sentiment_rows
from countergen_edit.metrics.classifier_tasks.toxicity import toxicity_rows
from countergen_edit.metrics.rows import Row
from countergen_edit.models import lexicon
from countergen_edit.models.classifiers import Classifier
from countergen_edit.models.masked import MaskedModel


class Vader:
    """VADER in the place of a sentiment classifier."""

    name = lexicon.NAME

    @property
    def fingerprint(self) -> str:
        return lexicon.fingerprint()


Model = Classifier | MaskedModel | Vader


def _sentiment(bank: TemplateBank, model: Any, seed: int) -> list[Row]:
    if not isinstance(model, Vader):

        def positive(texts: Sequence[str]) -> Float64[np.ndarray, " text"]:
            found: Classifier = model
            return found.probabilities(texts, progress="Classifying")["positive"]

        return sentiment_rows(bank, positive, seed)
    names = [person["base"] for people in bank.people.values() for person in people]
    confound = lexicon.lexicon_words(names)
    row = Row(
        "names_in_lexicon",
        float(len(confound)),
        dataset=bank.task,
        n=len(names),
        seed=seed,
        detail={"valence": confound},
    )
    return [*sentiment_rows(bank, lexicon.positivity, seed), row]


def _nli(bank: TemplateBank, model: Classifier, seed: int) -> list[Row]:
    def neutral(
        premises: Sequence[str], hypotheses: Sequence[str]
    ) -> tuple[Float64[np.ndarray, " text"], Bool[np.ndarray, " text"]]:
        p = model.probabilities(premises, hypotheses, progress="Classifying")
        chosen = p["neutral"] >= np.max(list(p.values()), axis=0)
        return p["neutral"], chosen

    return nli_rows(bank, neutral, seed)


def _toxicity(bank: TemplateBank, model: Classifier, seed: int) -> list[Row]:
    return toxicity_rows(bank, lambda texts: model.probabilities(texts)["toxic"], seed)


def _masked(bank: TemplateBank, model: MaskedModel, seed: int) -> list[Row]:
    return masked_rows(bank, model.associations, seed)


TASKS: Mapping[str, Callable[[TemplateBank, Any, int], list[Row]]] = {
    "sentiment": _sentiment,
    "nli": _nli,
    "toxicity": _toxicity,
    "masked": _masked,
}
"""Task → what measures it; its model answers as `models.classifiers` or `models.masked` do."""


def measure_templates(
    bank: TemplateBank, model: Model, folder: RunFolder, seed: int = 0
) -> list[Row]:
    """Measure a task and return its rows.

    Args:
        bank: the task's templates.
        model: a classifier or masked language model for the task, or VADER.
        folder: where rows go.
        seed: the run's seed.

    Raises:
        UserError: there is no such task, or its templates lack what it needs.
    """
    if bank.task not in TASKS:
        raise unknown("task", bank.task, TASKS)
    unit = f"templates/{bank.task}"
    if not folder.done(unit):
        folder.record(unit, TASKS[bank.task](bank, model, seed))
    return folder.rows()


def bank_hash(bank: TemplateBank) -> str:
    """SHA-256 of all templates and words."""
    return digest(asdict(bank))
