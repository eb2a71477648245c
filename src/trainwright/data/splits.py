"""Dividing rows into training, validation and test: a pure function of rows, seed and section."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import assert_never, final

import numpy as np
import numpy.typing as npt
import polars as pl

from trainwright.contract.data import (
    AutoSplit,
    ColumnSplit,
    GroupSplit,
    RandomSplit,
    Split,
    StratifiedSplit,
    TimeSplit,
)
from trainwright.core.errors import DataMistake, Problem
from trainwright.data.table import Integers, PartName
from trainwright.data.wording import quoted

TRAIN, VALIDATION, TEST = 0, 1, 2
PARTS: tuple[PartName, ...] = ("train", "validation", "test")
_FEWEST_OF_A_CLASS = 3


@final
@dataclass(frozen=True, slots=True)
class Shares:
    """The parts to divide off, as shares of the rows; 0 for a part that has a file of its own."""

    validation: float
    test: float
    needs_validation: bool = True
    needs_test: bool = True

    @classmethod
    def of(cls, split: Split, given: frozenset[str]) -> Shares:
        """The shares that a section asks for where the parts in `given` have their own files."""
        own_validation, own_test = "validation" in given, "test" in given
        if isinstance(split, ColumnSplit):
            return cls(0, 0, not own_validation, not own_test)
        return cls(
            0 if own_validation else split.validation,
            0 if own_test else split.test,
            not own_validation,
            not own_test,
        )

    @property
    def needed(self) -> tuple[int, ...]:
        """The parts that must end up with rows."""
        others = ((VALIDATION, self.needs_validation), (TEST, self.needs_test))
        return (TRAIN, *(part for part, needs in others if needs))


def divide(frame: pl.DataFrame, target: str, split: Split, shares: Shares, seed: int) -> Integers:
    """The part (0 train, 1 validation, 2 test) of each row, int64 [N].

    Raises:
        DataMistake: there are too few rows, groups, moments or rows of a class to fill the parts.
    """
    if shares.needed == (TRAIN,):
        return np.zeros(frame.height, dtype=np.int64)
    _check_shares(split, shares)
    match split:
        case AutoSplit():
            raise AssertionError("the plan decides the split before rows are divided")
        case RandomSplit():
            parts = _random(frame.height, shares, seed)
        case StratifiedSplit():
            parts = _stratified(frame[target], shares, seed)
        case GroupSplit():
            parts = _groups(group_codes(frame[split.column]), shares, seed)
        case TimeSplit():
            parts = _times(moments(frame, split.column), shares)
        case ColumnSplit():
            parts = _written(frame[split.column])
        case _:
            assert_never(split)
    _check_filled(parts, split, shares)
    return parts


def random_keys(count: int, seed: int, purpose: str) -> npt.NDArray[np.uint64]:
    """`count` random 64-bit numbers, a pure function of seed and purpose.

    Raw PCG64 words, whose stream numpy guarantees never to change.
    """
    tag = int.from_bytes(hashlib.sha256(purpose.encode()).digest()[:8], "little")
    return np.random.PCG64([seed, tag]).random_raw(count)


def group_codes(series: pl.Series) -> Integers:
    """A number for each row's group, int64 [N]; all rows without one are one group."""
    return series.rank("dense").fill_null(0).cast(pl.Int64).to_numpy()


def moments(frame: pl.DataFrame, column: str) -> Integers:
    """The rank of each row's time among the different times, int64 [N].

    Raises:
        DataMistake: the column is not a time or a number, or misses values.
    """
    series = frame[column]
    if not (series.dtype.is_numeric() or series.dtype == pl.Datetime("us")):
        raise DataMistake(
            Problem(
                f"{column!r} is not a time",
                path="data.split.column",
                found=f"values such as {series.drop_nulls().head(1).to_list()}",
                expected="dates written alike, or numbers",
                fix=f"set data.columns.{column}.format",
            )
        )
    if series.null_count():
        rows = series.is_null().arg_true().to_list()
        raise DataMistake(
            Problem(
                f"{len(rows)} rows have no time",
                path="data.split.column",
                found=f"{column!r} is missing in row {rows[0] + 1}",
                expected="a time in every row",
                fix="repair these rows, or choose another split",
            )
        )
    return series.rank("dense").cast(pl.Int64).to_numpy()


def time_units(ranks: Integers) -> Integers:
    """Contiguous stretches of about N ** (1/3) rows in the order of time, int64 [N].

    The block length of the moving-block bootstrap grows with the cube root of the rows
    (Künsch 1989, Annals of Statistics 17, section 3).
    """
    order = np.argsort(ranks, kind="stable")
    length = max(1, round(len(ranks) ** (1 / 3)))
    units = np.empty(len(ranks), dtype=np.int64)
    units[order] = np.arange(len(ranks)) // length
    return units


def _random(rows: int, shares: Shares, seed: int) -> Integers:
    order = np.argsort(random_keys(rows, seed, "split"), kind="stable")
    return _cut(order, _wanted(rows, shares))


def _wanted(rows: int, shares: Shares) -> tuple[int, int]:
    return round(rows * shares.validation), round(rows * shares.test)


def _cut(order: Integers, wanted: tuple[int, int]) -> Integers:
    validation, test = wanted
    parts = np.full(len(order), TRAIN, dtype=np.int64)
    parts[order[:validation]] = VALIDATION
    parts[order[validation : validation + test]] = TEST
    return parts


def _stratified(labels: pl.Series, shares: Shares, seed: int) -> Integers:
    if labels.dtype != pl.String:
        raise DataMistake(
            Problem(
                "a stratified split needs classes",
                path="data.split",
                found=f"the target {labels.name!r} is a number",
                fix="use split: {kind: random}",
            )
        )
    keys = random_keys(len(labels), seed, "split")
    codes = group_codes(labels)
    parts = np.full(len(labels), TRAIN, dtype=np.int64)
    rare: list[str] = []
    for code in np.unique(codes):
        rows = np.flatnonzero(codes == code)
        if len(rows) < min(_FEWEST_OF_A_CLASS, len(shares.needed)):
            rare.append(f"{labels[int(rows[0])]} ({len(rows)})")
            continue
        order = np.argsort(keys[rows], kind="stable")
        parts[rows] = _cut(order, rows_of_class(len(rows), shares))
    if rare:
        raise DataMistake(
            Problem(
                "classes have too few rows to stand in every part",
                path="data.split",
                found=quoted(rare),
                expected=f"at least {len(shares.needed)} rows of each class",
                fix="add rows, merge classes with data.columns.<target>.values, or use "
                "split: {kind: random}",
            )
        )
    return parts


def rows_of_class(rows: int, shares: Shares) -> tuple[int, int]:
    """Validation and test rows of a class with this many rows, where the split is stratified."""
    validation = max(1, round(rows * shares.validation)) if shares.validation else 0
    test = max(1, round(rows * shares.test)) if shares.test else 0
    while validation + test >= rows:
        if validation > test:
            validation -= 1
        else:
            test -= 1
    return validation, test


def _groups(codes: Integers, shares: Shares, seed: int) -> Integers:
    """Whole groups in random order, each to the part that misses most rows; groups too large for
    the smallest part go first, so that they find room."""
    _, member, sizes = np.unique(codes, return_inverse=True, return_counts=True)
    validation, test = _wanted(len(codes), shares)
    left = np.array([len(codes) - validation - test, validation, test], dtype=np.float64)
    smallest = min(left[part] for part in shares.needed)
    keys = random_keys(len(sizes), seed, "split groups")
    large = np.where(sizes > smallest, sizes, 0)
    order = np.lexsort((keys, -large))
    chosen = np.empty(len(sizes), dtype=np.int64)
    left[[part for part in range(3) if part not in shares.needed]] = -np.inf
    for group in order:
        part = int(np.argmax(left))
        chosen[group] = part
        left[part] -= sizes[group]
    _fill_empty(chosen, sizes, shares)
    return chosen[member].astype(np.int64)


def _fill_empty(chosen: Integers, sizes: Integers, shares: Shares) -> None:
    """Give a part without a group the smallest group of the part that has most groups."""
    for part in shares.needed:
        counts = np.bincount(chosen, minlength=3)
        if counts[part] == 0 and counts.max() > 1:
            donors = np.flatnonzero(chosen == int(np.argmax(counts)))
            chosen[donors[np.argmin(sizes[donors])]] = part


def _times(ranks: Integers, shares: Shares) -> Integers:
    """Cut between moments, as near to the wanted shares as moments allow, oldest to training."""
    rows = len(ranks)
    validation, test = _wanted(rows, shares)
    ends = np.cumsum(np.bincount(ranks)[1:])
    boundaries = ends[:-1]
    parts = np.full(rows, TRAIN, dtype=np.int64)
    needed = len(shares.needed)
    if len(ends) < needed:
        return parts
    first_test = _nearest_cut(boundaries, rows - test, needed - 2, len(boundaries))
    first_validation = first_test
    if shares.needs_validation:
        last = first_test if shares.needs_test else len(boundaries)
        first_validation = _nearest_cut(boundaries, rows - test - validation, 0, last)
        parts[ranks > first_validation + 1] = VALIDATION
    if shares.needs_test:
        parts[ranks > first_test + 1] = TEST
    return parts


def _nearest_cut(boundaries: Integers, wanted: int, low: int, high: int) -> int:
    """Index in `boundaries[low:high]` of the cut nearest to `wanted` rows."""
    return low + int(np.argmin(np.abs(boundaries[low:high] - wanted)))


def _written(series: pl.Series) -> Integers:
    codes = {name: code for code, name in enumerate(PARTS)}
    labels = series.cast(pl.String)
    strange = labels.filter(~labels.is_in(list(PARTS)) | labels.is_null())
    if len(strange):
        raise DataMistake(
            Problem(
                f"{series.name!r} does not say a part in {len(strange)} rows",
                path="data.split.column",
                found=quoted(strange.unique(maintain_order=True).to_list()),
                expected="train, validation or test",
                fix=f'set data.columns.{series.name}.values, for example {{"val": "validation"}}',
            )
        )
    parts = labels.replace_strict(list(codes), list(codes.values()), return_dtype=pl.Int64)
    return parts.to_numpy()


def _check_shares(split: Split, shares: Shares) -> None:
    if isinstance(split, ColumnSplit):
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
                "validation and test leave nothing to train on",
                path="data.split",
                found=f"{shares.validation:g} + {shares.test:g}",
                expected="together below 1",
                fix="lower one of them",
            )
        )
    if problems:
        raise DataMistake(problems)


def _check_filled(parts: Integers, split: Split, shares: Shares) -> None:
    counts = np.bincount(parts, minlength=3)
    empty = [PARTS[part] for part in shares.needed if counts[part] == 0]
    if not empty:
        return
    unit = {"group": "groups", "time": "different times"}.get(split.kind, "rows")
    raise DataMistake(
        Problem(
            f"there are too few {unit} to split: the {' and '.join(empty)} part would be empty",
            path="data.split",
            found=f"{len(parts)} rows, split by {split.kind}",
            expected=f"at least one of the {unit} for each part",
            fix="add data, give larger shares, or name val_path and test_path",
        )
    )
