"""Dividing rows into training, validation and test: a pure function of rows, seed and section."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import assert_never, final

import numpy as np
import polars as pl

from trainwright.contract.data import (
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
from trainwright.core.errors import DataMistake, Problem
from trainwright.data.categories import count_labels
from trainwright.data.drawn_parts import draw_parts
from trainwright.data.moments import distances, moments
from trainwright.data.row_keys import random_keys, row_texts, shares_of_keys
from trainwright.data.space import IN_MEMORY, Space, bounds, slices_of
from trainwright.data.split_file import PART_COLUMN
from trainwright.data.table import Floats, Integers, PartName
from trainwright.data.values import to_labels
from trainwright.data.whole_groups import fill_bins, fill_bins_by_class
from trainwright.data.wording import quoted

TRAIN, VALIDATION, TEST, LEFT_OUT = range(4)
PARTS: tuple[PartName, ...] = ("train", "validation", "test")


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
        """The shares that a section asks for where the parts in `given` have their own files. With
        folds they are those of one training, whose test rows are a fold."""
        own_validation, own_test = "validation" in given, "test" in given
        if isinstance(split, ColumnSplit | FileSplit):
            return cls(0, 0, not own_validation, not own_test)
        if split.folds != "off":
            return cls(split.validation, 0, needs_test=False)
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


def divide(
    frame: pl.DataFrame,
    target: str,
    split: Split,
    shares: Shares,
    seed: int,
    space: Space = IN_MEMORY,
) -> Integers:
    """The part (0 train, 1 validation, 2 test, 3 left out) of each row, int64 [N]; random and
    stratified ones are drawn in `space`, a slice at a time.

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
            parts = _random(frame, split, shares, seed, space)
        case StratifiedSplit():
            parts = _stratified(frame[target], shares, seed, space)
        case GroupSplit():
            parts = _groups(frame, split, shares, seed)
        case StratifiedGroupSplit(column=column):
            parts = _stratified_groups(frame, target, column, shares, seed)
        case TimeSplit():
            parts = _times(frame, split, shares)
        case ColumnSplit():
            parts = _written(frame[split.column])
        case FileSplit():
            parts = _written(frame[PART_COLUMN].alias("part"), split.path)
        case _:
            assert_never(split)
    _check_filled(parts, split, shares)
    return parts


def group_codes(series: pl.Series) -> Integers:
    """A number for each row's group, int64 [N]; all rows without one are one group."""
    return series.rank("dense").fill_null(0).cast(pl.Int64).to_numpy()


def _random(
    frame: pl.DataFrame, split: RandomSplit, shares: Shares, seed: int, space: Space
) -> Integers:
    if split.key:
        return _cut_by_share(shares_of_keys(key_of(frame, split), seed, "split"), shares)

    def codes() -> Iterator[Integers]:
        return (np.zeros(stop - start, dtype=np.int64) for start, stop in bounds(frame.height))

    return draw_parts(codes, [frame.height], [_wanted(frame.height, shares)], seed, space)


def key_of(frame: pl.DataFrame, split: RandomSplit) -> pl.Series:
    """What tells a row from the others, as text."""
    if split.key == EVERY_COLUMN:
        return row_texts(frame.drop(PART_COLUMN, strict=False))
    return to_labels(frame[split.key])


def _cut_by_share(places: Floats, shares: Shares) -> Integers:
    """Validation the lowest of [0, 1), test next to it, training the rest."""
    parts = np.full(len(places), TRAIN, dtype=np.int64)
    parts[places < shares.validation + shares.test] = TEST
    parts[places < shares.validation] = VALIDATION
    return parts


def _wanted(rows: int, shares: Shares) -> tuple[int, int]:
    return round(rows * shares.validation), round(rows * shares.test)


def _stratified(labels: pl.Series, shares: Shares, seed: int, space: Space) -> Integers:
    _check_classes(labels, "use split: {kind: random}")
    counts = dict(sorted(count_labels(labels).items()))
    fewest = len(shares.needed)
    rare = [f"{name} ({count})" for name, count in counts.items() if count < fewest]
    if rare:
        raise DataMistake(
            Problem(
                "classes have too few rows to stand in every part",
                path="data.split",
                found=quoted(rare),
                expected=f"at least {fewest} rows of each class",
                fix="add rows, merge classes with data.columns.<target>.values, or use "
                "split: {kind: random}",
            )
        )
    code_of = {name: code for code, name in enumerate(counts)}

    def codes() -> Iterator[Integers]:
        for some in slices_of(labels):
            yield some.replace_strict(code_of, return_dtype=pl.Int64).to_numpy()

    wanted = [rows_of_class(count, shares) for count in counts.values()]
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
    """Validation and test rows of a class with this many rows, where the split is stratified."""
    validation = max(1, round(rows * shares.validation)) if shares.validation else 0
    test = max(1, round(rows * shares.test)) if shares.test else 0
    while validation + test >= rows:
        if validation > test:
            validation -= 1
        else:
            test -= 1
    return validation, test


def _groups(frame: pl.DataFrame, split: GroupSplit, shares: Shares, seed: int) -> Integers:
    if split.assign == "hashed":
        names = to_labels(frame[split.column])
        return _cut_by_share(shares_of_keys(names, seed, "split"), shares)
    _, member, sizes = np.unique(
        group_codes(frame[split.column]), return_inverse=True, return_counts=True
    )
    validation, test = _wanted(frame.height, shares)
    rows = np.array([frame.height - validation - test, validation, test], dtype=np.float64)
    rows[[part for part in range(len(PARTS)) if part not in shares.needed]] = -np.inf
    keys = random_keys(len(sizes), seed, "split groups")
    return fill_bins(sizes, rows.tolist(), keys)[member]


def _stratified_groups(
    frame: pl.DataFrame, target: str, column: str, shares: Shares, seed: int
) -> Integers:
    _check_classes(frame[target], "use split: {kind: group}")
    counts, member = classes_of_groups(frame, target, column)
    wanted = (1 - shares.validation - shares.test, shares.validation, shares.test)
    keys = random_keys(len(counts), seed, "split groups")
    return fill_bins_by_class(counts, wanted, keys)[member]


def classes_of_groups(frame: pl.DataFrame, target: str, column: str) -> tuple[Floats, Integers]:
    """Rows of each class in each group, float64 [G, C], and the group of each row, int64 [N]."""
    _, member = np.unique(group_codes(frame[column]), return_inverse=True)
    _, label = np.unique(group_codes(frame[target]), return_inverse=True)
    counts = np.zeros((int(member.max()) + 1, int(label.max()) + 1))
    np.add.at(counts, (member, label), 1.0)
    return counts, member


def _times(frame: pl.DataFrame, split: TimeSplit, shares: Shares) -> Integers:
    """Cut between moments, as near to the wanted shares as moments allow, oldest to training."""
    ranks = moments(frame, split.column)
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
    return leave_gaps(parts, distances(frame, split.column), split)


def leave_gaps(parts: Integers, times: Floats, split: TimeSplit) -> Integers:
    """The parts without the rows that are too near to the part behind theirs, or too old."""
    kept = parts.copy()
    for earlier, later in ((VALIDATION, TEST), (TRAIN, VALIDATION), (TRAIN, TEST)):
        behind = times[parts == later]
        if len(behind):
            kept[(parts == earlier) & (behind.min() - times < split.gap)] = LEFT_OUT
    trained = times[kept == TRAIN]
    if split.window != "all" and len(trained):
        kept[(kept == TRAIN) & (trained.max() - times > split.window)] = LEFT_OUT
    return kept


def keep_apart_from_files(
    parts: Integers, frames: Mapping[PartName, pl.DataFrame], split: TimeSplit, shares: Shares
) -> Integers:
    """The parts of the rows of `train` with gap and window kept towards parts that have files of
    their own, whose rows all stay.

    Raises:
        DataMistake: a part would be empty, or rows of one file are too near to another's.
    """
    own = len(parts)
    names: list[PartName] = ["train", *(part for part in frames if part != "train")]
    together = pl.concat([frames[name].select(split.column) for name in names])
    of_files = [np.full(frames[name].height, PARTS.index(name)) for name in names[1:]]
    codes = np.concatenate([parts, *of_files])
    times = distances(together, split.column)
    kept = codes.copy()
    in_file = np.arange(len(codes)) >= own
    for later in (VALIDATION, TEST):
        behind = times[codes == later]
        if not len(behind):
            continue
        ahead = behind.min() - times
        # Training rows of the future are no near ones: they are refused, not left out.
        near = (ahead >= 0) & (ahead < split.gap)
        late = in_file & (codes == VALIDATION) & (ahead <= 0)
        kept[(codes < later) & (near | late)] = LEFT_OUT
    _check_files(kept[own:], split)
    trained = times[kept == TRAIN]
    if split.window != "all" and len(trained):
        kept[(kept == TRAIN) & (trained.max() - times > split.window)] = LEFT_OUT
    _check_filled(kept[:own], split, shares)
    return kept[:own]


def _check_files(kept: Integers, split: TimeSplit) -> None:
    near = int((kept == LEFT_OUT).sum())
    if near:
        raise DataMistake(
            Problem(
                f"{near} rows of the validation file are too near to the test rows, or not older",
                path="data.split.gap",
                found=f"a distance below {split.gap:g}, or none",
                expected="rows that are older than every test row, by the gap",
                fix="take these rows out of the validation file, lower gap, or name a test file",
            )
        )


def _nearest_cut(boundaries: Integers, wanted: int, low: int, high: int) -> int:
    """Index in `boundaries[low:high]` of the cut nearest to `wanted` rows."""
    return low + int(np.argmin(np.abs(boundaries[low:high] - wanted)))


def _written(series: pl.Series, file: str = "") -> Integers:
    codes = {name: code for code, name in enumerate(PARTS)}
    labels = series.cast(pl.String)
    strange = labels.filter(~labels.is_in(list(PARTS)) | labels.is_null())
    if len(strange):
        raise DataMistake(
            Problem(
                f"{series.name!r} does not say a part in {len(strange)} rows",
                path="data.split.path" if file else "data.split.column",
                found=quoted(strange.unique(maintain_order=True).to_list()),
                expected="train, validation or test",
                fix=f"mend {file}"
                if file
                else f'set data.columns.{series.name}.values, for example {{"val": "validation"}}',
            )
        )
    parts = labels.replace_strict(list(codes), list(codes.values()), return_dtype=pl.Int64)
    return parts.to_numpy()


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
    counts = np.bincount(parts, minlength=4)
    empty = [PARTS[part] for part in shares.needed if counts[part] == 0]
    if not empty:
        return
    unit = unit_of(split)
    raise DataMistake(
        Problem(
            f"there are too few {unit} to split: the {' and '.join(empty)} part would be empty",
            path="data.split",
            found=f"{len(parts)} rows, split by {split.kind}",
            expected=f"at least one of the {unit} for each part",
            fix="add data, give larger shares, or name val_path and test_path"
            + (", or lower gap or window" if isinstance(split, TimeSplit) else ""),
        )
    )


def unit_of(split: Split) -> str:
    """What a split moves from part to part as a whole, in the plural."""
    units = {"group": "groups", "stratified_group": "groups", "time": "different times"}
    return units.get(split.kind, "rows")
