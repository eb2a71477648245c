"""Train/validation/test split: a pure function of rows, seed and section; units that intervals
draw."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import assert_never

import numpy as np
import polars as pl

from trainwright.contract.key_paths import as_key
from trainwright.contract.sections.data.split import (
    EVERY_COLUMN,
    AutoSplit,
    ColumnSplit,
    FileSplit,
    GroupSplit,
    RandomSplit,
    Split,
    StratifiedGroupSplit,
    StratifiedSplit,
    TimeSplit,
)
from trainwright.contract.sections.data.table_data import TableData
from trainwright.core.errors import DataMistake, Problem
from trainwright.core.formatting import many
from trainwright.data.base.categories import count_labels
from trainwright.data.base.inputs import Floats, Integers, PartName
from trainwright.data.base.messages import Wrong, quoted
from trainwright.data.base.row_storage import (
    IN_MEMORY,
    RowStorage,
    bounds,
    filled,
    gathered,
    row_numbers,
    slices_of,
)
from trainwright.data.columns.column_kinds import ColumnType
from trainwright.data.columns.target import Target
from trainwright.data.split.groups import (
    classes_of_groups,
    combined_label_codes,
    fill_bins,
    fill_bins_by_class,
    members,
)
from trainwright.data.split.random_split import (
    PARTS,
    TEST,
    TRAIN,
    VALIDATION,
    Shares,
    check_filled,
    draw_parts,
    group_names,
    random_keys,
    row_texts,
    shares_of_keys,
)
from trainwright.data.split.split_file import PART_COLUMN
from trainwright.data.split.time_split import cut_by_time, moments, time_units


def row_units(
    frames: Mapping[PartName, pl.DataFrame], section: TableData, target: Target, space: RowStorage
) -> dict[PartName, Integers]:
    """The unit [N] of each row of each part: its group, query or time, else itself."""
    match section.split:
        case GroupSplit(column=name) | StratifiedGroupSplit(column=name):
            codes = combined_label_codes((frame[name] for frame in frames.values()), space)
            return dict(zip(frames, codes, strict=True))
        case _ if target.query:
            from trainwright.data.split.query_split import query_units

            return {part: query_units(frame, section, target) for part, frame in frames.items()}
        case TimeSplit() as split:
            return {
                part: time_units(moments(frame, split.moment, space), space)
                for part, frame in frames.items()
            }
        case _:
            return {part: row_numbers(frame.height, space) for part, frame in frames.items()}


def split_rows(
    frame: pl.DataFrame,
    target: str,
    split: Split,
    shares: Shares,
    seed: int,
    space: RowStorage = IN_MEMORY,
) -> Integers:
    """Part of each row (0 train, 1 validation, 2 test, 3 excluded), int64 [N] in `space`, computed
    in chunks.

    Raises:
        DataMistake: there are too few rows, groups, timestamps or rows of a class to fill the
            parts.
    """
    if shares.needed == (TRAIN,):
        return filled(space.array((frame.height,), np.int64), TRAIN)
    _check_shares(split, shares)
    match split:
        case AutoSplit():
            raise AssertionError("the plan decides the split before rows are divided")
        case RandomSplit():
            parts = _random(frame, split, shares, seed, space)
        case StratifiedSplit():
            parts = _stratified(frame[target], split, shares, seed, space)
        case GroupSplit():
            parts = _groups(frame, split, shares, seed, space)
        case StratifiedGroupSplit(column=column):
            _check_classes(frame[target], f"use split: {{kind: group, column: {column}}}")
            counts, member = classes_of_groups(frame, target, column, space)
            parts = gathered(_bins(counts, shares, seed), member, space)
        case TimeSplit():
            parts = cut_by_time(frame, split, shares, space)
        case ColumnSplit():
            parts = _written(frame[split.column], space)
        case FileSplit():
            parts = _written(frame[PART_COLUMN].alias("part"), space, split.path)
        case _:
            assert_never(split)
    check_filled(parts, split, shares)
    return parts


def _random(
    frame: pl.DataFrame, split: RandomSplit, shares: Shares, seed: int, space: RowStorage
) -> Integers:
    if split.key:
        return _by_key(frame, lambda rows: key_of(rows, split), shares, seed, space)

    def codes() -> Iterator[Integers]:
        return (np.zeros(stop - start, dtype=np.int64) for start, stop in bounds(frame.height))

    return draw_parts(codes, [frame.height], [_wanted(frame.height, shares)], seed, space)


def without_ignored(
    frame: pl.DataFrame, split: Split, columns: Sequence[ColumnType]
) -> pl.DataFrame:
    """Rows for a key of all cells, without row numbers and other ignored columns: copies differ in
    these."""
    if not isinstance(split, RandomSplit) or split.key != EVERY_COLUMN:
        return frame
    return frame.drop(column.name for column in columns if column.kind == "ignored")


def key_of(frame: pl.DataFrame, split: RandomSplit) -> pl.Series:
    """Key of each row as text."""
    if split.key == EVERY_COLUMN:
        return row_texts(frame.drop(PART_COLUMN, strict=False))
    return group_names(frame, split.key)


def _by_key(
    frame: pl.DataFrame,
    keys: Callable[[pl.DataFrame], pl.Series],
    shares: Shares,
    seed: int,
    space: RowStorage,
) -> Integers:
    parts: Integers = space.array((frame.height,), np.int64)
    for (start, stop), rows in zip(bounds(frame.height), slices_of(frame), strict=True):
        places = shares_of_keys(keys(rows), seed, "split")
        parts[start:stop] = _cut_by_share(places, shares)
    return parts


def _cut_by_share(places: Floats, shares: Shares) -> Integers:
    """Split [0, 1) into validation (lowest), test and training."""
    parts = np.full(len(places), TRAIN, dtype=np.int64)
    parts[places < shares.validation + shares.test] = TEST
    parts[places < shares.validation] = VALIDATION
    return parts


def _wanted(rows: int, shares: Shares) -> tuple[int, int]:
    return round(rows * shares.validation), round(rows * shares.test)


def _stratified(
    labels: pl.Series, split: StratifiedSplit, shares: Shares, seed: int, space: RowStorage
) -> Integers:
    _check_classes(labels, "use split: {kind: random}")
    counts = dict(sorted(count_labels(labels).items()))
    fewest = len(shares.needed)
    rare = [f"{name} ({count})" for name, count in counts.items() if count < fewest]
    if rare and split.rare == "refuse":
        raise DataMistake(
            Problem(
                "classes have too few rows for every part",
                path="data.split",
                found=quoted(rare),
                expected=f"at least {fewest} rows of each class",
                fix="keep them in training, data.split: {kind: stratified, rare: train}, add rows, "
                f"or merge classes with data.columns.{as_key(labels.name)}.values",
            )
        )
    code_of = {name: code for code, name in enumerate(counts)}

    def codes() -> Iterator[Integers]:
        for some in slices_of(labels):
            yield some.replace_strict(code_of, return_dtype=pl.Int64).to_numpy()

    wanted = [
        (0, 0) if count < fewest else rows_of_class(count, shares) for count in counts.values()
    ]
    return draw_parts(codes, list(counts.values()), wanted, seed, space)


def _check_classes(labels: pl.Series, fix: str) -> None:
    if labels.dtype != pl.String:
        raise DataMistake(
            Problem(
                "a stratified split needs classes",
                path="data.split",
                found=f"the target {labels.name!r} is a number",
                fix=fix,
            )
        )


def rows_of_class(rows: int, shares: Shares) -> tuple[int, int]:
    """Validation and test rows of a class of `rows` rows in a stratified split."""
    validation = max(1, round(rows * shares.validation)) if shares.validation else 0
    test = max(1, round(rows * shares.test)) if shares.test else 0
    while validation + test >= rows:
        if validation > test:
            validation -= 1
        else:
            test -= 1
    return validation, test


def _groups(
    frame: pl.DataFrame, split: GroupSplit, shares: Shares, seed: int, space: RowStorage
) -> Integers:
    if split.assign == "hashed":
        return _by_key(frame, lambda rows: group_names(rows, split.column), shares, seed, space)
    member, sizes = members(frame[split.column], space)
    validation, test = _wanted(frame.height, shares)
    rows = np.array([frame.height - validation - test, validation, test], dtype=np.float64)
    rows[[part for part in range(len(PARTS)) if part not in shares.needed]] = -np.inf
    keys = random_keys(len(sizes), seed, "split groups")
    return gathered(fill_bins(sizes, rows.tolist(), keys), member, space)


def _bins(counts: Floats, shares: Shares, seed: int) -> Integers:
    wanted = (1 - shares.validation - shares.test, shares.validation, shares.test)
    keys = random_keys(len(counts), seed, "split groups")
    return fill_bins_by_class(counts, wanted, keys)


def _written(series: pl.Series, space: RowStorage, file: str = "") -> Integers:
    codes = {name: code for code, name in enumerate(PARTS)}
    parts: Integers = space.array((len(series),), np.int64)
    strange = Wrong()
    for (start, stop), some in zip(bounds(len(series)), slices_of(series), strict=True):
        labels = some.cast(pl.String)
        known = labels.replace_strict(codes, default=None, return_dtype=pl.Int64)
        strange.add(labels.filter(known.is_null()))
        parts[start:stop] = known.fill_null(0).to_numpy()
    if strange.count:
        raise DataMistake(
            Problem(
                f"{series.name!r} names no part in {many(strange.count, 'row')}",
                path="data.split.path" if file else "data.split.column",
                found=str(strange),
                expected="train, validation or test",
                fix=f"correct {file}"
                if file
                else f"set data.columns.{as_key(series.name)}.values, for example "
                '{"val": "validation"}',
            )
        )
    return parts


def _check_shares(split: Split, shares: Shares) -> None:
    if isinstance(split, ColumnSplit | FileSplit):
        return
    problems = [
        Problem(
            f"the {name} part would be empty",
            path=f"data.split.{name}",
            found="0",
            expected="a share above 0",
            fix=f"set data.split.{name}, for example 0.15",
        )
        for name, share, needed in (
            ("validation", shares.validation, shares.needs_validation),
            ("test", shares.test, shares.needs_test),
        )
        if needed and share == 0
    ]
    if shares.validation + shares.test >= 1:
        problems.append(
            Problem(
                "validation and test leave no training rows",
                path="data.split",
                found=f"{shares.validation:g} + {shares.test:g}",
                expected="a total below 1",
                fix="lower one of them",
            )
        )
    if problems:
        raise DataMistake(problems)
