"""Thresholds against a search over all of them by scikit-learn's metrics."""

from __future__ import annotations

import numpy as np
import pytest

from trainwright.contract.sections.metric import Metric
from trainwright.evaluation.calibration.fit_threshold import DECIDED, CannotCalibrate, fit_threshold
from trainwright.evaluation.metrics.metric_values import measure
from trainwright.evaluation.metrics.predictions import Answers, answers_of
from trainwright.predictor.calibration import Calibration

METRIC = Metric(name="f1", target=0.5)


def rows(positive: int, digits: int) -> tuple[np.ndarray, np.ndarray]:
    draws = np.random.default_rng(0)
    truth = (draws.random(300) < 0.15).astype(np.int64)
    said = np.round(np.clip(0.25 * truth + draws.beta(1, 4, 300), 0, 1), digits)
    scores = np.stack([1 - said, said], axis=1)
    return (scores, truth) if positive else (scores[:, ::-1], 1 - truth)


def answers(scores: np.ndarray, truth: np.ndarray, positive: int, threshold: float) -> Answers:
    decided = Calibration(threshold=threshold).decide(scores, positive)
    return answers_of(truth, scores, positive, decided=decided)


@pytest.mark.extended
@pytest.mark.parametrize("digits", [1, 6])
@pytest.mark.parametrize("positive", [0, 1])
@pytest.mark.parametrize("metric", DECIDED)
def test_no_threshold_is_better(metric: str, positive: int, digits: int) -> None:
    scores, truth = rows(positive, digits)
    found = fit_threshold(scores, truth, positive, metric)
    value = measure(metric, answers(scores, truth, positive, found), METRIC)
    others = [
        measure(metric, answers(scores, truth, positive, one), METRIC)
        for one in np.linspace(0.005, 0.995, 199).tolist()
    ]
    assert value >= max(others) - 1e-9
    assert 0 < found < 1


def test_of_equal_thresholds_the_one_nearest_to_half_counts() -> None:
    scores = np.array([[0.9, 0.1], [0.8, 0.2], [0.2, 0.8], [0.1, 0.9]])
    assert fit_threshold(scores, np.array([0, 0, 1, 1]), 1, "f1") == pytest.approx(0.5)


def test_rows_of_one_class_have_none() -> None:
    with pytest.raises(CannotCalibrate):
        fit_threshold(np.full((4, 2), 0.5), np.ones(4, np.int64), 1, "f1")


def test_what_was_decided_goes_with_its_rows() -> None:
    scores, truth = rows(1, 6)
    whole = answers(scores, truth, 1, 0.2)
    some = np.arange(0, 300, 7)
    np.testing.assert_array_equal(whole.take(some).chosen(), whole.chosen()[some])
    assert whole.chosen().sum() > answers_of(truth, scores).chosen().sum()
