"""A time that no single column says: its parts, or the order of the file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from trainwright.contract.sections.data.split import StratifiedSplit, TimeSplit
from trainwright.contract.sections.data.table_data import TableData
from trainwright.core.errors import DataMistake
from trainwright.data.encoders.table_encoder import TableEncoder
from trainwright.data.prepare_table import prepare_fold, prepare_table
from trainwright.data.read_table import read_table
from trainwright.data.split.hidden_columns import without_hidden
from trainwright.data.types import Prepared

ROWS = 240


def rows(shuffled: bool = False) -> pl.DataFrame:
    at = np.arange(ROWS)
    frame = pl.DataFrame(
        {"year": 2020 + at // 120, "month": at // 10 % 12 + 1, "x": at * 7 % 13, "y": at * 1.5}
    )
    return frame.sample(fraction=1, shuffle=True, seed=3) if shuffled else frame


def section(split: TimeSplit, folder: Path, frame: pl.DataFrame) -> TableData:
    frame.write_csv(folder / "rows.csv")
    data = TableData(path="rows.csv", target="y", split=split)
    features = data.features.model_copy(update={"numeric": "none", "impute": "none"})
    return data.model_copy(update={"features": features})


def prepared(split: TimeSplit, folder: Path, frame: pl.DataFrame) -> Prepared:
    data = section(split, folder, frame)
    return prepare_table(read_table(data, folder), data, "regression", 0)


@pytest.mark.parametrize(
    ("split", "shuffled"),
    [
        (TimeSplit(kind="time", order="file"), False),
        (TimeSplit(kind="time", parts=("year", "month")), False),
        (TimeSplit(kind="time", parts=("year", "month")), True),
    ],
)
def test_the_newest_rows_are_tested(tmp_path: Path, split: TimeSplit, *, shuffled: bool) -> None:
    found = prepared(split, tmp_path, rows(shuffled))
    last = [float(part.frame["y"].to_numpy().max()) for part in (found.train, found.validation)]
    first = [float(part.frame["y"].to_numpy().min()) for part in (found.validation, found.test)]
    assert last[0] < first[0] <= last[1] < first[1]
    assert isinstance(found.features, TableEncoder)
    assert {"x", "year", "month"} == set(found.features.numeric_names)
    assert found.split.future_rows_in_training == 0
    if split.parts:
        months = [
            set(part.frame.select("year", "month").rows())
            for part in (found.train, found.validation, found.test)
        ]
        assert not months[0] & months[1]
        assert not months[1] & months[2]


def test_folds_roll_over_the_order_of_the_file(tmp_path: Path) -> None:
    data = section(TimeSplit(kind="time", order="file", folds=3), tmp_path, rows())
    raw = read_table(data, tmp_path)
    for number in range(3):
        fold = prepare_fold(raw, data, "regression", 0, number)
        assert fold.train.frame["y"].to_numpy().max() < fold.test.frame["y"].to_numpy().min()


def test_a_gap_counts_rows_in_the_order_of_the_file(tmp_path: Path) -> None:
    found = prepared(TimeSplit(kind="time", order="file", gap=10), tmp_path, rows())
    assert (
        found.validation.frame["y"].to_numpy().min() - found.train.frame["y"].to_numpy().max() == 15
    )


def test_a_word_is_no_part_of_a_time(tmp_path: Path) -> None:
    frame = rows().with_columns(month=pl.lit("May"))
    with pytest.raises(DataMistake, match="not a part of a time"):
        prepared(TimeSplit(kind="time", parts=("year", "month")), tmp_path, frame)


def test_parts_that_tell_too_many_moments_apart_are_refused(tmp_path: Path) -> None:
    """Not wrapped round into another order."""
    dates = pl.datetime_range(
        pl.datetime(2020, 1, 1), pl.datetime(2020, 1, 10), "1h", eager=True
    ).head(200)
    frame = rows().head(200).with_columns(one=dates, other=dates.reverse())
    with pytest.raises(DataMistake, match="too many combinations"):
        prepared(TimeSplit(kind="time", parts=("one", "other")), tmp_path, frame)


def test_moments_are_no_columns_of_the_data(tmp_path: Path) -> None:
    data = section(TimeSplit(kind="time", order="file"), tmp_path, rows())
    raw = read_table(data, tmp_path)
    assert set(without_hidden(raw.frames["train"]).columns) == {"year", "month", "x", "y"}


def test_rare_classes_train_and_are_not_judged(tmp_path: Path) -> None:
    labels = ["a" if at % 2 else "b" for at in range(57)] + ["once", "twice", "twice"]
    frame = pl.DataFrame({"x": [at * 7 % 13 for at in range(60)], "y": labels})
    frame.write_csv(tmp_path / "rows.csv")
    data = TableData(path="rows.csv", target="y")
    features = data.features.model_copy(update={"numeric": "none", "impute": "none"})
    refused = data.model_copy(
        update={"split": StratifiedSplit(kind="stratified"), "features": features}
    )
    with pytest.raises(DataMistake, match="too few rows for every part") as caught:
        prepare_table(read_table(refused, tmp_path), refused, "classification", 0)
    assert "rare: train" in caught.value.problems[0].fix
    allowed = refused.model_copy(update={"split": StratifiedSplit(kind="stratified", rare="train")})
    found = prepare_table(read_table(allowed, tmp_path), allowed, "classification", 0)
    assert {"once", "twice"} <= set(found.train.frame["y"])
    assert not {"once", "twice"} & {*found.validation.frame["y"], *found.test.frame["y"]}
