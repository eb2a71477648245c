"""Logistic regression against scikit-learn, which takes the same steps."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression

from trainwright.data.statistics.logistic_regression import fit_logistic


def _rows(classes: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(2)
    rows = random.normal(size=(800, 6)) * (random.random((800, 6)) < 0.4)
    raw = rows @ random.normal(size=(6, classes)) + random.gumbel(size=(800, classes))
    return rows, raw.argmax(axis=1) + 3


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("kind", [np.asarray, csr_array])
@pytest.mark.parametrize("weighted", [False, True])
def test_coefficients_and_probabilities(classes: int, kind: type, weighted: bool) -> None:
    rows, given = _rows(classes)
    weights = np.random.default_rng(3).random(len(rows)) if weighted else None
    ours = fit_logistic(kind(rows), given, 2.0, 200, weights)
    theirs = LogisticRegression(C=0.5, max_iter=200).fit(rows, given, weights)
    np.testing.assert_allclose(ours.coefficients, theirs.coef_, atol=1e-9)
    np.testing.assert_allclose(ours.intercepts, theirs.intercept_, atol=1e-9)
    np.testing.assert_allclose(ours.chances(kind(rows)), theirs.predict_proba(rows), atol=1e-9)
    assert ours.present.tolist() == theirs.classes_.tolist()
    assert ours.iterations == theirs.n_iter_[0]


def test_a_fit_that_begins_with_another_ends_at_the_same_place_sooner() -> None:
    rows, given = _rows(4)
    before = fit_logistic(rows[:600], given[:600], 1.0, 200)
    anew = fit_logistic(rows, given, 1.0, 200)
    again = fit_logistic(rows, given, 1.0, 200, start=before)
    np.testing.assert_allclose(again.chances(rows), anew.chances(rows), atol=2e-3)
    assert again.iterations < anew.iterations
