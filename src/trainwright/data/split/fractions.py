"""The parts of a split: their numbers, their shares of the rows, and that none of them is empty."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from trainwright.contract.data import ColumnSplit, FileSplit, Split, TimeSplit
from trainwright.core.errors import DataMistake, Problem
from trainwright.core.formatting import many
from trainwright.data.base.table import Integers, PartName

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


def left_out_of(parts: Integers) -> int:
    """How many rows [N] stand in no part."""
    return int(np.bincount(parts, minlength=LEFT_OUT + 1)[LEFT_OUT])


def check_filled(parts: Integers, split: Split, shares: Shares) -> None:
    """Raises:
    DataMistake: a part that must have rows has none.
    """
    counts = np.bincount(parts, minlength=LEFT_OUT + 1)
    empty = [PARTS[part] for part in shares.needed if counts[part] == 0]
    if not empty:
        return
    unit = unit_of(split)
    raise DataMistake(
        Problem(
            f"there are too few {unit} to split: the {' and '.join(empty)} part would be empty",
            path="data.split",
            found=f"{many(len(parts), 'row')}, split by {split.kind}",
            expected=f"at least one of the {unit} for each part",
            fix="add data, give larger shares, or name val_path and test_path"
            + (", or lower gap or window" if isinstance(split, TimeSplit) else ""),
        )
    )


def unit_of(split: Split) -> str:
    """What a split moves from part to part as a whole, in the plural."""
    units = {"group": "groups", "stratified_group": "groups", "time": "different times"}
    return units.get(split.kind, "rows")
