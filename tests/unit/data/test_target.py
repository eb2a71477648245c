"""What is said of targets that a fitted target cannot take."""

from __future__ import annotations

import polars as pl
import pytest

from trainwright.core.errors import DataMistake
from trainwright.data.target import Classes, Numbers


@pytest.mark.parametrize(
    ("target", "cells", "message", "found"),
    [
        (Numbers("y", 0.0, 1.0), ["1", "many", None, "many"], "3 rows have no number", "'many'"),
        (Numbers("y", 0.0, 1.0), ["1", "inf"], "1 row has no number", "'inf'"),
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
