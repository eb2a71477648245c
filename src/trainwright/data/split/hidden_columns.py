"""Auxiliary columns for splitting. Their names begin with an unassigned code point, so no file has
columns of these names."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import polars as pl

from trainwright.contract.key_paths import as_key
from trainwright.contract.sections.data.split import MOMENT_COLUMN, Split, TimeSplit
from trainwright.core.errors import DataMistake, Problem
from trainwright.data.base.inputs import PartName
from trainwright.data.base.row_storage import RowStorage, bounds
from trainwright.data.split.split_file import PART_COLUMN

_MOST_MOMENTS = 2**62

_Radix = Mapping[str, tuple[int, int]]
"""Minimum and range of each part."""


def without_hidden(frame: pl.DataFrame) -> pl.DataFrame:
    """Columns of the data only."""
    return frame.drop(PART_COLUMN, MOMENT_COLUMN, strict=False)


def with_moments(
    frames: Mapping[PartName, pl.DataFrame], split: Split, space: RowStorage
) -> dict[PartName, pl.DataFrame]:
    """Rows with a timestamp column where no single column has it: row positions, training file
    first, or the parts of a time combined into one integer.

    Raises:
        DataMistake: a part of a time is neither an integer nor a date, or is missing; the parts
            have more combinations than a 64-bit integer holds.
    """
    if not isinstance(split, TimeSplit) or split.column:
        return dict(frames)
    names: list[PartName] = [name for name in ("train", "validation", "test") if name in frames]
    radix = _radix([frames[name] for name in names], split.parts)
    found, before = dict(frames), 0
    for name in names:
        frame = frames[name]
        moments = _places(frame, before) if split.order == "file" else _joined(frame, radix)
        found[name] = frame.with_columns(space.frame(moments)[MOMENT_COLUMN])
        before += frame.height
    return found


def _places(frame: pl.DataFrame, before: int) -> Iterator[pl.DataFrame]:
    for start, stop in bounds(frame.height):
        yield pl.DataFrame({MOMENT_COLUMN: range(before + start, before + stop)})


def _radix(frames: list[pl.DataFrame], parts: tuple[str, ...]) -> _Radix:
    found = {}
    for name in parts:
        lows, highs = [], []
        for frame in frames:
            series = frame[name]
            if not _is_whole(series):
                raise DataMistake(_no_part(name, series))
            lows.append(_whole(series.min()))
            highs.append(_whole(series.max()))
        found[name] = (min(lows), max(highs) - min(lows) + 1)
    if (moments := math.prod(count for _, count in found.values())) > _MOST_MOMENTS:
        raise DataMistake(_too_fine(parts, moments))
    return found


def _is_whole(series: pl.Series) -> bool:
    if series.null_count():
        return False
    if series.dtype == pl.Datetime("us"):
        return True
    return series.dtype.is_numeric() and bool((series == series.floor()).all())


def _whole(value: object) -> int:
    return int(pl.Series([value]).to_physical()[0])


def _joined(frame: pl.DataFrame, radix: _Radix) -> Iterator[pl.DataFrame]:
    for start, stop in bounds(frame.height):
        moments = pl.repeat(0, stop - start, dtype=pl.Int64, eager=True)
        for name, (low, count) in radix.items():
            values = frame[name].slice(start, stop - start).to_physical().cast(pl.Int64)
            moments = moments * count + (values - low)
        yield moments.alias(MOMENT_COLUMN).to_frame()


def _too_fine(parts: tuple[str, ...], moments: int) -> Problem:
    return Problem(
        "the parts of a time have too many combinations",
        path="data.split.parts",
        found=f"{', '.join(parts)} with {float(moments):.2g} combinations",
        expected=f"at most {float(_MOST_MOMENTS):.2g}",
        fix="name only one column with dates, or write the time to one column and name "
        "it in data.split.column",
    )


def _no_part(name: str, series: pl.Series) -> Problem:
    missing = f"{series.null_count()} without a value, " if series.null_count() else ""
    return Problem(
        f"{name!r} is not a part of a time",
        path="data.split.parts",
        found=f"{missing}values such as {series.drop_nulls().head(3).to_list()}",
        expected="whole numbers or dates, in every row",
        fix=f"remove {name} from data.split.parts, or set data.columns.{as_key(name)}.kind to "
        "numeric",
    )
