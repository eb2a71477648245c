"""Thresholds of labels: the best that there are, by trying all of them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from sklearn.metrics import f1_score, hamming_loss

from trainwright.evaluation.calibration.fit_threshold import fit_label_thresholds

ROWS, LABELS = 9, 3


def rows(seed: int) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    scores = draw.uniform(0.01, 0.99, (ROWS, LABELS)).round(2)
    truth = (draw.uniform(size=(ROWS, LABELS)) < scores**2).astype(np.int64)
    truth[:2] = [[0] * LABELS, [1] * LABELS]
    return scores, truth


def of_sklearn(metric: str, truth: np.ndarray, chosen: np.ndarray) -> float:
    """Of which more is better."""
    if metric == "hamming_loss":
        return -float(hamming_loss(truth, chosen))
    return float(f1_score(truth, chosen, average=metric.removeprefix("f1_"), zero_division=0.0))


def value(metric: str, truth: np.ndarray, chosen: np.ndarray) -> float:
    """The same by its formula, as thousands are tried."""
    if metric == "hamming_loss":
        return -float((truth != chosen).mean())
    right, both = (truth * chosen).sum(axis=0), (truth + chosen).sum(axis=0)
    if metric == "f1_micro":
        return float(2 * right.sum() / max(1, both.sum()))
    return float((2 * right / np.maximum(1, both)).mean())


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("metric", ["f1_macro", "f1_micro", "hamming_loss"])
def test_no_other_thresholds_are_better(metric: str, seed: int) -> None:
    scores, truth = rows(seed)
    found = fit_label_thresholds(scores, truth, metric)
    assert all(0 < one < 1 for one in found)
    chosen = (scores >= np.array(found)).astype(int)
    best = value(metric, truth, chosen)
    assert best == pytest.approx(of_sklearn(metric, truth, chosen))
    cuts = [np.append(np.unique(column), 1.0) for column in scores.T]
    tried = (
        value(metric, truth, (scores >= np.array(each)).astype(int))
        for each in itertools.product(*cuts)
    )
    assert best >= max(tried) - 1e-12


def test_a_label_without_both_kinds_of_rows_keeps_one_half() -> None:
    scores, truth = rows(0)
    truth[:, 1] = 0
    assert fit_label_thresholds(scores, truth, "f1_macro")[1] == 0.5


@pytest.mark.parametrize("metric", ["f1_macro", "f1_micro"])
def test_equal_scores_cannot_be_cut(metric: str) -> None:
    scores, truth = np.full((4, 2), 0.3), np.array([[0, 1], [1, 0], [0, 1], [1, 1]])
    found = fit_label_thresholds(scores, truth, metric)
    assert value(metric, truth, (scores >= np.array(found)).astype(int)) > 0.5
