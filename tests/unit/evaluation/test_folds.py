from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from trainwright.contract.sections.metric import Metric
from trainwright.data.base.inputs import Part, TableInputs
from trainwright.data.columns.class_target import Classes
from trainwright.evaluation.evaluate import Scored
from trainwright.evaluation.fold_scores import corrected_interval, score_folds


def test_the_interval_of_a_mean_over_folds() -> None:
    # By hand: variance 0.01, factor 1/4 + 1/3, t of 3 degrees of freedom at 95 %.
    values = [0.8, 0.9, 1.0, 0.9]
    spread = np.sqrt((1 / 4 + 1 / 3) * np.var(values, ddof=1))
    interval = corrected_interval(values, 300, 100, 0.95)
    assert interval.value == pytest.approx(0.9)
    assert interval.high - 0.9 == pytest.approx(3.182446 * spread)
    assert not corrected_interval([0.5, np.nan], 2, 1, 0.95).given


def test_the_interval_of_a_mean_over_folds_holds_nothing_that_the_metric_can_never_be() -> None:
    target = np.array([0, 0, 0, 0, 0, 0, 1, 1])
    inputs = TableInputs(np.zeros((8, 0), np.float32), np.zeros((8, 0), np.int64))
    frame = pl.DataFrame({"label": target.tolist()})
    part = Part("test", frame, inputs, target, np.arange(8), np.arange(8))
    scored = Scored(part, Classes("label", ("no", "yes"), 1), np.tile([0.9, 0.1], (8, 1)))
    means = score_folds(scored, np.array([0, 0, 1, 1, 2, 2, 3, 3]), [6] * 4, Metric()).means
    assert means["accuracy"].value == 0.75
    assert (means["accuracy"].low, means["accuracy"].high) == (0.0, 1.0)
    assert means["brier"].low == 0.0
    assert not means["roc_auc"].given
