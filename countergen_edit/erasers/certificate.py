"""Certificates: the class information left after an erasure, by theorem and held-out probes.

No linear probe with an intercept, of any convex loss, beats the constant predictor (whose log loss
is the label entropy) exactly if all class means coincide (Belrose et al. 2023, Theorem 3.1). This
is checked on the given rows only; probe accuracies are held out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.spatial.distance import cdist
from sklearn.base import BaseEstimator, clone
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import StratifiedGroupKFold
from sklearn.svm import SVC
from statsmodels.stats.proportion import proportion_confint

from countergen_edit.core.seeds import generator, unit_seed
from countergen_edit.erasers.affine import AffineErasure
from countergen_edit.erasers.labelled import (
    LabelledRows,
    as_numpy,
    read_per_row,
    read_rows,
    require_classes,
)
from countergen_edit.erasers.logistic import fit_probe, label_entropy
from countergen_edit.erasers.numerics import run_parallel

COINCIDE = 1e-6
"""Class means closer than this, in within-class standard deviations, count as equal."""
LOSS_GAP = 1e-3
"""Nats by which the best probe may beat the label entropy under a guarantee."""
FOLDS = 3
"""Folds of the cross-validation; fewer if a class has fewer ids."""
NONLINEAR_ROWS = 1000
"""Maximum number of rows that the support vector machine is fitted on."""


@dataclass(frozen=True)
class Certificate:
    """The size of an erasure, the accuracy of probes, and whether the theorem applies.

    Losses are in nats; accuracies are cross-validated, NaN if a class has a single id.
    """

    rank: int
    """Dimensions erased."""
    probe_loss: float
    """Loss of the best logistic probe with intercept on the erased rows."""
    label_entropy: float
    """Loss of the best constant predictor: the upper bound of `probe_loss`."""
    class_mean_gap: float
    """Largest distance of two class means, over the within-class standard deviation before."""
    linear_accuracy_before: float
    linear_accuracy_after: float
    """Of a logistic probe (L2, C = 1, features scaled to unit variance)."""
    nonlinear_accuracy_before: float
    nonlinear_accuracy_after: float
    """Of an RBF support vector machine."""
    nonlinear_rows: int
    """Training rows of that machine."""
    majority_rate: float
    """Share of the largest class."""
    variance_removed: float
    """Share of the total variance; negative if an oblique erasure adds variance."""
    guaranteed: bool
    reason: str
    """Why it is guaranteed or not."""
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Wilson's 95 % interval of each accuracy, clustered by id."""


def certify(
    eraser: Any,
    X: Any,
    z: Any,
    *,
    groups: Any = None,
    fit_params: Mapping[str, Any] | None = None,
    probed: Any = None,
    random_state: int = 0,
) -> Certificate:
    """Measure an erasure on labelled rows.

    An eraser is refitted in each fold. A bare `AffineErasure` is not: means that coincide over all
    rows lie on opposite sides in a fold and in the rest, and accuracies fall below chance.

    Parameters
    ----------
    eraser : BaseEraser or AffineErasure
        Fitted.
    X : array of shape (n, d)
        For the guarantee, the rows it was fitted on.
    z : array of shape (n,)
        Classes.
    groups : array of shape (n,), optional
        Ids (pair, name, template); rows of one id are never split between folds.
    fit_params : mapping, optional
        Metadata of `fit`; an eraser that was fitted with ids per row is refitted only with them.
    probed : bool array of shape (n,), optional
        Rows to measure on; the others only serve to refit the eraser. Default: all.
    random_state : int
        Seed of folds and subsamples.

    Raises
    ------
    UserError
        For invalid rows, labels or `groups`, or another number of features than the erasure's.
    """
    erasure: AffineErasure = getattr(eraser, "erasure_", eraser)
    whole = read_rows(None, X, z)
    n = len(whole.X)
    mask = np.ones(n, bool) if probed is None else read_per_row(probed, "probed", n).astype(bool)
    rows = whole if mask.all() else read_rows(None, whole.X[mask], whole.classes[whole.codes[mask]])
    require_classes(rows)
    erased = replace(rows, X=erasure(rows.X))
    within = rows.X - rows.class_means[rows.codes]
    spread = float(np.sqrt((within**2).sum(axis=1).mean()))
    gap = float(cdist(erased.class_means, erased.class_means).max()) / max(spread, 1e-300)
    entropy = label_entropy(rows)
    loss = min(fit_probe(erased, tol=1e-5).loss, entropy)
    guaranteed = gap <= COINCIDE and entropy - loss <= LOSS_GAP
    before, after = float(rows.X.var(axis=0).sum()), float(erased.X.var(axis=0).sum())
    folds = _folds(eraser, whole, mask, groups, fit_params or {}, random_state)
    trials = [trial.result() for trial in run_parallel(list(folds), whole.X)]
    thin = [trial.subsample(random_state) for trial in trials]
    measured = np.concatenate([trial.codes for trial in trials]) if trials else rows.codes
    ids = np.concatenate([trial.ids for trial in trials]) if trials else np.arange(0)
    hits = {
        f"{name}_accuracy_{when}": _hits(some, guess, erase=when == "after")
        for name, some, guess in (("linear", trials, _linear), ("nonlinear", thin, _rbf))
        for when in ("before", "after")
    }
    accuracies = {name: float(own.mean()) if own.size else np.nan for name, own in hits.items()}
    return Certificate(
        rank=erasure.rank,
        probe_loss=loss,
        label_entropy=entropy,
        class_mean_gap=gap,
        **accuracies,
        nonlinear_rows=max((len(trial.fit.X) for trial in thin), default=0),
        majority_rate=float(np.bincount(measured).max() / len(measured)),
        variance_removed=1.0 - after / before if before else 0.0,
        guaranteed=guaranteed,
        reason=_reason(eraser, erasure.rank, len(rows.classes), gap, loss, entropy, guaranteed),
        intervals={name: interval(own, ids) for name, own in hits.items() if own.size},
    )


def interval(
    hits: Bool[np.ndarray, " measured"], ids: Int[np.ndarray, " measured"]
) -> tuple[float, float]:
    """Wilson's 95 % interval of the share of hits, for the effective number of trials.

    That is p(1 - p) over a sandwich estimate of the variance clustered by id, at most one per row
    and at least Kish's effective sample size (Survey Sampling, 1965).
    """
    p, sizes = float(hits.mean()), np.bincount(ids)
    sizes, sums = sizes[sizes > 0], np.bincount(ids, hits - p)[sizes > 0]
    fewest = len(hits) ** 2 / float((sizes**2).sum())
    variance = float((sums**2).sum()) / len(hits) ** 2 * len(sizes) / max(len(sizes) - 1, 1)
    count = min(max(p * (1 - p) / variance, fewest), len(hits)) if variance else fewest
    lo, hi = proportion_confint(p * count, count, method="wilson")
    return float(lo), float(hi)


@dataclass(frozen=True)
class Trial:
    """An erasure, the rows a probe is fitted on, and the rows it is measured on, with their ids."""

    erasure: AffineErasure
    fit: LabelledRows
    X: Float[np.ndarray, "test d"]
    codes: Int[np.ndarray, " test"]
    ids: Int[np.ndarray, " test"]

    def subsample(self, seed: int) -> Trial:
        """The same with at most `NONLINEAR_ROWS` rows to fit on."""
        n = len(self.fit.X)
        if n <= NONLINEAR_ROWS:
            return self
        some = generator(seed, "rows for rbf").choice(n, NONLINEAR_ROWS, replace=False)
        return replace(self, fit=self.fit[np.sort(some)])


def _folds(
    eraser: Any,
    rows: LabelledRows,
    probed: Bool[np.ndarray, " row"],
    groups: Any,
    fit_params: Mapping[str, Any],
    seed: int,
) -> Iterator[Callable[[], Trial]]:
    """A call for each fold that refits the eraser without it."""
    n = len(rows.X)
    ids = np.arange(n) if groups is None else read_per_row(groups, "groups", n)
    _, ids = np.unique(ids, return_inverse=True)
    smallest = min(len(np.unique(ids[rows.codes == code])) for code in range(len(rows.classes)))
    if smallest < 2:
        return
    folds = StratifiedGroupKFold(
        min(FOLDS, smallest), shuffle=True, random_state=unit_seed(seed, "folds") % 2**32
    )
    refits = (
        isinstance(eraser, BaseEstimator)
        and getattr(eraser, "refit_in_folds", True)
        and set(eraser.row_ids_) <= set(fit_params)
    )

    def trial(train: Int[np.ndarray, " train"], test: Int[np.ndarray, " test"]) -> Trial:
        fitted = eraser
        if refits:
            here = {name: _of_rows(value, train, n) for name, value in fit_params.items()}
            fitted = clone(eraser).fit(rows.X[train], rows.codes[train], **here)
        erasure = getattr(fitted, "erasure_", fitted)
        train, test = train[probed[train]], test[probed[test]]
        return Trial(erasure, rows[train], rows.X[test], rows.codes[test], ids[test])

    for train, test in folds.split(rows.X, rows.codes, ids):
        yield partial(trial, train, test)


def _of_rows(value: Any, train: Int[np.ndarray, " train"], n: int) -> Any:
    per_row = not isinstance(value, str) and np.ndim(value) and len(value) == n
    return np.asarray(as_numpy(value))[train] if per_row else value


Guess = Callable[[LabelledRows, Float[np.ndarray, "test d"]], Int[np.ndarray, " test"]]


def _hits(trials: list[Trial], guess: Guess, *, erase: bool) -> Bool[np.ndarray, " measured"]:
    """Whether a probe classifies each measured row correctly, trial by trial."""

    def hits(trial: Trial) -> Bool[np.ndarray, " test"]:
        fit, X = trial.fit, trial.X
        if erase:
            fit, X = replace(fit, X=trial.erasure(fit.X)), trial.erasure(X)
        # A class may be missing from a fold: the probe then chooses among the others.
        present, codes = np.unique(fit.codes, return_inverse=True)
        subset = replace(fit, codes=codes, classes=present)
        answer = guess(subset, X) if len(present) > 1 else np.zeros(len(X), dtype=int)
        return np.asarray(present[answer] == trial.codes)

    if not trials:
        return np.zeros(0, dtype=bool)
    of_trials = run_parallel([partial(hits, trial) for trial in trials], trials[0].fit.X)
    return np.concatenate([hit.result() for hit in of_trials])


def _linear(fit: LabelledRows, X: Float[np.ndarray, "test d"]) -> Int[np.ndarray, " test"]:
    scale = np.sqrt(fit.X.var(axis=0).mean()) or 1.0
    scaled = replace(fit, X=fit.X / scale)
    return fit_probe(scaled, penalty=1.0 / len(fit.X), tol=1e-5, max_iter=100).predict(X / scale)


def _rbf(fit: LabelledRows, X: Float[np.ndarray, "test d"]) -> Int[np.ndarray, " test"]:
    spread = float(fit.X.var(axis=0).sum()) or 1.0
    centre = fit.mean  # distances are taken from inner products, which lose digits to a large mean
    kernel = rbf_kernel(np.vstack([fit.X, X]) - centre, fit.X - centre, gamma=1.0 / spread)
    machine = SVC(kernel="precomputed").fit(kernel[: len(fit.X)], fit.codes)
    return np.asarray(machine.predict(kernel[len(fit.X) :]))


def _reason(
    eraser: Any, rank: int, c: int, gap: float, loss: float, entropy: float, guaranteed: bool
) -> str:
    if guaranteed:
        return (
            "all class means coincide on these rows, so no linear probe with an intercept beats "
            "the constant predictor there (Belrose et al. 2023)"
        )
    why = f"class means are {gap:.2g} within-class standard deviations apart"
    if gap <= COINCIDE:
        why = f"class means coincide, yet a probe gains {entropy - loss:.2g} nats"
    elif rank < c - 1:
        why = f"rank {rank} is below c - 1 = {c - 1} for {c} classes, and {why}"
    because = getattr(eraser, "no_guarantee_because", None)
    return f"{why}: {because}" if because else why
