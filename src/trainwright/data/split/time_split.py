"""Time split: the oldest rows train, the newest test; temporal order of rows."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import polars as pl

from trainwright.contract.key_paths import as_key
from trainwright.contract.sections.data.split import TimeSplit
from trainwright.core.errors import DataMistake, Problem
from trainwright.core.formatting import many
from trainwright.data.base.inputs import Floats, Integers, PartName
from trainwright.data.base.messages import Wrong
from trainwright.data.base.parse_cells import to_numbers
from trainwright.data.base.row_storage import (
    IN_MEMORY,
    RowStorage,
    bounds,
    dense_ranks,
    filled,
    slices_of,
    sorted_positions,
    stored,
)
from trainwright.data.split.random_split import (
    LEFT_OUT,
    PARTS,
    TEST,
    TRAIN,
    VALIDATION,
    Shares,
    check_filled,
    left_out_of,
)

_MICROSECONDS_A_DAY = 86_400_000_000


def moments(frame: pl.DataFrame, column: str, space: RowStorage = IN_MEMORY) -> Integers:
    """Dense rank of each row's timestamp, from 1, int64 [N] in `space`.

    Raises:
        DataMistake: the column is not a time or a number, or has missing values.
    """
    series = times(frame, column)
    values = space.array((len(series),), series.head(0).to_physical().to_numpy().dtype)
    for (start, stop), some in zip(bounds(len(series)), slices_of(series), strict=True):
        values[start:stop] = some.to_physical().to_numpy()
    return dense_ranks(values, space)


def distances(frame: pl.DataFrame, column: str, space: RowStorage = IN_MEMORY) -> Floats:
    """Time coordinate of each row, float64 [N] in `space`: days for dates, otherwise the column's
    numbers.

    Raises:
        As `moments`.
    """
    series = times(frame, column)
    line: Floats = space.array((len(series),), np.float64)
    numbers = series.dtype.is_numeric()
    first = 0 if numbers else series.to_physical().min()
    for (start, stop), some in zip(bounds(len(series)), slices_of(series), strict=True):
        if numbers:
            line[start:stop] = some.cast(pl.Float64).to_numpy()
        else:
            line[start:stop] = (some.cast(pl.Int64) - first).to_numpy() / _MICROSECONDS_A_DAY
    return line


def time_units(ranks: Integers, space: RowStorage = IN_MEMORY) -> Integers:
    """Bootstrap blocks of about N ** (1/3) consecutive rows in time order, int64 [N] in `space`.

    The block length of the moving-block bootstrap grows with the cube root of the rows
    (Künsch 1989, Annals of Statistics 17, section 3).
    """
    order = sorted_positions(ranks, space)
    length = max(1, round(len(ranks) ** (1 / 3)))
    units: Integers = space.array((len(ranks),), np.int64)
    for start, stop in bounds(len(ranks)):
        units[order[start:stop]] = np.arange(start, stop) // length
    return units


def time_blocks(ranks: Integers, count: int) -> Integers:
    """Block of each row, int64 [N], 0 the oldest: `count` blocks of about equal size, cut between
    timestamps. With fewer timestamps than blocks the newest stay empty."""
    ends = np.cumsum(np.bincount(ranks)[1:])
    cuts = [0]
    for number in range(1, count):
        low = cuts[-1] + 1
        high = max(low, len(ends) - (count - number))
        candidates = ends[low - 1 : high]
        wanted = len(ranks) * number / count
        if not len(candidates):
            break
        cuts.append(low + int(np.argmin(np.abs(candidates - wanted))))
    return np.searchsorted(np.array(cuts[1:]), ranks, side="left").astype(np.int64)


def times(frame: pl.DataFrame, column: str) -> pl.Series:
    """Timestamps of the rows, none missing.

    Raises:
        As `moments`.
    """
    series = frame[column]
    if not (series.dtype.is_numeric() or series.dtype == pl.Datetime("us")):
        raise DataMistake(
            Problem(
                f"{column!r} is not a time",
                path="data.split.column",
                found=f"values such as {series.drop_nulls().head(1).to_list()}",
                expected="dates written alike, or numbers",
                fix=f"set data.columns.{as_key(column)}.format",
            )
        )
    if series.null_count():
        rows = series.is_null().arg_true()
        raise DataMistake(
            Problem(
                f"{many(len(rows), 'row has', 'rows have')} no time",
                path="data.split.column",
                found=f"{column!r} is missing, first in row {rows[0] + 1:,} of those with a target",
                expected="a time in every row",
                fix="repair these rows, or choose another split",
            )
        )
    return series


def check_times(frames: Mapping[PartName, pl.DataFrame], column: str) -> None:
    """Check the timestamps of all files against those of training.

    Raises:
        DataMistake: these are not times, or another file has other ones.
    """
    wanted = times(frames["train"], column).dtype
    problems: list[Problem] = []
    for part, frame in frames.items():
        series = frame[column]
        if series.dtype != wanted or series.null_count():
            problems.append(
                Problem(
                    f"the timestamps of the {part} file are unlike those of the training file",
                    path="data.split.column",
                    found=f"{_other_than(wanted, series)} in {column!r}",
                    expected="numbers" if wanted.is_numeric() else "dates written alike",
                    fix=f"mend the file, or set data.columns.{as_key(column)}.values",
                )
            )
    if problems:
        raise DataMistake(problems)


def cut_by_time(
    frame: pl.DataFrame, split: TimeSplit, shares: Shares, space: RowStorage
) -> Integers:
    """Part of each row, int64 [N] in `space`: cut between timestamps, as close to the wanted shares
    as they allow, the oldest for training."""
    ranks = moments(frame, split.moment, space)
    rows = len(ranks)
    validation, test = round(rows * shares.validation), round(rows * shares.test)
    ends = _ends(ranks, space)
    boundaries = ends[:-1]
    parts: Integers = filled(space.array((rows,), np.int64), TRAIN)
    needed = len(shares.needed)
    if len(ends) < needed:
        return parts
    first_test = _nearest_cut(boundaries, rows - test, needed - 2, len(boundaries))
    first_validation = first_test
    if shares.needs_validation:
        last = first_test if shares.needs_test else len(boundaries)
        first_validation = _nearest_cut(boundaries, rows - test - validation, 0, last)
    for start, stop in bounds(rows):
        here, some = parts[start:stop], ranks[start:stop]
        if shares.needs_validation:
            here[some > first_validation + 1] = VALIDATION
        if shares.needs_test:
            here[some > first_test + 1] = TEST
    return _with_gaps(parts, distances(frame, split.moment, space), split, space)


def keep_apart_from_files(
    parts: Integers,
    frames: Mapping[PartName, pl.DataFrame],
    split: TimeSplit,
    shares: Shares,
    space: RowStorage,
) -> Integers:
    """Parts of the rows of `train`, with the gap and window to parts that have their own files,
    whose rows are all kept.

    Raises:
        DataMistake: a part would be empty, or files are closer than the gap.
    """
    own = len(parts)
    names: list[PartName] = ["train", *(part for part in frames if part != "train")]
    together = pl.concat([frames[name].select(split.moment) for name in names])
    codes: Integers = space.array((together.height,), np.int64)
    for start, stop in bounds(own):
        codes[start:stop] = parts[start:stop]
    before = own
    for name in names[1:]:
        filled(codes[before : before + frames[name].height], PARTS.index(name))
        before += frames[name].height
    line = distances(together, split.moment, space)
    stay: Integers = stored(codes, space)
    for later in (VALIDATION, TEST):
        behind = _lowest(line, codes, later)
        for start, stop in bounds(len(codes)):
            some, ahead = codes[start:stop], behind - line[start:stop]
            in_file = np.arange(start, stop) >= own
            # Future training rows are an error; they are not excluded by the gap.
            near = (ahead >= 0) & (ahead < split.gap)
            late = in_file & (some == VALIDATION) & (ahead <= 0)
            stay[start:stop][(some < later) & (near | late)] = LEFT_OUT
    _check_files(stay[own:], split)
    _leave_out_old(stay, line, split)
    check_filled(stay[:own], split, shares)
    return stay[:own]


def _with_gaps(parts: Integers, times: Floats, split: TimeSplit, space: RowStorage) -> Integers:
    """Parts without the rows inside the gap before the next part, or before the window."""
    stay: Integers = stored(parts, space)
    for earlier, later in ((VALIDATION, TEST), (TRAIN, VALIDATION), (TRAIN, TEST)):
        behind = _lowest(times, parts, later)
        for start, stop in bounds(len(parts)):
            near = behind - times[start:stop] < split.gap
            stay[start:stop][(parts[start:stop] == earlier) & near] = LEFT_OUT
    _leave_out_old(stay, times, split)
    return stay


def _leave_out_old(parts: Integers, times: Floats, split: TimeSplit) -> None:
    """Exclude training rows before the window, which ends at the newest one."""
    if split.window == "all":
        return
    newest = -_lowest(times, parts, TRAIN, -1.0)
    for start, stop in bounds(len(parts)):
        here = parts[start:stop]
        here[(here == TRAIN) & (newest - times[start:stop] > split.window)] = LEFT_OUT


def _lowest(times: Floats, parts: Integers, part: int, sign: float = 1.0) -> float:
    """Minimum time of a part, or with `sign` -1 the negated maximum; infinite for an empty part."""
    lowest = math.inf
    for start, stop in bounds(len(times)):
        found = sign * times[start:stop][parts[start:stop] == part]
        lowest = float(found.min(initial=lowest))
    return lowest


def _ends(ranks: Integers, space: RowStorage) -> Integers:
    """Cumulative row counts by distinct timestamp."""
    ends: Integers = filled(space.array((int(ranks.max()),), np.int64), 0)
    for start, stop in bounds(len(ranks)):
        np.add.at(ends, ranks[start:stop] - 1, 1)
    np.cumsum(ends, out=ends)
    return ends


def _nearest_cut(boundaries: Integers, wanted: int, low: int, high: int) -> int:
    """Index in the ascending `boundaries[low:high]` of the cut nearest to `wanted` rows."""
    above = min(low + int(np.searchsorted(boundaries[low:high], wanted)), high - 1)
    below = max(low, above - 1)
    return below if wanted - boundaries[below] <= boundaries[above] - wanted else above


def _other_than(wanted: pl.DataType, series: pl.Series) -> str:
    if series.dtype == wanted or not series.count():
        return f"no value in {many(series.null_count(), 'row')}"
    wrong = Wrong()
    wrong.add(series.gather(to_numbers(series).bad) if wanted.is_numeric() else series.drop_nulls())
    return str(wrong)


def _check_files(parts: Integers, split: TimeSplit) -> None:
    if near := left_out_of(parts):
        raise DataMistake(
            Problem(
                f"{many(near, 'row')} of the validation file {'is' if near == 1 else 'are'} too "
                "near to the test rows, or not older",
                path="data.split.gap",
                found=f"a distance below {split.gap:g}, or none",
                expected="rows that are older than every test row, by the gap",
                fix="remove these rows from the validation file, or lower gap",
            )
        )
