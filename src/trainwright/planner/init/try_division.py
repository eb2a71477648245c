"""Whether a proposed split works for a table, and how many rows it leaves to train on."""

from __future__ import annotations

import json

import numpy as np
import polars as pl

from trainwright.contract.sections.data.table_data import TableData
from trainwright.core.errors import DataMistake
from trainwright.data.base.storage.row_storage import IN_MEMORY
from trainwright.data.base.table import Integers
from trainwright.data.read_table import RawTable
from trainwright.data.split.fold_split import cut_folds
from trainwright.data.split.fractions import TEST, TRAIN, VALIDATION, Shares
from trainwright.data.split.hidden_columns import with_moments
from trainwright.data.split.splits import split_rows
from trainwright.planner.init.guess_split import Division

_FEWEST_OF_A_CLASS = 10


def works(division: Division, raw: RawTable, target: str) -> bool:
    """Whether the rows can be divided so, and every class that is held out trains too."""
    try:
        parts = _parts(division, raw, target)
    except DataMistake:
        return False
    if raw.facts.target.kind == "numbers":
        return True
    labels = raw.frames["train"][target]
    known = [set(labels.filter(pl.Series(one == TRAIN)).unique()) for one in parts]
    held = [
        set(labels.filter(pl.Series((one == VALIDATION) | (one == TEST))).unique()) for one in parts
    ]
    rows = raw.facts.target.classes.values()
    both = len(rows) == 2 and min(rows) >= _FEWEST_OF_A_CLASS
    if both and not all(len(other) == 2 for other in held):
        return False
    return all(other <= trained for trained, other in zip(known, held, strict=True))


def fewest_training_rows(division: Division, raw: RawTable, target: str) -> int:
    """The training rows of the smallest fold; all rows where they cannot be divided so."""
    try:
        parts = _parts(division, raw, target)
    except DataMistake:
        return raw.facts.rows
    return min(int(np.count_nonzero(one == TRAIN)) for one in parts)


def _parts(division: Division, raw: RawTable, target: str) -> list[Integers]:
    """The part of each row, in the training of each fold.

    Raises:
        DataMistake: a part would have no rows.
    """
    split = TableData.model_validate_json(json.dumps({"split": division.section})).split
    frame = with_moments({"train": raw.frames["train"]}, split, IN_MEMORY)["train"]
    if split.folds == "off":
        return [split_rows(frame, target, split, Shares.of(split, raw.facts.given), 0)]
    folds = cut_folds(frame, target, split, 0)
    return [folds.parts(number) for number in range(folds.count)]
