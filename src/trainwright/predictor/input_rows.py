"""Input rows in any accepted form, converted to a frame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final
from zoneinfo import available_timezones

import numpy as np
import numpy.typing as npt
import polars as pl

from trainwright.core.errors import DataMistake, Problem
from trainwright.data.sources.frames import ArrowTable

Images = npt.NDArray[np.uint8]

Columns = Mapping[str, Sequence[object]] | Sequence[Mapping[str, object]]
Rows = pl.DataFrame | ArrowTable | Columns | Images
"""A frame of polars, pandas or Arrow, columns by name, or one mapping per row (a missing name is a
missing value); for a model of images, an array of them."""


def images_of(rows: object) -> Images:
    """The rows as images.

    Raises:
        DataMistake: not an array of bytes.
    """
    if isinstance(rows, np.ndarray) and rows.dtype == np.uint8 and rows.ndim in (3, 4):
        return rows
    raise DataMistake(
        Problem(
            "these are not images",
            found=f"{rows.dtype} {list(rows.shape)}"
            if isinstance(rows, np.ndarray)
            else type(rows).__name__,
            expected="a numpy array, uint8 [N, H, W] or [N, C, H, W]",
        )
    )


def frame_of(rows: Any) -> pl.DataFrame:
    """The rows as a frame; a column of mixed types becomes text, which is parsed like a file's.

    Raises:
        DataMistake: not rows, or columns of different lengths.
    """
    if isinstance(rows, pl.DataFrame):
        return rows
    if is_pandas(rows):
        return pl.DataFrame([_of_pandas(str(name), rows[name]) for name in rows.columns])
    if isinstance(rows, ArrowTable):
        return pl.DataFrame(rows)
    if isinstance(rows, Mapping):
        return _of_columns(rows)
    if isinstance(rows, Sequence) and all(isinstance(row, Mapping) for row in rows):
        names = dict.fromkeys(name for row in rows for name in row)
        return _of_columns({name: [row.get(name) for row in rows] for name in names})
    raise DataMistake(
        Problem(
            "these are not rows",
            found=type(rows).__name__,
            expected="a frame of polars, pandas or Arrow, a mapping of column names to lists, or a "
            "list of mappings",
        )
    )


def is_pandas(rows: object) -> bool:
    """Is this a pandas frame? Checked without importing pandas."""
    return any(
        kind.__name__ == "DataFrame" and kind.__module__.split(".")[0] == "pandas"
        for kind in type(rows).__mro__
    )


def given_as(rows: Any, answer: pl.DataFrame) -> Any:
    """Frame in the library of `rows`, with the index of pandas if it has a row for each; otherwise
    polars."""
    if is_pandas(rows):
        columns = {name: answer[name].to_list() for name in answer.columns}
        return type(rows)(columns, index=rows.index if len(rows) == answer.height else None)
    if type(rows).__module__.split(".")[0] == "pyarrow":
        return answer.to_arrow()
    return answer


def _of_pandas(name: str, column: Any) -> pl.Series:
    """Read by value, so that the index is ignored and pyarrow is not needed; NaN is missing."""
    if str(column.dtype).startswith("datetime64["):
        if column.dt.tz is None:
            return pl.Series(name, column.to_numpy())
        utc = pl.Series(name, column.dt.tz_convert(None).to_numpy()).dt.replace_time_zone("UTC")
        zone = str(column.dt.tz)
        return utc.dt.convert_time_zone(zone if zone in available_timezones() else "UTC")
    missing = column.isna().tolist()
    values = [None if gone else value for value, gone in zip(column, missing, strict=True)]
    return _series(name, values)


def _of_columns(columns: Mapping[str, Sequence[object]]) -> pl.DataFrame:
    problems: list[Problem] = []
    for name, values in columns.items():
        if isinstance(values, str | bytes) or not isinstance(values, Sequence | pl.Series):
            problems.append(
                Problem(
                    "a column is not a list",
                    path=str(name),
                    found=type(values).__name__,
                    expected="a list with a value for each row",
                )
            )
    lengths = {} if problems else {str(name): len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"{name}: {length}" for name, length in list(lengths.items())[:10])
        problems.append(
            Problem("the columns have different lengths", found=found, expected="one length")
        )
    if problems:
        raise DataMistake(problems)
    return pl.DataFrame([_series(str(name), values) for name, values in columns.items()])


def _series(name: str, values: Sequence[object] | pl.Series) -> pl.Series:
    if isinstance(values, pl.Series):
        return values.alias(name)
    try:
        return pl.Series(name, list(values))
    except (TypeError, OverflowError, pl.exceptions.PolarsError):
        texts = [None if value is None else str(value) for value in values]
        return pl.Series(name, texts, dtype=pl.String)


@final
@dataclass(frozen=True, slots=True)
class GivenRows:
    """Rows as a caller gave them; `source` is what errors call them."""

    rows: Rows
    source: str = "the rows"

    def frame(self) -> pl.DataFrame:
        """As `frame_of`."""
        return frame_of(self.rows)

    def images(self) -> Images:
        """As `images_of`."""
        return images_of(self.rows)
