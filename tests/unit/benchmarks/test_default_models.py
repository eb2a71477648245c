"""The table of default models: what counts as better, and that a set is scored as a run does it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import default_models
from default_models import Compared, Workload


def test_a_gain_is_an_improvement_whatever_the_direction_of_the_metric() -> None:
    assert Compared("roc_auc", [0.8, 0.9], [0.7, 0.8]).gain == pytest.approx(0.1)
    assert Compared("rmse", [0.8, 0.9], [0.7, 0.8]).gain == pytest.approx(-0.1)


def test_the_noise_is_that_of_the_difference_and_not_of_the_scores() -> None:
    assert Compared("rmse", [1.0, 9.0, 5.0], [2.0, 10.0, 6.0]).noise == pytest.approx(0)
    assert Compared("rmse", [1.0, 3.0], [0.0, 0.0]).noise == pytest.approx(2.0)


def test_model_and_baseline_are_scored_on_the_rows_of_a_split(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.random.default_rng(0).normal(size=400)
    frame = pl.DataFrame({"x": x, "cnt": (3 * x).round(3)})
    monkeypatch.setattr(default_models, "_read", lambda _: frame)
    contract = default_models.contract_of(Workload("bike"), tmp_path)
    found = default_models.score(contract, 1, ("model.max_trees=20",), linear=True)
    assert found["linear"] < 0.1 < found["model"] < 3
