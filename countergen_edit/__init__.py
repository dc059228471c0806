"""Measure a group bias in a language model, project it out, and prove what changed and its cost.

    import countergen_edit as ce

    model = ce.load("testbed")
    run = ce.search(model, ce.task("gender"), [ce.PreservingEraser()])
    print(run.verdict)
    run.best.save("debiased", form="carried")

Nothing heavy is imported until one of these names is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.2.0"

_NAMES = {
    "api": "assert_gate audit compare design gate load load_run locate search task",
    "core.errors": "UserError",
    "data.axis": "Axis",
    "data.counterfactual": "CounterfactualSet",
    "data.task": "Task",
    "edits": "Edit",
    "erasers": "ERASERS INLP LEACE RLACE SAL SPLINCE AffineErasure BaseEraser MeanDifference "
    "PreservingEraser RandomDirections SentenceDebias",
    "metrics.base": "METRICS Metric Cost",
    "metrics.cid": "Cid",
    "metrics.costs.agreement": "Agreement",
    "metrics.costs.legitimate_differences": "LegitimateDifferences",
    "metrics.costs.perplexity": "KL Perplexity",
    "metrics.fairpair": "FairPair",
    "metrics.paraphrases": "Paraphrases",
    "metrics.r.metric": "R",
    "metrics.rows": "Row",
    "models": "connect generate split_names",
    "runs.baselines": "Prompting Steering RandomMap",
    "runs.run": "Run",
}
_WHERE = {name: module for module, names in _NAMES.items() for name in names.split()}
"""Public name → the module that has it."""

__all__ = ["__version__", *_WHERE]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_WHERE])
