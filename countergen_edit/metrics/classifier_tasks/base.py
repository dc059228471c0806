"""What a classifier task is: templates asked of a model of the fitting kind; and the registry.

Comes in: a template bank, and the model that answers. Goes out: rows. A user's own task is a
subclass, named as `path/to/file.py:Class` or entered with `@TASKS.register("mine")`; its templates
lie in a file of the user's. Refused: a model that does not fit the task.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from countergen_edit.data.template_bank import TemplateBank
from countergen_edit.errors import UserError
from countergen_edit.metrics.rows import Row
from countergen_edit.models import lexicon
from countergen_edit.models.classifiers import classifier_from_objects, load_classifier
from countergen_edit.registry import Registry


class ClassifierTask(ABC):
    """A measure of bias in a classifier, over templates and their rewordings."""

    labels_of: ClassVar[str]
    """Whose labels its classifier has: a name in `models.classifiers.LABELS`."""

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


TASKS: Registry[type[ClassifierTask]] = Registry(
    "task",
    "countergen_edit.tasks",
    {
        "sentiment": "countergen_edit.metrics.classifier_tasks.sentiment:Sentiment",
        "nli": "countergen_edit.metrics.classifier_tasks.inference:Inference",
        "toxicity": "countergen_edit.metrics.classifier_tasks.toxicity:Toxicity",
        "masked": "countergen_edit.metrics.classifier_tasks.association:Association",
    },
)
"""Every classifier task by its name on the command line."""
