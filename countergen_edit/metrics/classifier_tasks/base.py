"""Classifier tasks: rows over templates and their paraphrases.

A user's own task is a subclass, named as `path/to/file.py:Class` or entered with
`@TASKS.register("mine")`, with templates in a file of the user's.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from countergen_edit.core.errors import UserError
from countergen_edit.core.registry import Registry
from countergen_edit.data.template_bank import Family, Filled, TemplateBank
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.statistics import Estimate
from countergen_edit.models.classifiers import VADER, Vader, classifier_from_objects
from countergen_edit.models.loading import load_head


class ClassifierTask(ABC):
    """A measure of bias in a classifier, over templates and their paraphrases.

    `labels_of` is a name in `models.classifiers.ROLE_NAMES`, `head` one in `models.loading.HEADS`.
    """

    labels_of: ClassVar[str]
    head: ClassVar[str] = "sequence classifier"

    @abstractmethod
    def rows(self, bank: TemplateBank, model: Any, seed: int) -> list[Row]:
        """A row for every template or paraphrase, and rows of how these spread.

        `model` is what `load` or `wrap` returned. `UserError` if templates lack what the task
        needs.
        """

    def texts(self, bank: TemplateBank, template: str) -> Iterator[Filled]:
        """Texts of one template or paraphrase, by group and person."""
        for group in bank.pair:
            for i in range(len(bank.people[group])):
                yield from bank.fill(template, group, i)

    def load(self, name: str, labels: Sequence[str] | None = None, **where: Any) -> Any:
        """The model by hub id or directory; `where` is device, dtype and revision as of `load`.

        `labels` are its outputs in order, where its config does not say. `UserError` if it does not
        fit.
        """
        if name != VADER:
            return self.wrap(name, *load_head(self.head, name, **where), labels)
        if self.labels_of != "sentiment":
            raise UserError(f"VADER scores sentiment, not task={self.labels_of}")
        return Vader()

    def wrap(
        self, name: str, hf_model: Any, tokenizer: Any, labels: Sequence[str] | None = None
    ) -> Any:
        """The same from objects in memory."""
        return classifier_from_objects(name, hf_model, tokenizer, self.labels_of, labels)


_ROOM = "countergen_edit.metrics.classifier_tasks"
TASKS: Registry[type[ClassifierTask]] = Registry(
    "task",
    "countergen_edit.tasks",
    {
        "sentiment": f"{_ROOM}.sentiment:SentimentTask",
        "nli": f"{_ROOM}.inference:Inference",
        "toxicity": f"{_ROOM}.toxicity:Toxicity",
        "masked": f"{_ROOM}.association:Association",
    },
    ClassifierTask,
)
"""Every classifier task by its name on the command line."""

OVER_TEMPLATES = " over templates"
"""Suffix of the names of rows over templates."""


class TemplateRows(list[Row]):
    """Rows of measures over templates and their paraphrases, and of how these spread.

    `values` are those added of a measure and data set since their last `spread`: of the original
    template, then of its paraphrases.
    """

    def __init__(self, bank: TemplateBank, seed: int) -> None:
        super().__init__()
        a, b = bank.people or ("", "")
        self.groups: dict[str, Any] = {"group_a": a, "group_b": b}
        self.seed = seed
        self.values: defaultdict[tuple[str, str], list[float]] = defaultdict(list)

    def add(
        self,
        metric: str,
        estimated: Estimate,
        family: Family,
        template: str,
        *,
        dataset: str,
        n: int,
        **detail: Any,
    ) -> None:
        """Add a measure of one template or paraphrase, which is a facet."""
        self.values[metric, dataset].append(estimated.value)
        about: dict[str, Any] = {**self.groups, "dataset": dataset, "n": n, "seed": self.seed}
        about["facets"] = {"paraphrase": template}
        about["detail"] = {"original": template == family.original} | detail
        self.append(Row.of(metric, estimated, **about))

    def spread(self, metric: str, dataset: str, *, n: int | None = None, **detail: Any) -> None:
        """Add a line of a table: the paraphrases' mean, with the original and their SD in `detail`.

        The paper's change is how much larger or smaller the measure becomes in size (Seshadri et
        al. 2022).
        """
        original, *others = self.values.pop((metric, dataset))
        mean = float(np.mean(others)) if others else math.nan
        detail |= {
            "original": float(original),
            "sd": float(np.std(others, ddof=1)) if len(others) > 1 else None,
            "change": (abs(mean) - abs(original)) / abs(original) if original and others else None,
        }
        about: dict[str, Any] = {**self.groups, "dataset": dataset, "detail": detail}
        n = len(others) if n is None else n
        self.append(Row.of(metric + OVER_TEMPLATES, mean, n=n, **about))
