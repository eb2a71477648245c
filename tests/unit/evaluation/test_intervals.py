from __future__ import annotations

import json
import math

import numpy as np
import pytest

from trainwright.contract.sections.metric import Metric
from trainwright.core.files import to_json
from trainwright.evaluation.intervals.bootstrap import (
    Interval,
    Question,
    Resampling,
    interval_of,
    resample,
    row_weights,
    share_interval,
)
from trainwright.evaluation.metrics.metric_values import measure
from trainwright.evaluation.metrics.predictions import answers_of
from trainwright.evaluation.metrics.weighted_metrics import weigh

SECTION = Metric(name="accuracy")


def _accuracy_interval(hits: np.ndarray, units: np.ndarray, resamples: int, seed: int) -> Interval:
    scores = np.where(hits[:, None], [[0.1, 0.9]], [[0.9, 0.1]])
    answers = answers_of(np.ones(len(hits), np.int64), scores)
    question = Question(np.arange(len(hits)), weigh("accuracy", answers, SECTION))
    values = resample([question], Resampling(units, resamples, seed))[0]
    value = measure("accuracy", answers, SECTION)
    return share_interval(value, values, 0.95, len(np.unique(units)))


def test_95_of_100_intervals_hold_the_truth() -> None:
    generator = np.random.default_rng(0)
    held = 0
    for number in range(300):
        interval = _accuracy_interval(generator.random(200) < 0.8, np.arange(200), 400, number)
        held += interval.low <= 0.8 <= interval.high
    assert 0.91 <= held / 300 <= 0.99


def test_rows_that_depend_on_each_other_do_not_count_as_many() -> None:
    generator = np.random.default_rng(1)
    of_group = np.repeat(generator.random(40) < 0.7, 25)
    groups = np.repeat(np.arange(40), 25)
    by_group = _accuracy_interval(of_group, groups, 500, 0)
    by_row = _accuracy_interval(of_group, np.arange(1000), 500, 0)
    ratio = (by_group.high - by_group.low) / (by_row.high - by_row.low)
    assert ratio == pytest.approx(math.sqrt(25), rel=0.25)


def test_all_rows_of_a_unit_are_drawn_together() -> None:
    units = np.array([7, 3, 7, 3, 9])
    weights = np.concatenate(list(row_weights(Resampling(units, 50, 0))))
    np.testing.assert_array_equal(weights[:, 0], weights[:, 2])
    np.testing.assert_array_equal(weights[:, 1], weights[:, 3])
    np.testing.assert_array_equal(weights[:, [0, 1, 4]].sum(axis=1), 3)


def test_the_same_seed_draws_the_same_and_another_does_not() -> None:
    def first(seed: int) -> np.ndarray:
        return next(row_weights(Resampling(np.arange(30), 10, seed)))

    np.testing.assert_array_equal(first(1), first(1))
    assert bool((first(1) != first(2)).any())


def test_chunks_hold_a_bounded_number_of_numbers() -> None:
    chunk = next(row_weights(Resampling(np.arange(400_000), 100, 0)))
    assert chunk.nbytes <= 8 * 1024 * 1024


def test_a_slice_is_measured_on_its_own_rows() -> None:
    rows = np.array([2, 3])
    question = Question(rows, lambda weights: weights.sum(axis=1))
    draws = Resampling(np.arange(5), 20, 0)
    weights = np.concatenate(list(row_weights(draws)))
    np.testing.assert_array_equal(resample([question], draws)[0], weights[:, rows].sum(axis=1))


def test_too_many_undefined_resamples_give_no_interval() -> None:
    values = np.linspace(0.4, 0.6, 100)
    values[:10] = np.nan
    assert interval_of(0.5, values, 0.95, 50).given
    values[10] = np.nan
    interval = interval_of(0.5, values, 0.95, 50)
    assert (interval.value, interval.low, interval.high) == (0.5, -math.inf, math.inf)


def test_few_units_give_no_interval() -> None:
    values = np.linspace(0.4, 0.6, 100)
    assert interval_of(0.5, values, 0.95, 5).given
    assert not interval_of(0.5, values, 0.95, 4).given


def test_an_interval_holds_its_value() -> None:
    values = np.linspace(0.4, 0.6, 100)
    assert interval_of(0.1, values, 0.95, 50).low == 0.1
    assert interval_of(0.9, values, 0.95, 50).high == 0.9


def test_no_error_in_30_rows_is_no_proof_of_perfection() -> None:
    interval = _accuracy_interval(np.ones(30, bool), np.arange(30), 200, 0)
    # Clopper and Pearson for 30 of 30, from their tables: 0.884 to 1.
    assert (interval.value, interval.high) == (1.0, 1.0)
    assert interval.low == pytest.approx(0.8843, abs=1e-4)


@pytest.mark.parametrize("interval", [Interval(0.5, 0.4, 0.6), Interval(0.5, -math.inf, math.inf)])
def test_intervals_go_through_json(interval: Interval) -> None:
    assert Interval.from_json(json.loads(to_json(interval.to_json()))) == interval


def test_what_is_not_defined_is_null() -> None:
    undefined = Interval(math.nan, -math.inf, math.inf)
    assert undefined.to_json() == {"value": None, "low": None, "high": None}
    again = Interval.from_json(undefined.to_json())
    assert math.isnan(again.value)
    assert not again.given
