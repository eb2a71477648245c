"""Metrics of predicted quantiles against scikit-learn and formulas, of single rows and weights."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import mean_pinball_loss

from trainwright.contract.sections.metric import METRICS_OF_QUANTILES, Metric
from trainwright.data.base.levels import Levels
from trainwright.data.columns.number_target import ForecastTarget, Numbers
from trainwright.evaluation.metrics.metric_values import measure, metrics_of
from trainwright.evaluation.metrics.predictions import Answers, answers_of
from trainwright.evaluation.metrics.weighted_metrics import weigh

QUANTILES = (0.1, 0.5, 0.75)
SECTION = Metric(name="pinball", quantiles=QUANTILES)
NUMBER = st.floats(-1e6, 1e6)
ROWS = st.lists(st.tuples(NUMBER, NUMBER, NUMBER, NUMBER), min_size=1, max_size=40)


def _answers(rows: list[tuple[float, ...]]) -> Answers:
    truth, *quantiles = np.array(rows, np.float64).T
    scores = np.sort(np.stack(quantiles, axis=1), axis=1)
    scale = np.arange(len(truth)) % 3.0
    return answers_of(truth, scores, quantiles=QUANTILES, levels=Levels(error_scale=scale))


@given(ROWS)
def test_the_values_are_their_formulas(rows: list[tuple[float, ...]]) -> None:
    answers = _answers(rows)
    truth, (low, median, high) = answers.truth, answers.scores.T
    pinball = np.mean(
        [
            mean_pinball_loss(truth, one, alpha=alpha)
            for one, alpha in zip((low, median, high), QUANTILES, strict=True)
        ]
    )
    inside = (low <= truth) & (truth <= high)
    # Gneiting and Raftery 2007, equation 43, with a tail of its own on each side.
    score = high - low + np.maximum(low - truth, 0) / 0.1 + np.maximum(truth - high, 0) / 0.25
    expected = {
        "pinball": pinball,
        "coverage": inside.mean(),
        "interval_width": (high - low).mean(),
        "interval_score": score.mean(),
        "mae": np.abs(truth - median).mean(),
    }
    unit = np.arange(len(truth)) % 3.0
    if (counts := unit > 0).any():
        apart = truth[:, None] - answers.scores
        each = np.maximum(np.array(QUANTILES) * apart, (np.array(QUANTILES) - 1) * apart)
        expected["scaled_pinball"] = (each.mean(axis=1)[counts] / unit[counts]).mean()
    else:
        assert math.isnan(measure("scaled_pinball", answers, SECTION))
    for name, value in expected.items():
        assert measure(name, answers, SECTION) == pytest.approx(value, rel=1e-12, abs=1e-12)


@settings(max_examples=40)
@given(ROWS, st.integers(0, 100))
def test_weights_equal_physically_drawn_rows(rows: list[tuple[float, ...]], seed: int) -> None:
    answers = _answers(rows)
    drawn = np.random.default_rng(seed).integers(0, len(answers), (5, len(answers)))
    weights = np.stack([np.bincount(one, minlength=len(answers)) for one in drawn]).astype(float)
    for name in ("pinball", "mae", *METRICS_OF_QUANTILES):
        by_rows = [measure(name, answers.take(one), SECTION) for one in drawn]
        ours = weigh(name, answers, SECTION)(weights)
        np.testing.assert_allclose(ours, by_rows, rtol=1e-9, atol=1e-6)


def test_a_narrow_interval_of_a_tenth_is_the_interval_score_of_its_paper() -> None:
    answers = answers_of(np.array([5.0]), np.array([[1.0, 2.0, 3.0]]), quantiles=(0.05, 0.5, 0.95))
    assert measure("interval_score", answers, SECTION) == pytest.approx(2.0 + 2 / 0.1 * 2.0)


def test_a_model_of_one_number_has_no_interval() -> None:
    answers = answers_of(np.ones(3), np.ones((3, 1)))
    for name in METRICS_OF_QUANTILES:
        assert math.isnan(measure(name, answers, SECTION))
        assert np.isnan(weigh(name, answers, SECTION)(np.ones((2, 3)))).all()
    plain, of_quantiles = Numbers("y", 0.0, 1.0), Numbers("y", 0.0, 1.0, quantiles=QUANTILES)
    assert not METRICS_OF_QUANTILES & set(metrics_of(plain))
    of_tables = METRICS_OF_QUANTILES - {"scaled_pinball"}
    assert set(metrics_of(of_quantiles)) == set(metrics_of(plain)) | of_tables
    series = ForecastTarget("y", 0.0, 1.0)
    of_series = set(metrics_of(series)) | METRICS_OF_QUANTILES
    assert set(metrics_of(series.as_predicted(counts=False, quantiles=QUANTILES))) == of_series
