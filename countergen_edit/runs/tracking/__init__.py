"""Trackers: a run is shown elsewhere while it goes on, by TensorBoard, MLflow or Weights & Biases.

In: the settings of a run and its rows, as they are recorded. Out: what a tracker shows of them.
Refused: a tracker that is not there, or whose library is not. One that fails later is left out of
the run, which goes on.
"""

from countergen_edit.runs.tracking.base import TRACKERS, TrackedRun, Tracker
from countergen_edit.runs.tracking.following import tracked

__all__ = ["TRACKERS", "TrackedRun", "Tracker", "tracked"]
