"""Limits of a model in use become clauses with intervals."""

from __future__ import annotations

import math

import numpy as np
import pytest

from trainwright.contract.sections.run_settings import Serving
from trainwright.evaluation.serving_clauses import calls_for, latency_interval, serving_clauses


def test_enough_calls_for_an_upper_bound() -> None:
    assert calls_for(Serving(percentile=50.0), 0.95) == 200
    count = calls_for(Serving(percentile=99.0), 0.95)
    assert 0.99**count <= 0.025 < 0.99 ** (count - 1)
    assert math.isfinite(latency_interval(np.arange(float(count)), 99.0, 0.95).high)
    assert math.isinf(latency_interval(np.arange(float(count // 2)), 99.0, 0.95).high)


@pytest.mark.parametrize("percentile", [50.0, 95.0])
def test_the_interval_covers_the_percentile_as_often_as_it_says(percentile: float) -> None:
    generator = np.random.default_rng(0)
    truth = -math.log(1 - percentile / 100)
    found = [latency_interval(generator.exponential(size=200), percentile, 0.9) for _ in range(400)]
    covered = np.mean([one.low <= truth <= one.high for one in found])
    assert 0.88 <= covered <= 0.98
    assert all(one.low <= one.value <= one.high for one in found)


def test_clauses_are_met_missed_and_undecided() -> None:
    times = np.linspace(1.0, 3.0, 200)
    section = Serving(latency_ms=5.0, percentile=50.0, megabytes=2.0)
    fast, small = serving_clauses(section, times, 2.0, 0.95)
    assert (fast.name, fast.status) == ("latency_ms p50 <= 5", "met")
    assert fast.interval.value == pytest.approx(2.0)
    assert (small.name, small.status) == ("megabytes <= 2", "met")
    slow, large = serving_clauses(
        Serving(latency_ms=1.5, percentile=50.0, megabytes=2.0), times, 2.1, 0.95
    )
    assert (slow.status, large.status) == ("missed", "missed")
    (near,) = serving_clauses(Serving(latency_ms=2.0, percentile=50.0), times, 9.0, 0.95)
    assert near.status == "undecided"
    assert serving_clauses(Serving(), times, 9.0, 0.95) == ()
