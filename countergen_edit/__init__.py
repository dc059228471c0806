"""Measure a group bias in a language model, project it out, and prove what changed and its cost.

    import countergen_edit as ce

    model = ce.load("testbed")
    run = ce.search(model, ce.task("gender"), [ce.PreservingEraser()])
    print(run.verdict)
    run.best.save("debiased")

Nothing heavy is imported until one of these names is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.2.0"

_API = "countergen_edit.api"
_WHERE = {
    **dict.fromkeys(("audit", "compare", "load", "load_run", "search", "task"), _API),
    "Task": "countergen_edit.data.task",
    "Axis": "countergen_edit.data.axis",
    "CounterfactualSet": "countergen_edit.data.counterfactual",
    "Edit": "countergen_edit.edits",
    **dict.fromkeys(
        ("connect", "generate", "split_names", "generate_neutral_text"), "countergen_edit.models"
    ),
    "Run": "countergen_edit.reports.run",
    "METRICS": "countergen_edit.metrics.base",
    "Metric": "countergen_edit.metrics.base",
    "Cost": "countergen_edit.metrics.base",
    "Row": "countergen_edit.metrics.rows",
    "R": "countergen_edit.metrics.r",
    "Paraphrases": "countergen_edit.metrics.paraphrases",
    "FairPair": "countergen_edit.metrics.fairpair",
    "Cid": "countergen_edit.metrics.cid",
    "Agreement": "countergen_edit.metrics.costs.agreement",
    "Perplexity": "countergen_edit.metrics.costs.perplexity",
    "KL": "countergen_edit.metrics.costs.perplexity",
    "LegitimateDifferences": "countergen_edit.metrics.costs.legitimate_differences",
    **dict.fromkeys(
        (
            "ERASERS",
            "INLP",
            "LEACE",
            "RLACE",
            "SAL",
            "SPLINCE",
            "AffineErasure",
            "BaseEraser",
            "MeanDifference",
            "PreservingEraser",
            "RandomDirections",
            "SentenceDebias",
        ),
        "countergen_edit.erasers",
    ),
    "Prompting": "countergen_edit.runs.baselines",
    "Steering": "countergen_edit.runs.baselines",
    "RandomMap": "countergen_edit.runs.baselines",
    **dict.fromkeys(("Tracker", "tracked"), "countergen_edit.runs.tracking"),
    "UserError": "countergen_edit.core.errors",
}
"""Public name → the module that has it."""

__all__ = ["__version__", *_WHERE]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_WHERE[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_WHERE])
