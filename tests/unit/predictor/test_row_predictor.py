"""A row alone has the bits of the same row in a frame, whatever its cells are."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainwright.contract.sections.data.split import StratifiedSplit
from trainwright.contract.sections.data.table_data import Column, Features, TableData
from trainwright.core.errors import DataMistake
from trainwright.data.encoders.table_encoder import TableEncoder
from trainwright.data.prepare_table import prepare_table
from trainwright.data.read_table import read_table
from trainwright.data.types import Prepared
from trainwright.evaluation.baselines.fit_baselines import fit_baselines
from trainwright.predictor.input_rows import GivenRows
from trainwright.predictor.row_predictor import RowEncoder, RowPredictor

ROWS = 300
ENCODINGS = {
    "codes": Features(numeric="none", impute="none", categorical="codes"),
    "standard": Features(numeric="standard", impute="mean", categorical="target"),
    "quantile": Features(numeric="quantile", impute="median", categorical="both"),
    "log": Features(numeric="log", impute="median"),
}
CELLS: Mapping[str, st.SearchStrategy[Any]] = {
    "amount": st.none()
    | st.floats(-1e12, 1e12)
    | st.integers(-(2**62), 2**62)
    | st.sampled_from([-999, -999.0, "12.5", " 3", "", "?", True, 0.0, 1e300 / 1e280]),
    "colour": st.none() | st.sampled_from(["red", "blue ", " red", "green", "?", "", "black", 3]),
    "size": st.sampled_from([1, 2, 3, "1", 1.0, None, "2.0", 9]),
    "agreed": st.sampled_from(["yes", "no", "Yes", "TRUE", True, False, None, "1"]),
    "day": st.none()
    | st.dates().filter(lambda day: day.year > 1000).map(str)
    | st.just("2024-02-29 13:05:00"),
}


def prepared_in(folder: Path, features: Features) -> Prepared:
    draw = np.random.default_rng(0)
    amount = np.where(draw.random(ROWS) < 0.1, -999, draw.lognormal(3, 2, ROWS).round(2))
    days = np.datetime64("2023-01-01") + draw.integers(0, 700, ROWS)
    frame = pl.DataFrame(
        {
            "amount": amount,
            "colour": draw.choice(["red", "blue", "green", "?"], ROWS),
            "size": draw.choice([1, 2, 3], ROWS),
            "agreed": draw.choice(["yes", "no"], ROWS),
            "day": days.astype(str).tolist(),
            "bought": np.where(amount + draw.normal(0, 50, ROWS) > 20, "yes", "no"),
        }
    )
    frame.write_csv(folder / "rows.csv")
    section = TableData(
        path="rows.csv",
        target="bought",
        positive="yes",
        missing_values=("?", "-999"),
        columns={"size": Column(kind="categorical")},
        split=StratifiedSplit(kind="stratified"),
        features=features,
    )
    return prepare_table(read_table(section, folder), section, "classification", 0)


@pytest.fixture(scope="module", params=ENCODINGS)
def rows(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return prepared_in(tmp_path_factory.mktemp("rows"), ENCODINGS[request.param])


def of_frame(encoder: TableEncoder, row: Mapping[str, object]) -> tuple[bytes, bytes] | str:
    try:
        inputs = encoder.read_new(GivenRows([row]))
    except DataMistake as error:
        return str(error)
    return inputs.numeric.tobytes(), inputs.categories.tobytes()


def of_row(encoder: RowEncoder, row: Mapping[str, object]) -> tuple[bytes, bytes] | str:
    try:
        inputs = encoder.encode(row)
    except DataMistake as error:
        return str(error)
    return inputs.numeric.tobytes(), inputs.categories.tobytes()


@given(drawn=st.lists(st.fixed_dictionaries({}, optional=dict(CELLS)), min_size=1, max_size=4))
def test_a_row_alone_is_encoded_as_in_a_frame(
    rows: Prepared, drawn: list[dict[str, object]]
) -> None:
    assert isinstance(rows.features, TableEncoder)
    alone = RowEncoder(rows.features)
    for row in [*drawn, *drawn]:
        assert of_row(alone, row) == of_frame(rows.features, row), row


def test_known_cells_and_numbers_need_no_frame(
    rows: Prepared, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(rows.features, TableEncoder)
    alone = RowEncoder(rows.features)
    row = {"amount": 3.5, "colour": "red", "size": "2", "agreed": "yes", "day": "2024-01-01"}
    first = alone.encode(row)
    monkeypatch.setattr(TableEncoder, "read", None)
    again = alone.encode({**row, "colour": "blue", "amount": math.pi})
    assert again.numeric.shape == first.numeric.shape
    assert (again.categories != first.categories).sum() <= 1


def test_predictions_are_those_of_a_frame(rows: Prepared) -> None:
    predictor = fit_baselines(rows).linear
    alone = RowPredictor(predictor)
    assert not alone.why_slow
    for row in rows.test.frame.head(20).iter_rows(named=True):
        day = row["day"] and f"{row['day']:%Y-%m-%d}"
        in_frame = predictor.predict_frame([{**row, "day": day}]).row(0, named=True)
        assert alone.predict({**row, "day": day}) == in_frame
