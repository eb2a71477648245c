"""Metrics of rankings against independent ones: every order of ties, scikit-learn, by hand."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import ndcg_score

from trainwright.contract.sections.metric import Metric
from trainwright.evaluation.curves.retrieval_curves import note_queries
from trainwright.evaluation.intervals.bootstrap import Resampling, row_weights
from trainwright.evaluation.intervals.resampled_metrics import MeasuredMetric, measure_lines
from trainwright.evaluation.metrics.metric_values import measure
from trainwright.evaluation.metrics.predictions import Answers, answers_of
from trainwright.evaluation.metrics.query_metrics import (
    QUERY_METRICS,
    count_informing,
    values_of_queries,
)
from trainwright.evaluation.metrics.weighted_metrics import Sums, weigh

Ks = st.sampled_from(["all", 1, 2, 3, 10])
Gains = st.sampled_from(["exponential", "linear"])
Rows = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=6)


def section(**given: Any) -> Metric:
    return Metric.model_validate({"name": "ndcg", **given})


def of_one(rows: list[tuple[int, int]]) -> Answers:
    relevance, scores = (np.array(one, np.float64) for one in zip(*rows, strict=True))
    return answers_of(relevance, scores[:, None], queries=np.zeros(len(rows), np.int64))


def by_hand(name: str, ordered: list[float], metric: Metric) -> float:
    """The value of one order of the rows of a query, as the papers have it."""
    top = len(ordered) if metric.k == "all" else min(metric.k, len(ordered))
    relevant = [one >= metric.relevant_from for one in ordered]
    if name == "mrr":
        return next((1 / (at + 1) for at in range(top) if relevant[at]), 0.0)
    if name == "map":
        hits = [sum(relevant[: at + 1]) / (at + 1) for at in range(top) if relevant[at]]
        return sum(hits) / min(sum(relevant), top)
    gains = [2**one - 1 if metric.gain == "exponential" else one for one in ordered]
    best = sorted(gains, reverse=True)
    of_order, of_best = (
        sum(one / math.log2(at + 2) for at, one in enumerate(each[:top])) for each in (gains, best)
    )
    return of_order / of_best


@pytest.mark.parametrize("name", QUERY_METRICS)
@given(rows=Rows, k=Ks, gain=Gains)
@settings(deadline=None, max_examples=150)
def test_a_query_is_worth_the_mean_over_all_orders_of_its_ties(
    name: str, rows: list[tuple[int, int]], k: Any, gain: str
) -> None:
    metric = section(k=k, gain=gain, relevant_from=2.0)
    found = measure(name, of_one(rows), metric)
    relevant = {one >= 2 for one, _ in rows}
    if len({one for one, _ in rows} if name == "ndcg" else relevant) == 1:
        assert math.isnan(found)
        return
    orders = [
        by_hand(name, [float(one) for one, _ in order], metric)
        for order in itertools.permutations(rows)
        if all(first[1] >= second[1] for first, second in itertools.pairwise(order))
    ]
    assert found == pytest.approx(np.mean(orders), abs=1e-12)


@given(
    rows=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 5)), min_size=2, max_size=30),
    k=Ks,
    gain=Gains,
)
@settings(deadline=None)
def test_ndcg_is_that_of_scikit_learn(rows: list[tuple[int, int]], k: Any, gain: str) -> None:
    answers = of_one(rows)
    found = measure("ndcg", answers, section(k=k, gain=gain))
    if len(set(answers.truth)) == 1:
        # scikit-learn has 0 without a relevant row, and else 1: no order is better than another.
        assert math.isnan(found)
        return
    gains = 2**answers.truth - 1 if gain == "exponential" else answers.truth
    theirs = ndcg_score(gains[None], answers.scores.T, k=None if k == "all" else k)
    assert found == pytest.approx(theirs, abs=1e-12)


def many(queries: int = 60, seed: int = 0) -> Answers:
    draw = np.random.default_rng(seed)
    codes = draw.permutation(np.repeat(np.arange(queries), draw.integers(1, 9, queries)))
    relevance = draw.integers(0, 3, len(codes)).astype(np.float64)
    scores = np.round(relevance + draw.normal(size=len(codes)), 1)
    return answers_of(relevance, scores[:, None], queries=codes)


@pytest.mark.parametrize("name", QUERY_METRICS)
def test_the_value_is_the_mean_over_the_queries_that_can_be_ordered(name: str) -> None:
    answers, metric = many(), section(k=3)
    assert answers.queries is not None
    each = [
        measure(name, answers.take(np.flatnonzero(answers.queries == code)), metric)
        for code in range(60)
    ]
    assert measure(name, answers, metric) == pytest.approx(np.nanmean(each), abs=1e-12)
    assert count_informing(name, answers, metric) == np.isfinite(each).sum() < 60
    shuffled = np.random.default_rng(1).permutation(len(answers))
    assert measure(name, answers.take(shuffled), metric) == pytest.approx(np.nanmean(each))


@pytest.mark.parametrize("name", QUERY_METRICS)
def test_a_resample_of_queries_is_the_metric_of_repeated_queries(name: str) -> None:
    answers, metric = many(), section(k=4)
    assert answers.queries is not None
    draws = Resampling(answers.queries, 20, seed=3)
    weights = np.concatenate(list(row_weights(draws)))
    prepared = weigh(name, answers, metric)
    assert isinstance(prepared, Sums)
    values = values_of_queries(name, answers, metric)
    for drawn, found in zip(weights, prepared(weights), strict=True):
        times = drawn[values.rows]
        known = values.informs
        repeated = np.repeat(values.values[known], times[known].astype(int))
        assert found == pytest.approx(repeated.mean(), abs=1e-12)


def test_many_queries_are_resampled_in_groups_with_nearly_the_same_interval() -> None:
    few = many(9000, seed=5)
    assert few.queries is not None
    metric = section(k=5, resamples=400)
    rows = np.arange(len(few))
    (one,) = measure_lines(
        [MeasuredMetric("ndcg", few, rows)], metric, Resampling(few.queries, 400, 1)
    )
    more = Answers(
        *(np.concatenate([each] * 2) for each in (few.truth, few.scores)),
        queries=np.concatenate([few.queries, few.queries + 9000]),
    )
    assert more.queries is not None
    (two,) = measure_lines(
        [MeasuredMetric("ndcg", more, np.arange(len(more)))],
        metric,
        Resampling(more.queries, 400, 1),
    )
    assert two.interval.value == pytest.approx(one.interval.value, abs=1e-12)
    widths = [each.interval.high - each.interval.low for each in (one, two)]
    assert widths[1] / widths[0] == pytest.approx(math.sqrt(0.5), rel=0.15)
    assert two.units == count_informing("ndcg", more, metric)


def test_equal_scores_are_worth_a_random_order() -> None:
    draw = np.random.default_rng(2)
    answers, metric = many(), section(k=3)
    constant = answers_of(answers.truth, np.zeros((len(answers), 1)), queries=answers.queries)
    random = [
        measure(
            "map",
            answers_of(answers.truth, draw.random((len(answers), 1)), queries=answers.queries),
            metric,
        )
        for _ in range(400)
    ]
    spread = np.std(random) / 20
    assert abs(measure("map", constant, metric) - np.mean(random)) < 4 * spread


def test_a_note_says_what_other_libraries_would_count() -> None:
    relevance = np.array([1.0, 0.0, 0.0, 0.0, 2.0, 2.0, 1.0])
    queries = np.array([0, 0, 1, 1, 2, 2, 3])
    answers = answers_of(relevance, -np.arange(7.0)[:, None], queries=queries)
    (note,) = note_queries(answers, section())
    assert note.startswith("3 of 4 queries leave nothing to order")
    assert "it would be 1" in note
    assert "counted as 0 0.25" in note
    assert not note_queries(answers.take(np.array([0, 1])), section())
