"""What a run depended on, so that it can be repeated; never a secret."""

from __future__ import annotations

import hashlib
import platform
import re
import subprocess
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import countergen_edit
from countergen_edit.metrics.base import METRICS, Cost, Metric
from countergen_edit.metrics.rows import SCHEMA
from countergen_edit.core.writing import digest

PACKAGES = ("torch", "transformers", "transformer-lens", "numpy", "scipy", "scikit-learn", "cvxpy")
_SECRET = re.compile(r"(token|key|secret|password)(\w*)=.+", re.IGNORECASE)


def source_digest() -> str:
    """SHA-256 of the package's own code and data, so that a changed program starts a new run."""
    root = Path(countergen_edit.__file__).parent
    sha = hashlib.sha256()
    for path in sorted(p for p in root.rglob("*") if p.suffix in (".py", ".yaml")):
        sha.update(str(path.relative_to(root)).encode() + path.read_bytes())
    return sha.hexdigest()


def git_commit() -> str | None:
    """The commit of the checkout the package is run from, if it is one.

    An installed package may lie inside somebody else's repository, whose commit says nothing.
    """
    root = Path(countergen_edit.__file__).parent.parent
    try:
        top, commit = (
            subprocess.run(
                ["git", "rev-parse", what],
                cwd=root,
                capture_output=True,
                text=True,
                check=True,
                timeout=10,
            ).stdout.strip()
            for what in ("--show-toplevel", "HEAD")
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return commit if Path(top).resolve() == root.resolve() else None


def masked(command: Sequence[str]) -> list[str]:
    """The command line without the values of anything that sounds like a secret.

    >>> masked(["audit", "hub_token=abc", "model=gpt2"])
    ['audit', 'hub_token=***', 'model=gpt2']
    """
    return [_SECRET.sub(r"\1\2=***", word) for word in command]


def make_manifest(
    *,
    config: Mapping[str, Any],
    model: str,
    model_hash: str,
    bos: bool | None = None,
    template: Mapping[str, str] | None = None,
    data_hash: str,
    seed: int,
    command: Sequence[str],
    metrics: Sequence[Metric] = (),
    origin: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The manifest of a run; `fingerprint` covers all that its rows depend on.

    Args:
        config: every setting that rows depend on.
        model: the model's name.
        model_hash: SHA-256 of its weights.
        bos: whether its texts begin with the beginning-of-text token; None of what has no such.
        template: the chat template within which they stand, as `LanguageModel.conversation`.
        data_hash: SHA-256 of all data.
        seed: the run's seed.
        command: the command line; what sounds like a secret is masked.
        metrics: what is measured, so that a report finds whoever shows it.
        origin: the file that the weights were made of, where they were made of one.
    """
    versions = {name: metadata.version(name) for name in PACKAGES}
    versions["countergen-edit"] = countergen_edit.__version__
    depends = {
        "config": config,
        "model_hash": model_hash,
        "bos": bos,
        "template": dict(template) if template else None,
        "data_hash": data_hash,
        "source_hash": source_digest(),
        "versions": versions,
        "seed": seed,
    }
    return {
        "schema": SCHEMA,
        "fingerprint": digest(depends),
        "model": model,
        **({"model_origin": dict(origin)} if origin else {}),
        **{k: v for k, v in depends.items() if k != "config"},
        "python": platform.python_version(),
        "command": masked(command),
        "metrics": {metric.name: METRICS.name_of(metric) for metric in metrics},
        "budgets": {metric.name: metric.budget for metric in metrics if isinstance(metric, Cost)},
        "git_commit": git_commit(),
    }
