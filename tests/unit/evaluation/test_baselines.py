from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from trainwright.contract.sections.data.data import RandomSplit, TableData
from trainwright.contract.sections.data.features import Features
from trainwright.contract.sections.metric import Metric
from trainwright.data.prepare_table import prepare_table
from trainwright.data.read_table import read_table
from trainwright.data.types import Prepared
from trainwright.evaluation.baselines import fit_baselines
from trainwright.evaluation.evaluate import Scored, evaluate


def _prepared(folder: Path, leak: bool) -> Prepared:
    generator = np.random.default_rng(0)
    age = generator.normal(40, 10, 600).round(1)
    size = generator.normal(size=600).round(3)
    yes = age + 15 * generator.normal(size=600) > 40
    code = yes * 1.5 + 0.01 * generator.normal(size=600) if leak else size
    frame = pl.DataFrame(
        {"age": age, "code": code.round(4), "label": np.where(yes, "yes", "no")}
    ).with_columns(age=pl.when(pl.col("age") > 50).then(None).otherwise("age"))
    frame.write_csv(folder / "rows.csv")
    section = TableData(
        path="rows.csv",
        split=RandomSplit(kind="random"),
        features=Features(numeric="none", impute="none"),
    )
    return prepare_table(read_table(section, folder), section, "classification", 0)


def test_the_linear_one_is_fitted_where_the_model_has_missing_numbers(tmp_path: Path) -> None:
    prepared = _prepared(tmp_path, leak=False)
    assert np.isnan(prepared.train.inputs.numeric).any()
    baselines = fit_baselines(prepared)
    scores = baselines.scores(prepared.test)
    assert set(scores) == {"dummy", "linear"}
    assert all(np.isfinite(one).all() for one in scores.values())
    assert len(np.unique(scores["dummy"], axis=0)) == 1
    assert sum(baselines.shares.values()) == pytest.approx(1.0)
    assert baselines.shares["age"] + baselines.shares["age (missing)"] > baselines.shares["code"]


@pytest.mark.parametrize("leak", [True, False])
def test_a_column_that_holds_the_answer_is_found(tmp_path: Path, leak: bool) -> None:
    prepared = _prepared(tmp_path, leak)
    baselines = fit_baselines(prepared)
    scores = baselines.scores(prepared.test)
    scored = Scored(prepared.test, prepared.target, scores["linear"], scores, baselines.shares)
    warnings = evaluate(scored, Metric(name="roc_auc", resamples=100), (), seed=0).warnings
    assert any("check 'code'" in warning for warning in warnings) == leak
