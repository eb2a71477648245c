"""Shares of the parts of a split, and the check that none is empty."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from trainwright.contract.sections.data.split import ColumnSplit, FileSplit, Split, TimeSplit
from trainwright.core.errors import DataMistake, Problem
from trainwright.core.formatting import many
from trainwright.data.base.storage.row_storage import IN_MEMORY, RowStorage, positions_of_code
from trainwright.data.base.table import Integers, PartName

TRAIN, VALIDATION, TEST, LEFT_OUT = range(4)
PARTS: tuple[PartName, ...] = ("train", "validation", "test")


@final
@dataclass(frozen=True, slots=True)
class Shares:
    """Shares of the rows for validation and test; 0 for a part with its own file."""

    validation: float
    test: float
    needs_validation: bool = True
    needs_test: bool = True

    @classmethod
    def of(cls, split: Split, given: frozenset[str]) -> Shares:
        """Shares from a section, where the parts in `given` have their own files. Under
        cross-validation those of one training, whose test rows are a fold."""
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
        """Parts that must not be empty."""
        others = ((VALIDATION, self.needs_validation), (TEST, self.needs_test))
        return (TRAIN, *(part for part, needs in others if needs))


def rows_of_parts(codes: Integers, space: RowStorage = IN_MEMORY) -> dict[PartName, Integers]:
    """Rows of each part, given the part of each row [N]."""
    return {part: positions_of_code(code, codes, space) for code, part in enumerate(PARTS)}


def left_out_of(parts: Integers) -> int:
    """Number of rows [N] excluded from every part."""
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
            fix="add data, increase the shares, or name val_path and test_path"
            + (", or lower gap or window" if isinstance(split, TimeSplit) else ""),
        )
    )


def unit_of(split: Split) -> str:
    """The unit that a split keeps together, in the plural."""
    units = {"group": "groups", "stratified_group": "groups", "time": "different times"}
    return units.get(split.kind, "rows")
