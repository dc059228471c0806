"""What a classifier task is: templates asked of a model of the fitting kind; and the registry.

Comes in: a template bank, and the model that answers. Goes out: rows. A user's own task is a
subclass, named as `path/to/file.py:Class` or entered with `@TASKS.register("mine")`; its templates
lie in a file of the user's. Refused: a model that does not fit the task.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Int

from countergen_edit.data.template_bank import PERSON, Filled, TemplateBank
from countergen_edit.errors import UserError
from countergen_edit.metrics.rows import Row
from countergen_edit.models import lexicon
from countergen_edit.models.classifiers import classifier_from_objects, load_classifier
from countergen_edit.registry import Registry


@dataclass(frozen=True)
class Asked:
    """One text of a task and whose it is: what an eraser is fitted on."""

    filled: Filled
    group: str
    person: str
    pair: int
    """The person's place in the group, the same for those of other groups who stand beside."""
    context: str
    """What it shares with the texts about others: its wording and its other words."""
    family: str
    hypothesis: str | None = None
    """In inference, the claim that follows the text."""


class ClassifierTask(ABC):
    """A measure of bias in a classifier, over templates and their rewordings."""

    labels_of: ClassVar[str]
    """Whose labels its classifier has: a name in `models.classifiers.LABELS`."""
    templates: ClassVar[str] = ""
    """The task whose templates it takes; empty where they are its own."""

    @abstractmethod
    def rows(self, bank: TemplateBank, model: Any, seed: int) -> list[Row]:
        """A row for every wording, and rows that say how these spread.

        Args:
            bank: the templates.
            model: what `load` or `wrap` returned.
            seed: the run's seed.

        Raises:
            UserError: the templates lack what the task needs.
        """

    def rows_under(
        self,
        bank: TemplateBank,
        model: Any,
        seed: int,
        edited: Callable[[], AbstractContextManager[object]],
    ) -> list[Row]:
        """The rows under an edit, which is attached within `edited()`; what it changed where the
        task tells that."""
        with edited():
            return self.rows(bank, model, seed)

    def asked(self, bank: TemplateBank, *, reworded: bool = False) -> Iterator[Asked]:
        """The texts of the original templates, or of their rewordings, with whose they are.

        Raises:
            UserError: the templates have no groups, or none that these texts show.
        """
        groups = bank.pair
        for family in bank.families:
            for wording in family.rewordings if reworded else (family.original,):
                for group in groups:
                    for i, person in enumerate(bank.people[group]):
                        for filled in bank.fill(wording, group, i):
                            context = f"{wording} {filled.beside(PERSON)}"
                            yield Asked(filled, group, person["base"], i, context, family.name)

    def encoded(
        self, model: Any, asked: Sequence[Asked]
    ) -> tuple[list[dict[str, list[int]]], list[int] | None]:
        """What the model is given of these texts, and which token is read of each.

        None where the model's head decides.
        """
        return model.encoded(*_texts(asked)), None

    def answers(self, model: Any, asked: Sequence[Asked]) -> Int[np.ndarray, " text"]:
        """What the model answers to each text, by which an edit's cost is counted."""
        found: Int[np.ndarray, " text"] = model.answers(*_texts(asked))
        return found

    def load(self, name: str, labels: Sequence[str] | None = None, **where: Any) -> Any:
        """The model that answers.

        Args:
            name: a hub id or a directory.
            labels: what the model's outputs are, in order, where its config does not say.
            where: device, dtype and revision, as `models.load` takes them.

        Raises:
            UserError: it cannot be loaded, or does not fit the task.
        """
        if name == lexicon.NAME:
            raise UserError(f"VADER scores sentiment, not task={self.labels_of}")
        return load_classifier(name, self.labels_of, labels=labels, **where)

    def wrap(
        self, name: str, hf_model: Any, tokenizer: Any, labels: Sequence[str] | None = None
    ) -> Any:
        """The model that answers, from objects in memory."""
        return classifier_from_objects(name, hf_model, tokenizer, self.labels_of, labels)


def _texts(asked: Sequence[Asked]) -> tuple[list[str], list[str] | None]:
    """The texts and, in inference, the claims that follow them."""
    claims = [one.hypothesis for one in asked if one.hypothesis is not None]
    return [one.filled.text for one in asked], claims or None


TASKS: Registry[type[ClassifierTask]] = Registry(
    "task",
    "countergen_edit.tasks",
    {
        "sentiment": "countergen_edit.metrics.classifier_tasks.sentiment:Sentiment",
        "nli": "countergen_edit.metrics.classifier_tasks.inference:Inference",
        "toxicity": "countergen_edit.metrics.classifier_tasks.toxicity:Toxicity",
        "masked": "countergen_edit.metrics.classifier_tasks.association:Association",
        "benchmarks": "countergen_edit.metrics.classifier_tasks.benchmarks:MaskedBenchmarks",
    },
    ClassifierTask,
)
"""Every classifier task by its name on the command line."""
