"""Metrics of counts against scikit-learn, of single rows and over weights."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as theirs

from trainwright.contract.sections.metric import METRICS_OF_COUNTS, Metric
from trainwright.data.columns.number_target import Numbers
from trainwright.evaluation.metrics.metric_values import measure, metric_names, metrics_of
from trainwright.evaluation.metrics.predictions import Answers, answers_of
from trainwright.evaluation.metrics.weighted_metrics import weigh

SECTION = Metric(name="poisson_deviance")
PAIRS = st.lists(st.tuples(st.integers(0, 10_000), st.floats(1e-6, 1e6)), min_size=1, max_size=40)


def _answers(pairs: list[tuple[int, float]]) -> Answers:
    counts, rates = zip(*pairs, strict=True)
    return answers_of(np.array(counts, np.float64), np.array(rates)[:, None])


@given(PAIRS)
def test_the_values_are_scikit_learns(pairs: list[tuple[int, float]]) -> None:
    answers = _answers(pairs)
    truth, rates = answers.truth, answers.values()
    deviance = theirs.mean_poisson_deviance(truth, rates)
    assert measure("poisson_deviance", answers, SECTION) == pytest.approx(deviance, rel=1e-12)
    error = theirs.root_mean_squared_log_error(truth, rates)
    assert measure("rmsle", answers, SECTION) == pytest.approx(error, rel=1e-12)


@settings(max_examples=40)
@given(PAIRS, st.integers(0, 100))
def test_weights_equal_physically_drawn_rows(pairs: list[tuple[int, float]], seed: int) -> None:
    answers = _answers(pairs)
    drawn = np.random.default_rng(seed).integers(0, len(answers), (5, len(answers)))
    weights = np.stack([np.bincount(rows, minlength=len(answers)) for rows in drawn]).astype(float)
    for name in METRICS_OF_COUNTS:
        by_rows = [measure(name, answers.take(rows), SECTION) for rows in drawn]
        ours = weigh(name, answers, SECTION)(weights)
        np.testing.assert_allclose(ours, by_rows, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(
    ("name", "count", "rate"),
    [("poisson_deviance", 1.0, 0.0), ("poisson_deviance", -1.0, 2.0), ("rmsle", 1.0, -0.5)],
)
def test_what_is_no_rate_of_a_count_has_no_value(name: str, count: float, rate: float) -> None:
    answers = answers_of(np.array([count, 2.0]), np.array([[rate], [2.0]]))
    assert math.isnan(measure(name, answers, SECTION))
    assert np.isnan(weigh(name, answers, SECTION)(np.ones((3, 2)))).all()


def test_only_counts_have_them() -> None:
    assert not METRICS_OF_COUNTS & set(metric_names(1))
    counts = metrics_of(Numbers("n", 2.0, 1.0, counts=True))
    assert set(metrics_of(Numbers("n", 2.0, 1.0))) | METRICS_OF_COUNTS == set(counts)
