"""Certificates: the class information left after an erasure, by theorem and held-out probes.

No linear probe with an intercept, of any convex loss, beats the constant predictor (whose log loss
is the label entropy) exactly if all class means coincide (Belrose et al. 2023, Theorem 3.1). This
is checked on the given rows only; probe accuracies are held out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import StratifiedGroupKFold
from sklearn.svm import SVC
from statsmodels.stats.proportion import proportion_confint

from countergen_edit.core.seeds import generator, unit_seed
from countergen_edit.erasers.affine import AffineErasure
from countergen_edit.erasers.labelled import LabelledRows, as_numpy, labelled_rows, read_per_row
from countergen_edit.erasers.logistic import fit_probe, label_entropy
from countergen_edit.erasers.numerics import run_parallel

COINCIDE = 1e-6
"""Class means closer than this, in within-class standard deviations, count as equal."""
LOSS_GAP = 1e-3
"""Nats by which the best probe may beat the label entropy under a guarantee."""
_FOLDS = 3
"""Folds of the cross-validation; fewer if a class has fewer ids."""
NONLINEAR_ROWS = 1000
"""Maximum number of rows that the support vector machine is fitted on."""
ACCURACIES = tuple(
    f"{probe}_accuracy_{when}" for probe in ("linear", "nonlinear") for when in ("before", "after")
)
Rows = Int[np.ndarray, " _"]
Hits = Mapping[str, Bool[np.ndarray, " _"]]
"""Which test rows each probe classifies correctly."""


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

    An eraser is refitted in each fold if `fit_params` has the ids per row that it was fitted
    with. A bare `AffineErasure` is not: means that coincide over all rows lie on opposite sides in
    a fold and in the rest, and accuracies fall below chance.

    The guarantee is about `X` `[n, d]`, the rows of the fit, of classes `z`. Rows of one id in
    `groups` `[n]` stay in one fold; rows not in `probed` `[n]` only serve to refit.
    """
    erasure: AffineErasure = getattr(eraser, "erasure_", eraser)
    whole = labelled_rows(X, z)
    n = len(whole.X)
    params = fit_params or {}
    mask = np.ones(n, bool) if probed is None else read_per_row(probed, "probed", n).astype(bool)
    rows = whole if mask.all() else labelled_rows(whole.X[mask], whole.classes[whole.codes[mask]])
    erased = replace(rows, X=erasure(rows.X))
    within = rows.X - rows.class_means[rows.codes]
    spread = float(np.sqrt((within**2).sum(axis=1).mean()))
    gap = float(cdist(erased.class_means, erased.class_means).max()) / max(spread, 1e-300)
    entropy = label_entropy(rows)
    loss = min(fit_probe(erased, tol=1e-4).loss, entropy)
    gain = entropy - loss
    guaranteed = gap <= COINCIDE and gain <= LOSS_GAP
    before, after = float(rows.X.var(axis=0).sum()), float(erased.X.var(axis=0).sum())
    ids = np.arange(n) if groups is None else read_per_row(groups, "groups", n)
    _, ids = np.unique(ids, return_inverse=True)
    refits = getattr(eraser, "refit_in_folds", False) and {*eraser.row_ids_} <= {*params}

    def measure(train: Rows, test: Rows) -> tuple[Rows, int, Hits]:
        of_fold = erasure
        if refits:
            fitted = train
            if "pairs" in params:  # without those of which the fold holds one side
                pairs = np.asarray(params["pairs"])
                fitted = train[~np.isin(pairs[train], pairs[test])]
            metadata = {name: _of_rows(value, fitted, n) for name, value in params.items()}
            of_fold = clone(eraser).fit(whole.X[fitted], whole.codes[fitted], **metadata).erasure_
        test = test[mask[test]]
        return test, *_hits(of_fold, whole[train[mask[train]]], whole[test], random_state)

    fewest = min(len(np.unique(ids[whole.codes == code])) for code in range(len(whole.classes)))
    folds = []
    if fewest > 1:
        state = unit_seed(random_state, "folds") % 2**32
        splitter = StratifiedGroupKFold(min(_FOLDS, fewest), shuffle=True, random_state=state)
        calls = [partial(measure, *part) for part in splitter.split(whole.X, whole.codes, ids)]
        folds = [fold.result() for fold in run_parallel(calls, whole.X)]
    seen = np.concatenate([test for test, _, _ in folds]) if folds else np.flatnonzero(mask)
    hits = {k: np.concatenate([of_fold[k] for *_, of_fold in folds]) for k in ACCURACIES if folds}
    return Certificate(
        rank=erasure.rank,
        probe_loss=loss,
        label_entropy=entropy,
        class_mean_gap=gap,
        **{name: float(hits[name].mean()) if hits else np.nan for name in ACCURACIES},
        nonlinear_rows=max((size for _, size, _ in folds), default=0),
        majority_rate=float(np.bincount(whole.codes[seen]).max() / len(seen)),
        variance_removed=1.0 - after / before if before else 0.0,
        guaranteed=guaranteed,
        reason=_reason(eraser, erasure.rank, len(rows.classes), gap, gain, guaranteed),
        intervals={name: accuracy_interval(values, ids[seen]) for name, values in hits.items()},
    )


def accuracy_interval(
    hits: Bool[np.ndarray, " measured"], ids: Int[np.ndarray, " measured"]
) -> tuple[float, float]:
    """Wilson's 95 % interval of the share of hits, for the effective number of trials.

    That is p(1 - p) over a sandwich variance clustered by id, from Kish's effective sample size
    (Survey Sampling, 1965) to one per row.
    """
    p, sizes = float(hits.mean()), np.bincount(ids)
    sizes, sums = sizes[sizes > 0], np.bincount(ids, hits - p)[sizes > 0]
    fewest = len(hits) ** 2 / float((sizes**2).sum())
    variance = float((sums**2).sum()) / len(hits) ** 2 * len(sizes) / max(len(sizes) - 1, 1)
    count = min(max(p * (1 - p) / variance, fewest), len(hits)) if variance else fewest
    lo, hi = proportion_confint(p * count, count, method="wilson")
    return float(lo), float(hi)


def _of_rows(value: Any, train: Rows, n: int) -> Any:
    per_row = not isinstance(value, str) and np.ndim(value) and len(value) == n
    return np.asarray(as_numpy(value))[train] if per_row else value


def _hits(
    erasure: AffineErasure, fit: LabelledRows, test: LabelledRows, seed: int
) -> tuple[int, Hits]:
    """The training rows of the nonlinear probe, and the hits of each probe."""
    thin = fit
    if len(fit.X) > NONLINEAR_ROWS:
        drawn = generator(seed, "rows for rbf").choice(len(fit.X), NONLINEAR_ROWS, replace=False)
        thin = fit[np.sort(drawn)]
    hits = {}
    for name in ACCURACIES:
        train, probe = (fit, _linear) if name.startswith("linear") else (thin, _rbf)
        X = test.X
        # A class may be missing from a fold: the probe then chooses among the others.
        present, codes = np.unique(train.codes, return_inverse=True)
        train = replace(train, codes=codes, classes=present)
        if name.endswith("after"):
            train, X = replace(train, X=erasure(train.X)), erasure(X)
        predicted = probe(train, X) if len(present) > 1 else np.zeros(len(X), dtype=int)
        hits[name] = np.asarray(present[predicted] == test.codes)
    return len(thin.X), hits


def _linear(fit: LabelledRows, X: Float[np.ndarray, "test d"]) -> Int[np.ndarray, " test"]:
    scale = np.sqrt(fit.X.var(axis=0).mean()) or 1.0
    scaled = replace(fit, X=fit.X / scale)
    return fit_probe(scaled, penalty=1.0 / len(fit.X)).predict(X / scale)


def _rbf(fit: LabelledRows, X: Float[np.ndarray, "test d"]) -> Int[np.ndarray, " test"]:
    spread = float(fit.X.var(axis=0).sum()) or 1.0
    centre = fit.mean  # distances are taken from inner products, which lose digits to a large mean
    kernel = rbf_kernel(np.vstack([fit.X, X]) - centre, fit.X - centre, gamma=1.0 / spread)
    machine = SVC(kernel="precomputed").fit(kernel[: len(fit.X)], fit.codes)
    return np.asarray(machine.predict(kernel[len(fit.X) :]))


def _reason(eraser: Any, rank: int, c: int, gap: float, gain: float, guaranteed: bool) -> str:
    if guaranteed:
        return (
            "all class means coincide on these rows, so no linear probe with an intercept beats "
            "the constant predictor there (Belrose et al. 2023)"
        )
    why = f"class means are {gap:.2g} within-class standard deviations apart"
    if gap <= COINCIDE:
        why = f"class means coincide, yet a probe gains {gain:.2g} nats"
    elif rank < c - 1:
        why = f"rank {rank} is below c - 1 = {c - 1} for {c} classes, and {why}"
    because = getattr(eraser, "no_guarantee_because", None)
    return f"{why}: {because}" if because else why
