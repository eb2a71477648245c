"""Isolated rows against scikit-learn's forest, which draws other random numbers."""

from __future__ import annotations

import numpy as np
from sklearn.ensemble import IsolationForest

from trainwright.data.statistics.isolation_forest import find_isolated_rows


def _rows() -> np.ndarray:
    random = np.random.default_rng(1)
    values = random.normal(size=(6000, 4))
    values[:, 2] = random.integers(0, 3, len(values))
    values[:6] += 30
    return values


def test_scores_are_those_of_scikit_learn_but_for_the_draws() -> None:
    values = _rows()
    rows, scores = find_isolated_rows(values, 0.01, 300)
    assert rows.tolist() == list(range(len(values)))
    theirs = -IsolationForest(n_estimators=300, random_state=0).fit(values).score_samples(values)
    assert abs(scores.mean() - theirs.mean()) < 0.01
    assert np.corrcoef(scores, theirs)[0, 1] > 0.97


def test_rows_are_left_out_as_soon_as_their_paths_are_too_long_and_no_sooner() -> None:
    values = _rows()
    every, scores = find_isolated_rows(values, 0.01, 100)
    rows, isolated = find_isolated_rows(values, 0.6, 100)
    assert 6 <= len(rows) < 600
    assert rows.tolist() == every[scores > 0.6].tolist()
    np.testing.assert_array_equal(isolated, scores[rows])
