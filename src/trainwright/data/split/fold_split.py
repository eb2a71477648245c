"""Cross-validation folds, and the split of the training that tests each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never, final

import numpy as np
import numpy.typing as npt
import polars as pl

from trainwright.contract.sections.data.split import (
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
from trainwright.data.base.inputs import Integers
from trainwright.data.base.messages import quoted
from trainwright.data.base.parse_cells import to_labels
from trainwright.data.split.groups import (
    classes_of_groups,
    fill_bins,
    fill_bins_by_class,
    group_codes,
    members,
)
from trainwright.data.split.random_split import (
    LEFT_OUT,
    PARTS,
    TEST,
    VALIDATION,
    Shares,
    group_names,
    random_keys,
    shares_of_keys,
    unit_of,
)
from trainwright.data.split.split_file import PART_COLUMN
from trainwright.data.split.splits import key_of, split_rows
from trainwright.data.split.time_split import distances, moments, time_blocks

NEVER = -1
"""Fold of rows that are never tested: the oldest, under a rolling origin, and those of classes too
rare for every fold that only train."""


@final
@dataclass(frozen=True, slots=True)
class Folds:
    """Fold assignment, int64 [N] from 0 to `count` - 1 (`NEVER` for none), and how the remaining
    rows are split.
    """

    of_row: Integers
    count: int
    frame: pl.DataFrame
    target: str
    split: Split
    seed: int

    @property
    def tested(self) -> Integers:
        """Rows tested by some fold, in data order."""
        return np.flatnonzero(self.of_row != NEVER)

    def parts(self, number: int) -> Integers:
        """Part of each row, int64 [N], in the training that tests this fold.

        Raises:
            DataMistake: too few rows, groups, timestamps or rows of a class remain for its parts.
        """
        tested = self.of_row == number
        known = ~tested
        if isinstance(split := self.split, TimeSplit):
            # Before the remaining split: the validation rows would be removed first.
            times = distances(self.frame, split.moment)
            known = (self.of_row < number) & (times[tested].min() - times >= split.gap)
        if known.any():
            parts = self._divided(known, (number + 1) % self.count)
        else:
            parts = np.full(len(known), LEFT_OUT, dtype=np.int64)
        parts[tested] = TEST
        self._check_filled(parts, number)
        return parts

    def whole(self) -> Integers:
        """Parts of the training on all rows, without a test part."""
        return self._divided(np.ones(len(self.of_row), dtype=np.bool_), self.count - 1)

    def _check_filled(self, parts: Integers, number: int) -> None:
        counts = np.bincount(parts, minlength=len(PARTS))
        empty = [name for name, rows in zip(PARTS, counts, strict=False) if not rows]
        if empty:
            raise DataMistake(
                Problem(
                    f"no rows remain for the {' and '.join(empty)} part of fold {number + 1}",
                    path="data.split.folds",
                    found=f"{len(parts):,} rows, {self.count} folds",
                    expected="rows in every part of every fold",
                    fix="lower folds, gap or window, or add data",
                )
            )

    def _divided(self, known: npt.NDArray[np.bool_], validating: int) -> Integers:
        """Split the known rows into training and validation; the others are excluded."""
        split = self.split
        parts = np.full(len(known), LEFT_OUT, dtype=np.int64)
        if isinstance(split, ColumnSplit | FileSplit):
            parts[known] = np.where(self.of_row[known] == validating, VALIDATION, 0)
            return parts
        shares = Shares.of(split, frozenset())
        rows = np.flatnonzero(known)
        parts[rows] = split_rows(self.frame[rows], self.target, split, shares, self.seed)
        return parts


def cut_folds(frame: pl.DataFrame, target: str, split: Split, seed: int) -> Folds:
    """Assign rows to folds: a pure function of rows, seed and split.

    Raises:
        DataMistake: there are too few rows, groups, timestamps or rows of a class for that many
            folds.
    """
    count = split.folds
    assert count != "off", "only asked where there are folds"
    of_row = _cut(frame, target, split, count, seed)
    filled = np.bincount(of_row[of_row >= 0], minlength=count)
    if not filled.all():
        raise DataMistake(
            Problem(
                f"there are too few {unit_of(split)} for {count} folds",
                path="data.split.folds",
                found=f"{int((filled > 0).sum())} folds with rows",
                expected="rows in every fold",
                fix="lower data.split.folds, or add data",
            )
        )
    return Folds(of_row, count, frame, target, split, seed)


def _cut(frame: pl.DataFrame, target: str, split: Split, count: int, seed: int) -> Integers:
    match split:
        case AutoSplit():
            raise AssertionError("the plan decides the split before rows are divided")
        case RandomSplit(key=""):
            return _even(random_keys(frame.height, seed, "folds"), count)
        case RandomSplit():
            places = shares_of_keys(key_of(frame, split), seed, "folds")
            return (places * count).astype(np.int64)
        case StratifiedSplit(rare=rare):
            return _even_by_class(frame[target], count, seed, has_rare=rare == "train")
        case GroupSplit(assign="hashed", column=column):
            places = shares_of_keys(group_names(frame, column), seed, "folds")
            return (places * count).astype(np.int64)
        case GroupSplit(column=column):
            member, sizes = members(frame[column])
            keys = random_keys(len(sizes), seed, "fold groups")
            return fill_bins(sizes, [frame.height / count] * count, keys)[member]
        case StratifiedGroupSplit(column=column):
            counts, member = classes_of_groups(frame, target, column)
            keys = random_keys(len(counts), seed, "fold groups")
            return fill_bins_by_class(counts, [1 / count] * count, keys)[member]
        case TimeSplit():
            return time_blocks(moments(frame, split.moment), count + 1) - 1
        case ColumnSplit(column=column):
            return _written(frame[column], count)
        case FileSplit():
            return _written(frame[PART_COLUMN].alias("part"), count)
        case _:
            assert_never(split)


def _even(keys: npt.NDArray[np.uint64], count: int) -> Integers:
    """Equal-sized folds in key order."""
    folds = np.empty(len(keys), dtype=np.int64)
    folds[np.argsort(keys, kind="stable")] = np.arange(len(keys)) * count // len(keys)
    return folds


def _even_by_class(labels: pl.Series, count: int, seed: int, *, has_rare: bool) -> Integers:
    """Deal the rows of each class round-robin, each class continuing where the last one ended.
    Classes with fewer rows than folds are refused, or never tested if `has_rare`."""
    keys = random_keys(len(labels), seed, "folds")
    codes = group_codes(labels)
    found, rows = np.unique(codes, return_counts=True)
    rare = found[rows < count]
    if len(rare) and not has_rare:
        raise DataMistake(_too_rare(labels, codes, rare, count))
    order = np.lexsort((keys, codes))
    order = order[~np.isin(codes[order], rare)]
    folds = np.full(len(labels), NEVER, dtype=np.int64)
    folds[order] = np.arange(len(order)) % count
    return folds


def _too_rare(labels: pl.Series, codes: Integers, rare: Integers, count: int) -> Problem:
    named = [
        f"{labels[int(places[0])]} ({len(places)})"
        for places in (np.flatnonzero(codes == code) for code in rare)
    ]
    return Problem(
        "classes have fewer rows than there are folds",
        path="data.split.folds",
        found=quoted(named),
        expected=f"at least {count} rows of each class",
        fix="lower data.split.folds, or use split: {kind: random}",
    )


def _written(series: pl.Series, count: int) -> Integers:
    names = to_labels(series)
    if names.null_count() or names.n_unique() != count:
        raise DataMistake(
            Problem(
                f"{series.name!r} does not name {count} folds",
                path="data.split.folds",
                found=f"{names.drop_nulls().n_unique()} names, {names.null_count()} rows without",
                expected=f"{count} different names, and one in every row",
                fix=f"set data.split.folds to {max(2, names.drop_nulls().n_unique())}",
            )
        )
    return names.rank("dense").cast(pl.Int64).to_numpy() - 1


def check_fold_classes(absent: Sequence[str], number: int, fix: str) -> None:
    """Check that every model predicts the same classes, of which the training rows of a fold
    lack those that are `absent`.

    Raises:
        DataMistake: there are some.
    """
    if absent:
        raise DataMistake(
            Problem(
                f"the training rows of fold {number + 1} lack classes",
                path="data.split.folds",
                found=f"no row of {quoted(absent)}",
                expected="every class in the training rows of every fold",
                fix=fix,
            )
        )
