"""Rows as people hand them over, as a frame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from trainwright.core.errors import DataMistake, Problem

Images = npt.NDArray[np.uint8]

Rows = pl.DataFrame | Mapping[str, Sequence[object]] | Sequence[Mapping[str, object]] | Images
"""A frame, columns by name, or one mapping a row (a name that a row lacks is missing in it); for a
model of images, an array of them."""


def images_of(rows: object) -> Images:
    """The rows as images.

    Raises:
        DataMistake: they are not an array of bytes.
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


def frame_of(rows: object) -> pl.DataFrame:
    """The rows as a frame; a column of mixed types becomes text, which is read like a file's.

    Raises:
        DataMistake: not rows, or columns of different lengths.
    """
    if isinstance(rows, pl.DataFrame):
        return rows
    if isinstance(rows, Mapping):
        return _of_columns(rows)
    if isinstance(rows, Sequence) and all(isinstance(row, Mapping) for row in rows):
        names = dict.fromkeys(name for row in rows for name in row)
        return _of_columns({name: [row.get(name) for row in rows] for name in names})
    raise DataMistake(
        Problem(
            "these are not rows",
            found=type(rows).__name__,
            expected="a polars frame, a mapping of column names to lists, or a list of mappings",
        )
    )


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
