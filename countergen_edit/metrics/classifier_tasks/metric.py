"""The metric that rows of `countergen-edit classifiers` belong to."""

from __future__ import annotations

from countergen_edit.core.errors import UserError
from countergen_edit.edits import NamedEdit
from countergen_edit.metrics.base import MeasuredSplit, Metric
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.rows import Row


class ClassifierTasks(Metric):
    """Measures of `countergen-edit classifiers`, never of an audit."""

    is_selectable = False

    def prepare(self) -> None:
        raise UserError(
            "classifier_tasks are asked of classifiers, not of the model of an audit: run "
            "countergen-edit classifiers task=sentiment"
        )

    def measure(
        self, context: EvaluationContext, edit: NamedEdit | None, split: MeasuredSplit = "test"
    ) -> list[Row]:
        return []
