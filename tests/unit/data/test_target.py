"""What is said of targets that a fitted target cannot take."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from trainwright.contract.sections.data.data import TableData
from trainwright.core.errors import DataMistake
from trainwright.data.columns.number_target import Numbers
from trainwright.data.columns.target import Classes
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
