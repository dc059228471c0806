"""The four tasks of Seshadri et al. 2022 on classifiers and masked language models."""

from countergen_edit.metrics.classifier_tasks.base import TASKS, ClassifierTask

__all__ = ["TASKS", "ClassifierTask"]
