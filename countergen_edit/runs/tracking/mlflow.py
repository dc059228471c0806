"""MLflow: a run's settings as parameters and its figures as metrics, in a store of one's own.

Comes in: figures by name. Goes out: a run in an experiment of MLflow's, which a run that goes on
finds again by its fingerprint.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from countergen_edit.metrics.rows import Row
from countergen_edit.runs.tracking.base import TrackedRun, Tracker, require_library

TAG = "countergen_edit.fingerprint"
MOST = {"metrics": 1000, "params": 100}
"""Entries that MLflow takes in one call."""
LONGEST = 6000
"""Characters of a parameter."""


class MLflow(Tracker):
    """Writes to a tracking store.

    Args:
        uri: of the store, such as sqlite:///mlflow.db or http://HOST:5000; None takes MLflow's own,
            $MLFLOW_TRACKING_URI or a file in the working directory.
        experiment: under which runs stand; made where there is none.

    Raises:
        UserError: MLflow is not installed.
    """

    def __init__(self, uri: str | None = None, experiment: str = "countergen_edit") -> None:
        require_library("mlflow", "mlflow")
        self.uri = uri
        self.experiment = experiment
        self._client: Any = None
        self._run = ""

    def begin(self, run: TrackedRun) -> None:
        from mlflow import MlflowClient
        from mlflow.entities import Param

        for noisy in ("mlflow", "alembic"):  # after the import, which sets levels of its own
            logging.getLogger(noisy).setLevel(logging.WARNING)
        client = self._client = MlflowClient(tracking_uri=self.uri)
        known = client.get_experiment_by_name(self.experiment)
        experiment = known.experiment_id if known else client.create_experiment(self.experiment)
        found = client.search_runs([experiment], f"tags.`{TAG}` = '{run.fingerprint}'")
        if found:
            self._run = found[0].info.run_id
            client.update_run(self._run, status="RUNNING")
            return
        tags = {TAG: run.fingerprint, "folder": str(run.path.resolve())}
        self._run = client.create_run(experiment, run_name=run.name, tags=tags).info.run_id
        params = [Param(key, value[:LONGEST]) for key, value in run.settings.items()]
        for some in _parts(params, MOST["params"]):
            client.log_batch(self._run, params=some)

    def log(self, figures: Mapping[str, float], step: int, rows: Sequence[Row]) -> None:
        from mlflow.entities import Metric

        now = int(1000 * time.time())
        metrics = [Metric(name, value, now, step) for name, value in figures.items()]
        for some in _parts(metrics, MOST["metrics"]):
            self._client.log_batch(self._run, metrics=some)

    def end(self, finished: bool) -> None:
        self._client.set_terminated(self._run, "FINISHED" if finished else "FAILED")


def _parts(entries: Sequence[Any], size: int) -> Iterator[list[Any]]:
    left = iter(entries)
    while some := list(islice(left, size)):
        yield some
