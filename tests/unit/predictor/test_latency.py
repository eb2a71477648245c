"""Times of predictions: how many are made, on which rows, and when they end."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import pytest

from command import write_rows
from trainwright.contract.sections.data.split import StratifiedSplit
from trainwright.contract.sections.data.table_data import Features, TableData
from trainwright.data.base.inputs import Inputs
from trainwright.data.prepare_table import prepare_table
from trainwright.data.read_table import read_table
from trainwright.data.types import Prepared
from trainwright.evaluation.baselines.fit_baselines import fit_baselines
from trainwright.predictor import latency
from trainwright.predictor.latency import measure_megabytes, time_predictions
from trainwright.predictor.predictor import Predictor


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    folder = tmp_path_factory.mktemp("rows")
    write_rows(folder / "rows.csv", 200)
    section = TableData(
        path="rows.csv",
        target="bought",
        positive="yes",
        split=StratifiedSplit(kind="stratified"),
        features=Features(numeric="none", impute="none", categorical="codes"),
    )
    return prepare_table(read_table(section, folder), section, "classification", 0)


def test_single_rows_and_a_batch_are_predicted_from_their_columns(rows: Prepared) -> None:
    predictor = fit_baselines(rows).linear
    sizes: list[int] = []
    score = Predictor.score

    def counted(self: Predictor, inputs: Inputs) -> object:
        sizes.append(len(inputs))
        return score(self, inputs)

    with mock.patch.object(Predictor, "score", counted):
        times = time_predictions(predictor, rows.test, 40)
    assert sizes == [1] * 43 + [len(rows.test)]
    assert len(times.row_ms) == 40
    assert times.batch_rows == len(rows.test)
    assert (times.row_ms > 0).all()


def test_slow_predictions_end_after_their_seconds(
    rows: Prepared, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(latency, "_seconds", lambda *_: 0.5)
    predictor = fit_baselines(rows).linear
    assert len(time_predictions(predictor, rows.test, 30, 1.0).row_ms) == 5
    assert len(time_predictions(predictor, rows.test, 30, 4.0).row_ms) == 9
    assert len(time_predictions(predictor, rows.test, 30).row_ms) == 30


def test_megabytes_are_those_of_all_files_below(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "one").write_bytes(b"0" * 1000)
    (tmp_path / "inner" / "two").write_bytes(b"0" * 500)
    assert measure_megabytes(tmp_path) == 0.0015
