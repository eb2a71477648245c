"""Metrics of several targets against scikit-learn, of single rows and of weights."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import (
    accuracy_score,
    average_precision_score,
    f1_score,
    hamming_loss,
    mean_absolute_error,
    mean_absolute_percentage_error,
    r2_score,
    roc_auc_score,
    root_mean_squared_error,
)

from trainwright.contract.sections.metric import Metric
from trainwright.data.columns.label_set import LabelSet
from trainwright.data.columns.several_targets import SeveralNumbers
from trainwright.evaluation.metrics.metric_values import measure, metrics_of
from trainwright.evaluation.metrics.predictions import Answers, answers_of
from trainwright.evaluation.metrics.weighted_metrics import weigh

NUMBERS = SeveralNumbers("a, b, c", ("a", "b", "c"), (0.0,) * 3, (1.0,) * 3)
LABELS = LabelSet("a, b, c", ("a", "b", "c"), (0.5,) * 3)
SECTION = Metric()


def numbers(seed: int, rows: int = 40) -> Answers:
    draw = np.random.default_rng(seed)
    truth = draw.normal(size=(rows, 3)) * (1, 10, 100) + (0, 5, -50)
    return answers_of(truth, truth + draw.normal(size=(rows, 3)) * (0.5, 20, 30))


def labels(seed: int, rows: int = 40, rare: float = 0.4) -> Answers:
    draw = np.random.default_rng(seed)
    truth = (draw.random((rows, 3)) < rare).astype(np.int64)
    scores = np.clip(0.3 * truth + draw.random((rows, 3)).round(1) * 0.7, 0, 1)
    return answers_of(truth, scores)


@given(st.integers(0, 10_000))
@settings(max_examples=30)
def test_metrics_of_numbers_are_uniform_averages(seed: int) -> None:
    found = numbers(seed)
    expected = {
        "mae": mean_absolute_error(found.truth, found.scores),
        "rmse": root_mean_squared_error(found.truth, found.scores),
        "r2": r2_score(found.truth, found.scores),
        "mape": mean_absolute_percentage_error(found.truth, found.scores),
    }
    assert set(metrics_of(NUMBERS)) == set(expected)
    for name, value in expected.items():
        assert measure(name, found, SECTION) == pytest.approx(value, rel=1e-12), name


@given(st.integers(0, 10_000))
@settings(max_examples=30)
def test_metrics_of_labels_are_those_of_scikit_learn(seed: int) -> None:
    found = labels(seed)
    given_labels = (found.scores >= 0.5).astype(int)
    assert 0 < found.truth.mean(axis=0).min() <= found.truth.mean(axis=0).max() < 1
    expected = {
        "hamming_loss": hamming_loss(found.truth, given_labels),
        "subset_accuracy": accuracy_score(found.truth, given_labels),
        "f1_micro": f1_score(found.truth, given_labels, average="micro"),
        "f1_macro": f1_score(found.truth, given_labels, average="macro"),
        "average_precision": average_precision_score(found.truth, found.scores, average="macro"),
        "roc_auc": roc_auc_score(found.truth, found.scores, average="macro"),
    }
    assert set(metrics_of(LABELS)) == set(expected)
    for name, value in expected.items():
        assert measure(name, found, SECTION) == pytest.approx(value, rel=1e-12), name


@pytest.mark.parametrize("name", metrics_of(NUMBERS))
def test_weights_of_numbers_equal_drawn_rows(name: str) -> None:
    equals_drawn_rows(name, numbers(3))


@pytest.mark.parametrize("name", metrics_of(LABELS))
@pytest.mark.parametrize("rare", [0.4, 0.04])
def test_weights_of_labels_equal_drawn_rows(name: str, rare: float) -> None:
    equals_drawn_rows(name, labels(3, rare=rare))


def equals_drawn_rows(name: str, found: Answers) -> None:
    drawn = np.random.default_rng(0).integers(0, len(found), (20, len(found)))
    weights = np.stack([np.bincount(one, minlength=len(found)) for one in drawn]).astype(float)
    expected = [measure(name, found.take(one), SECTION) for one in drawn]
    np.testing.assert_allclose(weigh(name, found, SECTION)(weights), expected, rtol=1e-9)


def test_labels_without_a_row_are_no_part_of_a_ranking_and_have_no_f1() -> None:
    found = labels(1)
    truth = found.truth.copy()
    truth[:, 2] = 0
    scores = found.scores.copy()
    scores[:, 2] = 0.1
    absent = answers_of(truth, scores)
    two = answers_of(truth[:, :2], scores[:, :2])
    for name in ("average_precision", "roc_auc"):
        assert measure(name, absent, SECTION) == pytest.approx(measure(name, two, SECTION))
    macro = measure("f1_macro", two, SECTION) * 2 / 3
    assert measure("f1_macro", absent, SECTION) == pytest.approx(macro)


def test_a_constant_target_has_no_r2_and_so_none_has_the_mean() -> None:
    found = numbers(1)
    truth = found.truth.copy()
    truth[:, 0] = 1.0
    assert math.isnan(measure("r2", answers_of(truth, found.scores), SECTION))
    assert measure("mae", answers_of(truth, found.scores), SECTION) > 0
