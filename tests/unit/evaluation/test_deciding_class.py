"""The class that an interval rests on is known beforehand as it is counted afterwards."""

from __future__ import annotations

import numpy as np
import pytest

from trainwright.contract.sections.metric import Metric
from trainwright.evaluation.intervals.bootstrap import Resampling
from trainwright.evaluation.intervals.resampled_metrics import (
    MeasuredMetric,
    deciding_class,
    measure_lines,
)
from trainwright.evaluation.metrics.predictions import answers_of


@pytest.mark.parametrize(
    ("metric", "classes", "code"),
    [
        ("average_precision", 2, 1),
        ("roc_auc", 2, 0),
        ("f1_macro", 3, 0),
        ("accuracy", 3, -1),
        ("log_loss", 3, -1),
    ],
)
def test_it_is_the_one_that_the_interval_counts(metric: str, classes: int, code: int) -> None:
    random = np.random.default_rng(0)
    truth = np.concatenate([[0] * 4, random.integers(1, classes, 60)])
    units = np.arange(64) // 2
    scores = random.dirichlet(np.ones(classes), 64)
    answers = answers_of(truth, scores, 1)
    line = MeasuredMetric(metric, answers, np.arange(64))
    (measured,) = measure_lines([line], Metric(name=metric), Resampling(units, 10, 0))
    found = deciding_class(metric, truth, units, 1, classes)
    assert found == (code, measured.units)
