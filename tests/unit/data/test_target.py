"""What is said of targets that a fitted target cannot take."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from trainwright.contract.sections.data.split import StratifiedSplit
from trainwright.contract.sections.data.table_data import Column, Features, TableData
from trainwright.core.errors import DataMistake
from trainwright.data.columns.class_target import Classes
from trainwright.data.columns.number_target import Numbers
from trainwright.data.prepare_table import prepare_table
from trainwright.data.read_table import read_table


@pytest.mark.parametrize(
    ("target", "cells", "message", "found"),
    [
        (Numbers("y", 0.0, 1.0), ["1", "many", None, "many"], "3 rows have no number", "'many'"),
        (Numbers("y", 0.0, 1.0), ["1", "inf"], "1 row has no number", "'inf'"),
        (Numbers("y", 0.0, 1.0), ["1", "-1e308"], "1 row has no number", "'-1e308'"),
        (Classes("y", ("a", "b"), 0), ["a", "c", None], "2 rows have a class", "'c'"),
    ],
)
def test_values_that_it_cannot_take_are_counted_and_named(
    target: Numbers | Classes, cells: list[str | None], message: str, found: str
) -> None:
    with pytest.raises(DataMistake) as caught:
        target.encode(pl.Series("y", cells))
    (problem,) = caught.value.problems
    assert problem.message.startswith(message)
    assert found in problem.found
    assert ("missing" in problem.found) == (None in cells)


def test_a_target_of_lists_is_named(tmp_path: Path) -> None:
    rows = pl.DataFrame({"a": range(60), "y": [[1]] * 60})
    rows.write_parquet(tmp_path / "rows.parquet")
    with pytest.raises(DataMistake, match="the target is a list or an object"):
        read_table(TableData(path="rows.parquet", target="y"), tmp_path)


@pytest.mark.parametrize(
    ("spellings", "names", "written"),
    [({}, ("false", "true"), "boolean"), ({"true": "paid"}, ("false", "paid"), "text")],
)
def test_booleans_are_predicted_as_booleans_unless_they_have_other_words(
    spellings: dict[str, str], names: tuple[str, ...], written: str, tmp_path: Path
) -> None:
    rows = pl.DataFrame({"a": range(60), "y": [at % 3 == 0 for at in range(60)]})
    rows.write_parquet(tmp_path / "rows.parquet")
    columns = {"y": Column(values=spellings)}
    split = StratifiedSplit(kind="stratified")
    plain = Features(numeric="none", impute="none", categorical="both")
    section = TableData(
        path="rows.parquet", target="y", columns=columns, split=split, features=plain
    )
    raw = read_table(section, tmp_path)
    target = prepare_table(raw, section, "classification", 0).target
    assert isinstance(target, Classes)
    assert (target.names, target.written) == (names, written)
    predicted, *_ = target.predictions(np.array([[0.9, 0.1], [0.2, 0.8]]))
    assert predicted.to_list() == ([False, True] if written == "boolean" else ["false", "paid"])
