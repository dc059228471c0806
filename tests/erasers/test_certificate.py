"""Certificates and their intervals."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import entropy
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from statsmodels.stats.proportion import proportion_confint

from countergen_edit.erasers import INLP, MeanDifference, PreservingEraser, SentenceDebias, certify
from countergen_edit.erasers.certificate import accuracy_interval
from tests.erasers.conftest import concept, identity


def test_identity_certifies_nothing_erased():
    X, z = concept(c=4)
    certificate = certify(identity(X.shape[1]), X, z)
    assert not certificate.guaranteed
    assert "rank 0 is below c - 1 = 3 for 4 classes" in certificate.reason
    assert certificate.linear_accuracy_before == certificate.linear_accuracy_after
    assert certificate.nonlinear_accuracy_before == certificate.nonlinear_accuracy_after
    assert (certificate.variance_removed, certificate.rank) == (pytest.approx(0), 0)


def test_loss_gap_and_variance_equal_their_definitions():
    X, z = concept(n=200, d=5)
    eraser = INLP(rank=2).fit(X, z)
    erased = eraser.transform(X)
    certificate = eraser.certificate(X, z)
    assert certificate.label_entropy == pytest.approx(entropy(np.bincount(z)))
    probe = LogisticRegression(C=1e8, tol=1e-10, max_iter=5000).fit(erased, z)
    loss = log_loss(z, probe.predict_proba(erased))
    assert certificate.probe_loss == pytest.approx(loss, abs=1e-5)
    means = np.stack([X[z == g].mean(axis=0) for g in (0, 1)])
    spread = np.sqrt(((X - means[z]) ** 2).sum(axis=1).mean())
    gap = np.linalg.norm(erased[z == 0].mean(axis=0) - erased[z == 1].mean(axis=0))
    assert certificate.class_mean_gap == pytest.approx(gap / spread)
    removed = 1 - erased.var(axis=0).sum() / X.var(axis=0).sum()
    assert certificate.variance_removed == pytest.approx(removed)


def test_held_out_accuracy_is_not_below_chance_where_the_eraser_is_fitted_anew():
    """100 rows in 60 dimensions: fitted on all rows, a fold's class means mirror the rest's."""
    rng = np.random.default_rng(0)
    z = np.arange(100) % 2
    X = rng.normal(size=(100, 60)) * np.geomspace(1, 0.05, 60)
    X[:, 0] += 2 * z
    eraser = MeanDifference().fit(X, z)
    anew, frozen = certify(eraser, X, z), certify(eraser.erasure_, X, z)
    assert anew.linear_accuracy_before > 0.75
    assert 0.35 < anew.linear_accuracy_after < 0.65
    assert frozen.linear_accuracy_after < 0.35  # the artefact that the docstring warns of


def test_ids_are_never_split_between_fit_and_measurement():
    """Each id is a cluster with a random class: only a probe that saw the id can know it."""
    rng = np.random.default_rng(0)
    ids = np.repeat(np.arange(40), 6)
    z = rng.integers(0, 2, 40)[ids]
    X = 5 * rng.normal(size=(40, 30))[ids] + 0.1 * rng.normal(size=(240, 30))
    unchanged = identity(30)
    assert certify(unchanged, X, z).nonlinear_accuracy_before > 0.9
    assert certify(unchanged, X, z, groups=ids).nonlinear_accuracy_before < 0.75


def test_a_class_with_one_row_gives_nan_and_many_rows_are_subsampled(monkeypatch):
    X, z = concept()
    lonely = certify(identity(12), X[:30], np.arange(30) == 0)
    assert np.isnan(lonely.linear_accuracy_after)
    assert certify(identity(12), X, z).nonlinear_rows == 160
    monkeypatch.setattr("countergen_edit.erasers.certificate.NONLINEAR_ROWS", 50)
    assert certify(identity(12), X, z).nonlinear_rows == 50


def test_fit_parameters_per_row_follow_their_rows():
    X, z = concept(n=120)
    contexts = np.arange(120) % 3
    fit_params = {"contexts": contexts, "keep": [2]}
    eraser = PreservingEraser().fit(X, z, **fit_params)
    certificate = eraser.certificate(X, z, fit_params=fit_params)
    assert certificate == eraser.certificate(X, z, fit_params=fit_params)
    assert "contexts that are kept" in certificate.reason
    figures = vars(certificate).items()
    accuracies = {k: v for k, v in figures if "accuracy" in k or k == "intervals"}
    assert replace(eraser.certificate(X, z), **accuracies) == certificate


def test_a_pair_of_two_people_is_fitted_on_where_both_are_outside_the_fold():
    X, z = concept(n=120)
    pairs = np.array([np.sum(z[:i] == c) for i, c in enumerate(z)])
    paired = pairs < min(np.bincount(z))
    X, z, pairs = X[paired], z[paired], pairs[paired]
    people = np.array([f"{c} {i % 10}" for c, i in zip(z, pairs, strict=True)])
    eraser = SentenceDebias(rank=1).fit(X, z, pairs=pairs)
    certificate = eraser.certificate(X, z, groups=people, fit_params={"pairs": pairs})
    assert certificate.linear_accuracy_after < certificate.linear_accuracy_before


def test_an_accuracy_of_one_is_as_sure_as_there_are_people():
    wilson = proportion_confint(20, 20, method="wilson")
    for rows in (1, 25):
        ends = accuracy_interval(np.ones(20 * rows, dtype=bool), np.repeat(np.arange(20), rows))
        assert ends == pytest.approx(wilson)


def test_95_of_100_intervals_cover_where_people_differ():
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(400):
        of_person = rng.beta(1.4, 0.6, size=40)  # mean 0.7
        rows = rng.integers(2, 30, size=40)
        ids = np.repeat(np.arange(40), rows)
        lo, hi = accuracy_interval(rng.random(len(ids)) < of_person[ids], ids)
        covered += lo <= 0.7 <= hi
    assert 0.92 <= covered / 400 <= 0.98
