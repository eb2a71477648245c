"""MASE and sMAPE by their definitions, of rows and of weights."""

from __future__ import annotations

import math

import numpy as np
import pytest

from trainwright.contract.sections.metric import Metric
from trainwright.data.base.levels import Levels
from trainwright.evaluation.metrics.metric_values import measure
from trainwright.evaluation.metrics.predictions import Answers, answers_of
from trainwright.evaluation.metrics.weighted_metrics import weigh

SECTION = Metric(name="mase")


def forecasts() -> Answers:
    truth = np.array([10.0, 20.0, 0.0, 5.0])
    scores = np.array([[12.0], [14.0], [0.0], [1.0]])
    # The third row is of a series that does not change in its training rows.
    return answers_of(truth, scores, levels=Levels(error_scale=np.array([2.0, 2.0, 0.0, 4.0])))


def test_an_error_counts_in_the_unit_of_its_series() -> None:
    assert measure("mase", forecasts(), SECTION) == pytest.approx((1 + 3 + 1) / 3)
    assert measure("mase", forecasts().take(np.array([1, 3])), SECTION) == pytest.approx(2.0)


def test_without_a_series_that_changes_there_is_no_scaled_error() -> None:
    assert math.isnan(measure("mase", forecasts().take(np.array([2])), SECTION))
    plain = answers_of(np.array([1.0]), np.array([[2.0]]))
    assert math.isnan(measure("mase", plain, SECTION))


def test_the_symmetric_error_is_in_percent_up_to_200_and_0_for_a_zero_that_is_met() -> None:
    found = measure("smape", forecasts(), SECTION)
    assert found == pytest.approx(200 * (2 / 22 + 6 / 34 + 0 + 4 / 6) / 4)
    opposite = answers_of(np.array([1.0]), np.array([[-1.0]]))
    assert measure("smape", opposite, SECTION) == 200


def test_a_share_of_0_is_no_error() -> None:
    assert measure("mape", forecasts(), SECTION) == pytest.approx((0.2 + 0.3 + 0.8) / 3)
    assert math.isnan(measure("mape", forecasts().take(np.array([2])), SECTION))


@pytest.mark.parametrize("name", ["mase", "mape", "smape"])
def test_weights_equal_physically_drawn_rows(name: str) -> None:
    drawn = np.random.default_rng(0).integers(0, 4, (30, 4))
    weights = np.stack([np.bincount(rows, minlength=4) for rows in drawn]).astype(float)
    by_rows = [measure(name, forecasts().take(rows), SECTION) for rows in drawn]
    np.testing.assert_allclose(weigh(name, forecasts(), SECTION)(weights), by_rows)
