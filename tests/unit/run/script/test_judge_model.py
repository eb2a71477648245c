"""A model of one's own is held to a contract as the package's own models are."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression

import trainwright as tw
from trainwright.core.errors import Mistake
from trainwright.data.columns.class_target import Classes
from trainwright.data.columns.number_target import Numbers
from trainwright.doctor.verify_run import verify_run
from trainwright.run.after.compare_runs import compare_runs
from trainwright.run.judging.evaluation_file import read_judged
from trainwright.run.prepared_data import PreparedData
from trainwright.run.request import request_again
from trainwright.run.script.judge_model import read_scores

SECTIONS = {
    "data": {"path": "frame://people", "target": "bought"},
    "model": {"kind": "linear"},
    "metric": {"name": "roc_auc", "target": 0.6, "resamples": 100},
    "slices": [{"column": "city"}],
}


def people(rows: int = 400) -> pl.DataFrame:
    draw = random.Random(1)
    ages = [draw.gauss(45, 15) for _ in range(rows)]
    bought = ["yes" if age + draw.gauss(0, 12) > 50 else "no" for age in ages]
    return pl.DataFrame({"age": ages, "city": [draw.choice("ab") for _ in ages], "bought": bought})


@pytest.fixture(scope="module")
def data() -> PreparedData:
    return tw.prepare(SECTIONS, frames={"people": people()})


@pytest.fixture(scope="module")
def model(data: PreparedData) -> LogisticRegression:
    return LogisticRegression().fit(data.train.features.select("age"), data.train.target)


def test_the_rows_are_those_of_the_contract(data: PreparedData) -> None:
    assert data.train.features.columns == ["age", "city"]
    assert set(data.train.target) == {"yes", "no"}
    assert data.classes == ("no", "yes")
    assert not hasattr(data, "test")


def test_an_own_model_gets_verdict_slices_report_and_record(
    data: PreparedData, model: LogisticRegression, tmp_path: Path
) -> None:
    def predict(rows: pl.DataFrame) -> np.ndarray:
        assert "bought" not in rows.columns
        return model.predict_proba(rows.select("age"))

    result = tw.judge(predict, data, runs=tmp_path, name="own").result
    assert result.verdict.status == "met"
    assert {one.name for one in result.evaluation.slices} == {"city=a", "city=b"}
    assert set(result.evaluation.baselines) == {"dummy", "linear"}
    assert result.folder.report.is_file()
    assert [one for one in verify_run(result.folder) if one.status == "broken"] == []
    assert read_judged(result.folder).verdict == result.verdict
    with pytest.raises(Mistake, match="a script"):
        request_again(result.folder, ())
    theirs = tw.train(SECTIONS, frames={"people": people()}, runs=tmp_path, name="theirs")
    compared = compare_runs([result.folder, theirs.result.folder])
    assert [row.model for row in compared.runs] == ["own", "linear"]
    assert abs(compared.gains["theirs"]["roc_auc"].value) < 0.02


TWO = Classes("bought", ("no", "yes"), 1)


def test_named_columns_are_put_in_order() -> None:
    scores = read_scores({"yes": [0.9, 0.2], "no": [0.1, 0.8]}, TWO, 2)
    assert scores.tolist() == [[0.1, 0.9], [0.8, 0.2]]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ([0.9, 0.2], r"\[2\]"),
        ([[0.9, 0.2], [0.1, 0.8]], "sum to up to 1.1"),
        ([[1.0, float("nan")], [0.1, 0.9]], "not finite"),
        ([["no", "yes"]], "could not convert"),
        ({"yes": [0.9, 0.2]}, "none for no"),
        ([[-0.1, 1.1], [0.1, 0.9]], "from -0.1 to 1.1"),
    ],
)
def test_what_are_no_probabilities_is_refused(given: object, why: str) -> None:
    with pytest.raises(Mistake, match=why):
        read_scores(given, TWO, 2)


def test_values_of_a_numeric_target() -> None:
    price = Numbers("price", 0.0, 1.0)
    assert read_scores(np.array([[1.0], [2.0]]), price, 2).tolist() == [[1.0], [2.0]]
    with pytest.raises(Mistake, match=r"\[3\]"):
        read_scores([1.0, 2.0, 3.0], price, 2)
