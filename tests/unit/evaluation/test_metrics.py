from __future__ import annotations

import math

import numpy as np
import pytest

from trainwright.contract.sections.metric import METRICS, Metric
from trainwright.data.columns.class_target import Classes, NextToken, Preferred
from trainwright.data.columns.label_set import LabelSet
from trainwright.data.columns.number_target import ForecastTarget, Numbers
from trainwright.data.columns.retrieval_targets import Matching, PassageMatching, Relevance
from trainwright.evaluation.metrics.metric_values import measure, metric_names, metrics_of
from trainwright.evaluation.metrics.predictions import answers_of

SECTION = Metric(name="f1")
NEED_A_POSITIVE = ("f1", "precision", "recall", "precision_at_recall", "average_precision")


def test_each_target_gets_the_metrics_that_fit_it() -> None:
    two, several, numbers = metric_names(2), metric_names(3), metric_names(1)
    assert "f1" in two
    assert "f1" not in several
    assert set(several) < set(two)
    texts, queries = metrics_of(NextToken(3)), metrics_of(Relevance("y", "q"))
    forecasts = metrics_of(ForecastTarget("y", 0.0, 1.0))
    assert {*numbers, "mase", "smape"} == set(forecasts)
    counts = metrics_of(Numbers("n", 1.0, 1.0, counts=True))
    assert set(numbers) < set(counts)
    intervals = metrics_of(Numbers("n", 1.0, 1.0, quantiles=(0.1, 0.5, 0.9)))
    ranks = metrics_of(Classes("n", ("low", "high"), 1, ordered=True))
    costs = metrics_of(Classes("n", ("low", "high"), 1, error_costs=((0.0, 1.0), (2.0, 0.0))))
    assert set(costs) == {*two, "cost"}
    bands = metrics_of(ForecastTarget("y", 0.0, 1.0, quantiles=(0.1, 0.5, 0.9)))
    pairs = metrics_of(Preferred(3))
    assert not set(pairs) & set(texts)
    matches = metrics_of(Matching("caption", "image"))
    assert len(matches) == 9
    passages = metrics_of(PassageMatching("passage", "query"))
    assert len(passages) == 5
    labels = metrics_of(LabelSet("a, b", ("a", "b"), (0.5, 0.5)))
    found = (
        *(counts, intervals, ranks, costs, texts, queries, forecasts, bands),
        *(pairs, matches, passages, labels),
    )
    assert set().union(*found) == set(METRICS)


@pytest.mark.parametrize("name", NEED_A_POSITIVE)
def test_without_a_positive_row_there_is_no_value(name: str) -> None:
    answers = answers_of(np.zeros(3, np.int64), np.array([[0.4, 0.6]] * 3), positive=1)
    assert math.isnan(measure(name, answers, SECTION))


@pytest.mark.parametrize("name", ["f1", "precision", "recall"])
def test_a_model_that_never_says_positive_gets_0(name: str) -> None:
    answers = answers_of(np.array([0, 1]), np.array([[0.9, 0.1]] * 2), positive=1)
    assert measure(name, answers, SECTION) == 0.0


def test_one_class_has_no_roc_and_a_constant_no_r2() -> None:
    answers = answers_of(np.ones(3, np.int64), np.array([[0.4, 0.6]] * 3))
    assert math.isnan(measure("roc_auc", answers, SECTION))
    constant = answers_of(np.ones(3), np.array([[1.0], [2.0], [3.0]]))
    assert math.isnan(measure("r2", constant, SECTION))


@pytest.mark.parametrize("name", METRICS)
def test_no_rows_have_no_value(name: str) -> None:
    width = 1 if METRICS[name].task == "regression" else 2
    answers = answers_of(np.zeros(0, np.int64), np.zeros((0, width)))
    assert math.isnan(measure(name, answers, SECTION))


def test_the_positive_class_is_the_one_that_is_named() -> None:
    scores = np.array([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7]])
    truth = np.array([0, 1, 1])
    assert measure("precision", answers_of(truth, scores, positive=0), SECTION) == 0.5
    assert measure("precision", answers_of(truth, scores, positive=1), SECTION) == 1.0


def test_float32_probabilities_are_made_to_sum_to_one() -> None:
    thirds = np.full((5, 3), 1 / 3, np.float32)
    assert float(np.abs(answers_of(np.zeros(5), thirds).scores.sum(axis=1) - 1).max()) < 1e-15


def test_scores_that_are_not_finite_are_refused() -> None:
    with pytest.raises(AssertionError, match="finite"):
        answers_of(np.zeros(1), np.array([[np.nan]]))
