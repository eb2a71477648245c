"""A hash of a frame is that of its values: equal where they are equal, and another else."""

from __future__ import annotations

import datetime
import decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from trainwright.core.errors import DataMistake
from trainwright.data.sources.find_source import read_source
from trainwright.data.sources.frames import hash_frame

NAN = float("nan")
DIFFERENT: dict[str, tuple[pl.DataType | type[pl.DataType], list[list[Any]]]] = {
    "lists": (pl.List(pl.Float64), [[[NAN], [1]], [[None], [1]], [[], [NAN, 1]], [None, [NAN, 1]]]),
    "lists of bytes": (pl.List(pl.Binary), [[[b"ab"], []], [[b"a", b"b"], []], [[], [b"ab"]]]),
    "lists of lists": (pl.List(pl.List(pl.Int8)), [[[[1], [2]]], [[[1, 2]]], [[[1, 2], []]]]),
    "arrays": (pl.Array(pl.Int64, 2), [[[1, 2], None], [[1, 2], [None, None]], [None, [1, 2]]]),
    "structs": (
        pl.Struct({"a": pl.Float64, "b": pl.String}),
        [
            [{"a": NAN, "b": "x"}],
            [{"a": None, "b": "x"}],
            [{"a": None, "b": None}],
            [None],
        ],
    ),
    "wide integers": (pl.Int128, [[2**100, 1], [2**100 + 1, 1], [None, 1]]),
    "wide counts": (pl.UInt128, [[2**100, 1], [2**100 + 1, 1]]),
    "nothing": (pl.Null, [[None], [None, None]]),
    "decimals": (pl.Decimal(20, 2), [[decimal.Decimal("1.20")], [decimal.Decimal("1.21")]]),
    "extensions": (pl.Extension("a.b", pl.Array(pl.Int8, 1)), [[[1]], [[2]], [None]]),
    "spans": (pl.Duration("us"), [[datetime.timedelta(1)], [datetime.timedelta(2)], [None]]),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_values_that_differ_have_other_hashes(name: str) -> None:
    dtype, columns = DIFFERENT[name]
    frames = [pl.DataFrame({"a": pl.Series(values, dtype=dtype)}) for values in columns]
    hashes = [hash_frame(frame) for frame in frames]
    assert len(set(hashes)) == len(hashes)
    assert hashes == [hash_frame(frame.clone()) for frame in frames]
    twice = pl.concat([frames[0], frames[0]], rechunk=False)
    assert hash_frame(twice) == hash_frame(twice.rechunk())


def test_objects_of_python_are_refused(tmp_path: Path) -> None:
    column = pl.Series("odd", [object(), object()], dtype=pl.Object)
    frame = pl.DataFrame({"a": [1, 2]}).with_columns(column)
    with pytest.raises(DataMistake) as caught:
        read_source("frame://rows", tmp_path, frames={"rows": frame})
    (problem,) = caught.value.problems
    assert (problem.path, problem.found) == ("data.path", "'odd'")


def test_columns_of_numpy_objects_are_refused(tmp_path: Path) -> None:
    odd = np.array([{1}, {2}], dtype=object)
    with pytest.raises(DataMistake, match=r"objects of Python|cannot be read"):
        read_source("frame://rows", tmp_path, frames={"rows": {"a": [1, 2], "odd": odd}})
