"""INLP against the textbook loop on a model's activations: subspaces and mean |R| after the edit.

    python scripts/speed/inlp.py testbed 4
    python scripts/speed/inlp.py real/SmolLM2-135M-Instruct-Q4_1 20

One audit fits after one block INLP, Ravfogel et al.'s loop over scikit-learn's classifier solved
to rounding (the reference), the same loop stopped at tol=1e-3, and further erasers that are named,
such as `old.py:INLP`. Principal cosines are those of each subspace with the reference's.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

import countergen_edit as ce
from countergen_edit.data.task import Task
from countergen_edit.erasers import INLP, AffineErasure, BaseEraser
from countergen_edit.testbed import TESTBED

RANK = 8
FAMILIES = ("occupations", "traits", "hobbies", "sentiment", "questions")
TESTED = ("occupations", "traits", "hobbies")


class Textbook(BaseEraser):
    """Ravfogel et al.'s loop over scikit-learn's classifier, on centred rows."""

    def __init__(self, solver: str = "newton-cholesky", tol: float = 1e-12) -> None:
        self.solver, self.tol = solver, tol

    def fit(self, X: Any, y: Any) -> Textbook:
        """Fit to rows `X` `[n, d]` and classes `y`."""
        rows = self._read(X, y)
        left = np.asarray(rows.X - rows.X.mean(axis=0), float)
        found = np.zeros((0, left.shape[1]))
        for _ in range(RANK):
            probe = LogisticRegression(solver=self.solver, tol=self.tol, max_iter=100_000)
            w = probe.fit(left, rows.codes).coef_[0]
            w = w - found.T @ (found @ w)
            found = np.vstack([found, w / np.linalg.norm(w)])
            left = left - (left @ found.T) @ found
        self._store(AffineErasure.orthogonal(found, rows.balanced_mean), rows.classes)
        return self


def task_of(model: str) -> Task:
    """The testbed's data, or natural prompts without a pilot."""
    if model == TESTBED:
        return ce.task("gender", "testbed")
    sets = {split: [_natural(f) for f in FAMILIES] for split in ("fit", "validation")}
    return ce.task("gender", {**sets, "test": [_natural(f) for f in TESTED]}, texts="natural")


def _natural(family: str) -> dict[str, str]:
    return {"source": "natural", "family": family}


def main(model: str = TESTBED, layer: str = "4", *others: str) -> None:
    """Print principal cosines and mean |R| of each eraser."""
    erasers: dict[str, BaseEraser | str] = {
        "textbook": Textbook(),
        "inlp": INLP(rank=RANK),
        "textbook_1e_3": Textbook("lbfgs", 1e-3),
        **{f"other_{i}": name for i, name in enumerate(others)},
    }
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "run"
        run = ce.audit(model, task_of(model), erasers, ("r",), folder, layers=[int(layer)])
        maps = {edit.record.eraser: edit.edit for edit in run.edits.values()}
        bases = {name: maps[name].placements[0].erasure.right for name in erasers}
        ids = {edit.record.eraser: key for key, edit in run.edits.items()}
    for name in ("none", *erasers):
        rows = run.results.of("mean_abs_r", edit=ids.get(name, "none"))
        print(f"{name}: mean |R| " + ", ".join(f"{r.dataset} {r.value:.3f}" for r in rows))
        if name in bases:
            cosines = np.linalg.svd(bases[name] @ bases["textbook"].T, compute_uv=False)
            shown = " ".join(f"{cosine:.3f}" for cosine in cosines)
            print(f"  principal cosines {shown}; 1 - least {1 - cosines.min():.1e}")


if __name__ == "__main__":
    main(*sys.argv[1:])
