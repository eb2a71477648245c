"""Metrics of ordered classes against scikit-learn, of single rows and over weights."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score, mean_absolute_error

from trainwright.contract.sections.metric import METRICS_OF_RANKS, Metric
from trainwright.data.columns.class_target import Classes
from trainwright.evaluation.metrics.metric_values import measure, metrics_of
from trainwright.evaluation.metrics.predictions import Answers, answers_of
from trainwright.evaluation.metrics.weighted_metrics import weigh

SECTION = Metric(name="quadratic_kappa")
CLASSES = 5
RANK = st.integers(0, CLASSES - 1)
PAIRS = st.lists(st.tuples(RANK, RANK), min_size=2, max_size=40)


def _answers(pairs: list[tuple[int, int]]) -> Answers:
    truth, chosen = np.array(pairs).T
    return answers_of(truth, 0.1 + 0.5 * np.eye(CLASSES)[chosen])


@given(PAIRS)
def test_the_values_are_scikit_learns(pairs: list[tuple[int, int]]) -> None:
    answers = _answers(pairs)
    truth, chosen = np.array(pairs).T
    assume(len(np.unique(pairs)) > 1)
    # Without the labels it would take ranks among those that occur.
    kappa = cohen_kappa_score(truth, chosen, weights="quadratic", labels=range(CLASSES))
    assert measure("quadratic_kappa", answers, SECTION) == pytest.approx(kappa, abs=1e-12)
    error = mean_absolute_error(truth, chosen)
    assert measure("mae_of_ranks", answers, SECTION) == pytest.approx(error)


@settings(max_examples=60)
@given(PAIRS, st.integers(0, 100))
def test_weights_equal_physically_drawn_rows(pairs: list[tuple[int, int]], seed: int) -> None:
    answers = _answers(pairs)
    drawn = np.random.default_rng(seed).integers(0, len(answers), (6, len(answers)))
    weights = np.stack([np.bincount(one, minlength=len(answers)) for one in drawn]).astype(float)
    for name in METRICS_OF_RANKS:
        by_rows = [measure(name, answers.take(one), SECTION) for one in drawn]
        ours = weigh(name, answers, SECTION)(weights)
        np.testing.assert_allclose(ours, by_rows, rtol=1e-9, atol=1e-9)


def test_rows_and_choices_of_one_class_have_no_kappa() -> None:
    answers = _answers([(2, 2), (2, 2), (2, 2)])
    assert math.isnan(measure("quadratic_kappa", answers, SECTION))
    assert np.isnan(weigh("quadratic_kappa", answers, SECTION)(np.ones((2, 3)))).all()
    assert measure("mae_of_ranks", answers, SECTION) == 0


def test_only_ordered_classes_have_them() -> None:
    plain, ordered = (Classes("y", ("a", "b", "c"), -1, ordered=one) for one in (False, True))
    assert not METRICS_OF_RANKS & set(metrics_of(plain))
    assert set(metrics_of(ordered)) == set(metrics_of(plain)) | METRICS_OF_RANKS
