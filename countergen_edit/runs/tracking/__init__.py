"""Trackers follow a run while it goes on: TensorBoard, MLflow, Weights & Biases."""

from countergen_edit.runs.tracking.base import TRACKERS, TrackedRun, Tracker
from countergen_edit.runs.tracking.following import tracked

__all__ = ["TRACKERS", "TrackedRun", "Tracker", "tracked"]
