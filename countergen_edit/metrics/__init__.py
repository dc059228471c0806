"""Metrics: from a model, edited or not, to result rows."""

from countergen_edit.metrics import cid as _cid  # noqa: F401  (enters its name on the shelf)
from countergen_edit.metrics import fairpair as _fairpair  # noqa: F401
from countergen_edit.metrics import r as _r  # noqa: F401  (enters its name on the shelf)
from countergen_edit.metrics import templates as _templates  # noqa: F401
from countergen_edit.metrics.base import METRICS, UNEDITED, Metric, Subject, make_metric, register

__all__ = ["METRICS", "UNEDITED", "Metric", "Subject", "make_metric", "register"]
