"""Costs of errors by hand: loops over rows, scikit-learn's confusion matrix, all thresholds."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import confusion_matrix

from trainwright.contract.sections.metric import Metric
from trainwright.data.columns.target import Costs, least_expected, least_threshold
from trainwright.evaluation.calibration.fit_threshold import fit_cost_threshold, fit_threshold
from trainwright.evaluation.metrics.metric_values import measure
from trainwright.evaluation.metrics.predictions import answers_of
from trainwright.evaluation.metrics.weighted_metrics import weigh

TWO: Costs = ((0.5, 3.0), (11.0, 1.0))
THREE: Costs = ((0.0, 1.0, 9.0), (2.0, 0.5, 4.0), (30.0, 8.0, 1.0))
SECTION = Metric(name="cost", target=1.0)


def made(classes: int, rows: int = 400) -> tuple[np.ndarray, np.ndarray]:
    draws = np.random.default_rng(classes)
    scores = draws.dirichlet(np.ones(classes), rows)
    chosen = [draws.choice(classes, p=row) for row in scores]
    return scores, np.array(chosen, np.int64)


@pytest.mark.parametrize("costs", [TWO, THREE])
def test_each_row_is_given_the_class_of_least_expected_cost(costs: Costs) -> None:
    scores, _ = made(len(costs))
    classes = range(len(costs))
    by_hand = [
        min(classes, key=lambda said: sum(row[true] * costs[true][said] for true in classes))
        for row in scores.tolist()
    ]
    found = least_expected(scores, costs)
    assert found.tolist() == by_hand
    assert (found != scores.argmax(axis=1)).any()
    assert least_expected(scores[:0], costs).shape == (0,)


def test_of_two_classes_that_is_a_threshold() -> None:
    scores, _ = made(2)
    for positive in (0, 1):
        threshold = least_threshold(TWO, positive)
        chosen = np.where(scores[:, positive] >= threshold, positive, 1 - positive)
        np.testing.assert_array_equal(chosen, least_expected(scores, TWO))
    assert least_threshold(TWO, 1) == pytest.approx(2.5 / 12.5)


@pytest.mark.parametrize("costs", [TWO, THREE])
def test_the_metric_is_the_mean_over_the_confusion_matrix(costs: Costs) -> None:
    scores, truth = made(len(costs))
    cheapest = answers_of(truth, scores, costs=costs)
    likeliest = answers_of(truth, scores, decided=scores.argmax(axis=1), costs=costs)
    counts = confusion_matrix(truth, least_expected(scores, costs))
    value = float((counts * np.array(costs)).sum() / len(truth))
    assert measure("cost", cheapest, SECTION) == pytest.approx(value, abs=1e-12)
    assert measure("cost", likeliest, SECTION) > value
    twice = np.repeat(np.arange(0, 400, 3), 2)
    weights = np.bincount(twice, minlength=400)[None].astype(float)
    again = measure("cost", cheapest.take(twice), SECTION)
    assert weigh("cost", cheapest, SECTION)(weights)[0] == pytest.approx(again)


@pytest.mark.parametrize("positive", [0, 1])
@pytest.mark.parametrize("digits", [1, 6])
def test_no_threshold_costs_less_on_the_rows_that_it_is_fitted_to(
    positive: int, digits: int
) -> None:
    scores, truth = made(2)
    scores = np.round(scores, digits) ** np.array([1.0, 1.7])  # no probabilities any more
    found = fit_threshold(scores, truth, positive, "cost", TWO)

    def cost(threshold: float) -> float:
        said = np.where(scores[:, positive] >= threshold, positive, 1 - positive)
        return sum(TWO[true][one] for true, one in zip(truth, said, strict=True)) / len(truth)

    assert cost(found) <= min(cost(one) for one in np.linspace(0.002, 0.998, 499)) + 1e-9
    assert cost(found) < cost(0.5)


def test_a_fitted_threshold_is_never_that_of_none() -> None:
    scores = np.array([[0.9, 0.1], [0.6, 0.4], [0.4, 0.6], [0.1, 0.9]])
    equal: Costs = ((0.0, 1.0), (1.0, 0.0))
    found = fit_threshold(scores, np.array([0, 0, 1, 1]), 1, "cost", equal)
    assert found == pytest.approx(0.5)
    assert found != 0.5


def test_a_threshold_is_fitted_only_where_the_rows_show_that_it_costs_less() -> None:
    draws = np.random.default_rng(0)
    odds = draws.normal(-1, 2, 4000)
    truth = (draws.random(4000) < 1 / (1 + np.exp(-odds))).astype(np.int64)
    units = np.arange(4000)

    def scores(slope: float) -> np.ndarray:
        said = 1 / (1 + np.exp(-slope * odds))
        return np.stack([1 - said, said], axis=1)

    calibrated = fit_cost_threshold(scores(1.0), truth, units, TWO, 1, 0)
    assert calibrated == 0.5
    too_sure = fit_cost_threshold(scores(4.0), truth, units, TWO, 1, 0)
    # 0.2, the threshold of calibrated probabilities, has the odds log 0.25; here four times that.
    assert too_sure == pytest.approx(1 / (1 + 4**4), abs=0.01)
    few = np.arange(0, 4000, 100)
    assert fit_cost_threshold(scores(1.3)[few], truth[few], units[few], TWO, 1, 0) == 0.5
