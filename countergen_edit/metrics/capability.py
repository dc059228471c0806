"""Capability: questions with four answers, of which the model's likeliest is right or wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from jaxtyping import Float64
from scipy.special import log_softmax

from countergen_edit.data.natural import capability
from countergen_edit.edits import NamedEdit
from countergen_edit.metrics.base import MeasuredSplit, Metric, Way
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.statistics import Estimate, bootstrap_mean, share_interval

_ACCURACY, OF_KIND, _CHANGE = "capability", "capability_of_kind", "capability_change"


class Capability(Metric):
    """Accuracy on 96 questions that ship: facts, grammar, numbers, words, sense and phrases.

    An answer is scored by log P(answer | question). `capability` is the share of questions whose
    right answer is the likeliest of four, with Clopper and Pearson's interval, `capability_of_kind`
    that of each kind; `capability_change` is the mean change of P(right) among the four by an edit,
    paired over questions.
    """

    title = "Accuracy on questions"
    measures = (_ACCURACY, OF_KIND, _CHANGE)
    better: ClassVar[Mapping[str, Way]] = {_ACCURACY: "higher", _CHANGE: "higher"}
    percent = True
    is_slow = True

    def measure(
        self, context: EvaluationContext, edit: NamedEdit | None, split: MeasuredSplit = "test"
    ) -> list[Row]:
        """The rows of all questions and, for accuracy, of each kind."""
        if split != "test":
            return []
        log_p = self._log_p(context, edit)
        right = log_p.argmax(axis=1) == 0
        kinds = np.array([kind for kind, questions in capability().items() for _ in questions])
        parts = [(_ACCURACY, "questions", right)]
        parts += [(OF_KIND, kind, right[kinds == kind]) for kind in capability()]
        found = []
        for metric, dataset, own in parts:
            ends = share_interval(int(own.sum()), len(own))
            e = Estimate(float(own.mean()), *ends, float("nan"))
            found.append((metric, dataset, len(own), e))
        if edit is not None:
            now, before = (np.exp(own[:, 0]) for own in (log_p, self._log_p(context, None)))
            e = bootstrap_mean(now - before, context.seed, _CHANGE)
            found.append((_CHANGE, "questions", len(now), e))
        return [
            Row.of(metric, e, dataset=dataset, split="test", n=n, seed=context.seed)
            for metric, dataset, n, e in found
        ]

    def _log_p(
        self, context: EvaluationContext, edit: NamedEdit | None
    ) -> Float64[np.ndarray, "question answer"]:
        """Log P of each answer among the four, the right one first."""
        pairs = [
            (question, f" {answer}")
            for questions in capability().values()
            for question, *answers in questions
            for answer in answers
        ]
        scores = context.texts(pairs, edit, "Answering questions")
        shares: Float64[np.ndarray, "question answer"]
        shares = log_softmax(scores.log_p.reshape(-1, 4), axis=1)
        return shares
