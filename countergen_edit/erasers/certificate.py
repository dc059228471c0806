"""What an erasure did to the classes, with the theorem's condition checked and probes held out.

The game's upper bound is the label entropy H(z). No linear probe with an intercept, of any convex
loss, beats the constant predictor exactly where all class means coincide (Belrose et al. 2023,
Theorem 3.1): that is checked on the rows given, and so is the loss of the best logistic probe.
Both speak of those rows only; what a probe finds on rows it was not fitted on is measured.
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

from countergen_edit.erasers.accuracy import interval
from countergen_edit.erasers.affine import AffineErasure
from countergen_edit.erasers.labelled import LabelledRows, as_numpy, read_rows, require_classes
from countergen_edit.erasers.solvers.logistic import fit_probe, label_entropy
from countergen_edit.erasers.threads import side_by_side
from countergen_edit.errors import UserError
from countergen_edit.seeds import generator, unit_seed

COINCIDE = 1e-6
"""Class means closer than this, in within-class standard deviations, coincide to rounding."""

LOSS_GAP = 1e-3
"""How far below the label entropy, in nats, the best probe may stay under a guarantee."""


@dataclass(frozen=True)
class Certificate:
    """What was erased, what a probe still finds, and whether a theorem says so.

    Accuracies are held out (cross-validated, or on the test rows); NaN where a class has a single
    id, so that it cannot be split.

    Args:
        rank: dimensions erased.
        probe_loss: loss in nats of the best logistic probe with intercept, on the erased rows.
        label_entropy: its upper bound in nats, the loss of the best constant predictor.
        class_mean_gap: largest distance of two class means after erasure, in units of the root mean
            square distance of a row to its class mean before it.
        linear_accuracy_before: of a logistic probe (L2, C = 1, after scaling to unit variance).
        linear_accuracy_after: the same after erasure.
        nonlinear_accuracy_before: of an RBF support vector machine.
        nonlinear_accuracy_after: the same after erasure.
        nonlinear_rows: rows the support vector machine saw; fewer than given where these were many.
        majority_rate: share of the largest class in the rows the accuracies are measured on.
        variance_removed: share of the total variance that is gone; an oblique erasure that adds
            variance makes it negative.
        guaranteed: whether the theorem's condition holds on these rows.
        reason: why it does or does not, in one sentence.
        intervals: of each accuracy that could be measured, by its name, the ends of Wilson's 95 %
            interval, rows of one id counting for as much as they differ.
    """

    rank: int
    probe_loss: float
    label_entropy: float
    class_mean_gap: float
    linear_accuracy_before: float
    linear_accuracy_after: float
    nonlinear_accuracy_before: float
    nonlinear_accuracy_after: float
    nonlinear_rows: int
    majority_rate: float
    variance_removed: float
    guaranteed: bool
    reason: str
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)


def certify(
    eraser: Any,
    X: Any,
    z: Any,
    *,
    X_test: Any = None,
    z_test: Any = None,
    groups: Any = None,
    fit_params: Mapping[str, Any] | None = None,
    probed: Any = None,
    random_state: int = 0,
    n_folds: int = 3,
    max_nonlinear_rows: int = 1000,
) -> Certificate:
    """Measure an erasure on labelled rows.

    An eraser is cross-validated together with the probe: fitted anew without the rows measured.
    That matters, for once an erasure has made the class means of *all* rows coincide, those of any
    part and of the rest lie on opposite sides, and a probe fitted on one does worse than chance on
    the other. A bare `AffineErasure` cannot be fitted anew: give it `X_test`, or read an accuracy
    below the majority rate as that artefact.

    Args:
        eraser: a fitted eraser, or an `AffineErasure`.
        X: rows `[row, d]`; for the guarantee, those it was fitted on.
        z: their classes.
        X_test: rows to measure the accuracies on, erasure and probes being fitted on `X`.
        z_test: their classes, all of which must occur in `z`.
        groups: an id per row of `X` (pair, name, template); rows of one id are never split between
            fitting and measuring.
        fit_params: what `fit` was given beside `X` and `z` (pairs, contexts, …), with an entry per
            row where it had one. An eraser fitted with such ids is fitted anew only with them.
        probed: a boolean per row: the rows everything is measured on. The others, those of contexts
            to be kept say, serve only to fit the eraser anew. None: all.
        random_state: seed of the folds and of the subsample.
        n_folds: folds of the cross-validation, fewer where a class has fewer ids.
        max_nonlinear_rows: rows the support vector machine is fitted on at most.

    Raises:
        UserError: bad rows or labels; another number of features than the erasure's; `X_test`
            without `z_test`; `groups` of another length.
    """
    erasure: AffineErasure = getattr(eraser, "erasure_", eraser)
    whole = read_rows(None, X, z)
    mask = np.ones(len(whole.X), bool) if probed is None else np.asarray(as_numpy(probed), bool)
    if mask.shape != whole.codes.shape:
        raise UserError(f"probed has shape {mask.shape} for {len(whole.X)} rows: one value a row")
    rows = whole if mask.all() else read_rows(None, whole.X[mask], whole.classes[whole.codes[mask]])
    require_classes(len(rows.classes), len(rows.X))
    erased = replace(rows, X=erasure(rows.X))
    within = rows.X - rows.class_means[rows.codes]
    spread = float(np.sqrt((within**2).sum(axis=1).mean()))
    gap = float(cdist(erased.class_means, erased.class_means).max()) / max(spread, 1e-300)
    entropy = label_entropy(rows)
    loss = min(fit_probe(erased, tol=1e-5).loss, entropy)
    guaranteed = gap <= COINCIDE and entropy - loss <= LOSS_GAP
    before, after = float(rows.X.var(axis=0).sum()), float(erased.X.var(axis=0).sum())
    if X_test is None:
        folds = _folds(eraser, whole, mask, groups, fit_params or {}, random_state, n_folds)
        trials = [trial.result() for trial in side_by_side(list(folds), whole.X)]
    else:
        test = _read_test(rows, X_test, z_test)
        trials = [Trial(erasure, rows, *test, np.arange(len(test[1])))]
    thin = [trial.thinned(max_nonlinear_rows, random_state) for trial in trials]
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


@dataclass(frozen=True)
class Trial:
    """One erasure, the rows a probe is fitted on, and the rows it is measured on."""

    erasure: AffineErasure
    fit: LabelledRows
    X: Float[np.ndarray, "test d"]
    codes: Int[np.ndarray, " test"]
    ids: Int[np.ndarray, " test"]
    """Rows of one id depend on each other."""

    def thinned(self, most: int, seed: int) -> Trial:
        """The same with at most `most` rows to fit on."""
        if len(self.fit.X) <= most:
            return self
        some = generator(seed, "rows for rbf").choice(len(self.fit.X), most, replace=False)
        return replace(self, fit=self.fit[np.sort(some)])


def _folds(
    eraser: Any,
    rows: LabelledRows,
    probed: Bool[np.ndarray, " row"],
    groups: Any,
    fit_params: Mapping[str, Any],
    seed: int,
    n_folds: int,
) -> Iterator[Callable[[], Trial]]:
    """What fits the eraser without a fold, for each."""
    n = len(rows.X)
    ids = np.arange(n) if groups is None else np.asarray(as_numpy(groups))
    if len(ids) != n:
        raise UserError(f"groups has {len(ids)} ids for {n} rows: give one id to each row")
    _, ids = np.unique(ids, return_inverse=True)
    smallest = min(len(np.unique(ids[rows.codes == code])) for code in range(len(rows.classes)))
    if min(n_folds, smallest) < 2:
        return
    folds = StratifiedGroupKFold(
        min(n_folds, smallest), shuffle=True, random_state=unit_seed(seed, "folds") % 2**32
    )
    anew = (
        isinstance(eraser, BaseEstimator)
        and getattr(eraser, "is_refitted", True)
        and set(eraser.row_ids_) <= set(fit_params)
    )

    def trial(train: Int[np.ndarray, " train"], test: Int[np.ndarray, " test"]) -> Trial:
        erasure = eraser.erasure_ if isinstance(eraser, BaseEstimator) else eraser
        if anew:
            here = {name: _of_rows(value, train, n) for name, value in fit_params.items()}
            refit = clone(eraser).fit(rows.X[train], rows.codes[train], **here)
            erasure = refit.erasure_
        train, test = train[probed[train]], test[probed[test]]
        return Trial(erasure, rows[train], rows.X[test], rows.codes[test], ids[test])

    for train, test in folds.split(rows.X, rows.codes, ids):
        yield partial(trial, train, test)


def _of_rows(value: Any, train: Int[np.ndarray, " train"], n: int) -> Any:
    per_row = not isinstance(value, str) and np.ndim(value) and len(value) == n
    return np.asarray(as_numpy(value))[train] if per_row else value


def _read_test(
    rows: LabelledRows, X_test: Any, z_test: Any
) -> tuple[Float[np.ndarray, "test d"], Int[np.ndarray, " test"]]:
    if z_test is None:
        raise UserError("X_test is given without z_test: give the classes of the test rows too")
    test = read_rows(None, X_test, z_test)
    strange = np.setdiff1d(test.classes, rows.classes)
    if len(strange):
        raise UserError(f"z_test holds {str(strange[0])!r}, z does not: test on classes of the fit")
    return test.X, np.searchsorted(rows.classes, test.classes)[test.codes]


Guess = Callable[[LabelledRows, Float[np.ndarray, "test d"]], Int[np.ndarray, " test"]]


def _hits(trials: list[Trial], guess: Guess, *, erase: bool) -> Bool[np.ndarray, " measured"]:
    """Which of all measured rows a probe gets right, of one trial after the other."""

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
    of_trials = side_by_side([partial(hits, trial) for trial in trials], trials[0].fit.X)
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
