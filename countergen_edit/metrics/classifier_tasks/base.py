"""Classifier tasks: rows over templates and their paraphrases.

A user's own task is a subclass, named as `path/to/file.py:Class` or entered with
`@TASKS.register("mine")`, with templates in a file of the user's.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Bool, Int

from countergen_edit.core.errors import UserError
from countergen_edit.core.registry import Registry
from countergen_edit.data.template_bank import PERSON, Family, Filled, TemplateBank
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.statistics import Estimate, bootstrap_mean
from countergen_edit.models.classifiers import VADER, classifier_from_objects, load_classifier


@dataclass(frozen=True)
class TaskText:
    """A text of a task with its group, as an eraser is fitted on.

    `pair` is the person's place in the group, shared with those of other groups; `context` is the
    template and the other words; `hypothesis` follows the text in inference.
    """

    filled: Filled
    group: str
    person: str
    pair: int
    context: str
    family: str
    hypothesis: str | None = None


class ClassifierTask(ABC):
    """A measure of bias in a classifier, over templates and their paraphrases.

    `labels_of` is a name in `models.classifiers.LABELS`; `templates` the task whose templates it
    takes, empty for its own.
    """

    labels_of: ClassVar[str]
    templates: ClassVar[str] = ""

    @abstractmethod
    def rows(self, bank: TemplateBank, model: Any, seed: int) -> list[Row]:
        """A row for every template or paraphrase, and rows of how these spread.

        `model` is what `load` or `wrap` returned. `UserError` if templates lack what the task
        needs.
        """

    def rows_under(
        self,
        bank: TemplateBank,
        model: Any,
        seed: int,
        edited: Callable[[], AbstractContextManager[object]],
    ) -> list[Row]:
        """The rows under an edit, which is attached within `edited()`."""
        with edited():
            return self.rows(bank, model, seed)

    def asked(self, bank: TemplateBank, *, paraphrased: bool = False) -> Iterator[TaskText]:
        """Texts of the original templates or paraphrases; `UserError` without groups."""
        for family in bank.families:
            for template in family.paraphrases if paraphrased else (family.original,):
                yield from self.texts(bank, family, template)

    def texts(self, bank: TemplateBank, family: Family, template: str) -> Iterator[TaskText]:
        """Texts of one template or paraphrase."""
        for group in bank.pair:
            for i, person in enumerate(bank.people[group]):
                for filled in bank.fill(template, group, i):
                    context = f"{template} {filled.beside(PERSON)}"
                    yield TaskText(filled, group, person["base"], i, context, family.name)

    def encoded(
        self, model: Any, asked: Sequence[TaskText]
    ) -> tuple[list[dict[str, list[int]]], list[int] | None]:
        """Model inputs of these texts, and the token read of each, or None for the head."""
        return model.encoded(*inputs(asked)), None

    def answers(self, model: Any, asked: Sequence[TaskText]) -> Int[np.ndarray, " text"]:
        """The model's answers, by which an edit's cost is counted."""
        found: Int[np.ndarray, " text"] = model.answers(*inputs(asked))
        return found

    def load(self, name: str, labels: Sequence[str] | None = None, **where: Any) -> Any:
        """The model by hub id or directory; `where` is as in `models.load`.

        `labels` are its outputs in order, where its config does not say. `UserError` if it does not
        fit.
        """
        if name == VADER:
            raise UserError(f"VADER scores sentiment, not task={self.labels_of}")
        return load_classifier(name, self.labels_of, labels=labels, **where)

    def wrap(
        self, name: str, hf_model: Any, tokenizer: Any, labels: Sequence[str] | None = None
    ) -> Any:
        """The same from objects in memory."""
        return classifier_from_objects(name, hf_model, tokenizer, self.labels_of, labels)


def inputs(asked: Sequence[TaskText]) -> tuple[list[str], list[str] | None]:
    """The texts that a classifier reads, and the hypotheses that follow them in inference."""
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


OVER_TEMPLATES = " over templates"
"""Suffix of the names of rows over templates."""
KEPT = "answers_kept"
"""The share of texts whose answer an edit leaves unchanged."""
EVEN = {"b_associations": 50.0}
"""Values of measures under equal treatment of groups, where they are not 0."""


class TemplateRows(list[Row]):
    """Rows of measures over templates and their paraphrases, and of how these spread.

    `values` are those added of a measure and data set since their last `spread`: of the original
    template, then of its paraphrases.
    """

    def __init__(self, bank: TemplateBank, seed: int) -> None:
        super().__init__()
        self.seed = seed
        a, b = bank.people or ("", "")
        self.groups: dict[str, Any] = {"group_a": a, "group_b": b}
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
        facets: Mapping[str, str] | None = None,
        **detail: Any,
    ) -> None:
        """Add a measure of one template or paraphrase, which is a facet."""
        self.values[metric, dataset].append(estimated.value)
        row = Row(
            metric,
            **estimated.columns,
            dataset=dataset,
            **self.groups,
            facets={"paraphrase": template, **(facets or {})},
            n=n,
            seed=self.seed,
            detail={"original": template == family.original} | detail,
        )
        self.append(row)

    def spread(self, metric: str, dataset: str, *, n: int | None = None, **detail: Any) -> None:
        """Add a line of a table: the paraphrases' mean, with the original and their SD in `detail`.

        The paper's change is how much larger or smaller the measure becomes in size (Seshadri et
        al. 2022).
        """
        original, *others = self.values.pop((metric, dataset))
        modified = np.array(others)
        mean = float(modified.mean()) if others else math.nan
        detail |= {
            "original": float(original),
            "sd": float(modified.std(ddof=1)) if len(others) > 1 else None,
            "change": (abs(mean) - abs(original)) / abs(original) if original and others else None,
        }
        row = Row(
            metric + OVER_TEMPLATES,
            mean if math.isfinite(mean) else None,
            dataset=dataset,
            **self.groups,
            n=len(others) if n is None else n,
            detail=detail,
        )
        self.append(row)


def kept_rows(texts: Sequence[TaskText], kept: Bool[np.ndarray, " text"], seed: int) -> list[Row]:
    """`answers_kept` of each template's paraphrases, and of all, with intervals over texts."""
    of = np.array([one.family for one in texts])
    rows = []
    for name in (*dict.fromkeys(of.tolist()), "all"):
        own = kept if name == "all" else kept[of == name]
        e = bootstrap_mean(own.astype(np.float64), seed, KEPT, name, whole=1)
        rows.append(Row(KEPT, **e.columns, dataset=name, n=len(own), seed=seed))
    return rows


def mean_size(rows: Sequence[Row]) -> float | None:
    """Mean distance of measures from equal treatment of groups."""
    sizes = [abs(r.value - EVEN.get(r.metric, 0.0)) for r in rows if r.value is not None]
    return float(np.mean(sizes)) if sizes else None
