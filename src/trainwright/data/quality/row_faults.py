"""What a contract has done about faults of rows that lie in files: what each row shows by itself.

The same as `actions.act` does to rows in memory, a slice of them at a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from trainwright.contract.data import Column, TableData
from trainwright.contract.quality import Action, FindingKind
from trainwright.data.cells import Cells
from trainwright.data.done import Done
from trainwright.data.limits import Limit
from trainwright.data.quality.actions import Acted, changed_by, nothing_left
from trainwright.data.quality.examined import Look, LookKind, are_numbers
from trainwright.data.quality.keys import columns_of, key_columns
from trainwright.data.quality.ranges import broken_rows
from trainwright.data.space import Space, bounds, gathered, places_of, taken
from trainwright.data.table import Integers, PartName
from trainwright.data.values import Cleaning, to_labels, to_numbers

BY_ROW: Mapping[FindingKind, tuple[Action, ...]] = MappingProxyType(
    {
        "missing": ("drop",),
        "out_of_range": ("drop", "cap", "impute"),
        "unexpected_value": ("drop",),
        "pattern_mismatch": ("drop",),
        "forbidden_missing": ("drop",),
    }
)
"""The actions that need no row but the one they are done to."""

_AS_TYPED = Cleaning((), {})


def act_by_row(
    frames: Mapping[PartName, pl.DataFrame],
    places: Integers,
    section: TableData,
    space: Space,
) -> Acted:
    """Do to the typed training rows what the contract asks; `places` are theirs in their file. The
    plan refuses what is not in `BY_ROW`.

    Raises:
        DataMistake: no training row would be left.
    """
    train, done, limits = frames["train"], list[Done](), list[Limit]()
    for kind, action in section.quality.asked().items():
        assert action in ("report", *BY_ROW.get(kind, ())), "the plan refuses every other action"
        if action == "drop":
            faulty = _faulty_rows(train, kind, section, space)
            rows, stay = (places_of(has, faulty, space) for has in (True, False))
            if not len(rows):
                continue
            if not len(stay):
                raise nothing_left(kind, len(rows))
            message = f"{len(rows):,} training rows left out ({kind})"
            done.append(Done(kind, "drop", message, len(rows), _listed(places, rows)))
            train = space.frame(taken(train, stay))
            places = gathered(places, stay, space)
    for kind, action in section.quality.asked().items():
        if action in ("cap", "impute"):
            beyond: Literal["cap", "impute"] = "cap" if action == "cap" else "impute"
            for limit in _limits(train, section, beyond):
                column = train.select(limit.column)
                rows = places_of(True, _faulty_rows(column, kind, section, space), space)
                message = changed_by({**frames, "train": train}, limit, kind)
                count = len(rows) or 1
                done.append(
                    Done(kind, action, message, count, _listed(places, rows), (limit.column,))
                )
                limits.append(limit)
    return Acted(train, places, limits=tuple(limits), done=tuple(done))


def _listed(places: Integers, rows: Integers) -> tuple[int, ...]:
    return tuple(places[rows].tolist())


def _faulty_rows(
    frame: pl.DataFrame, kind: FindingKind, section: TableData, space: Space
) -> npt.NDArray[np.bool_]:
    """Whether each row has a fault, bool [N] in `space`."""
    columns = columns_of(section, frame)
    never = _left_out(section)
    names = [
        name
        for name in frame.columns
        if (name not in never if kind == "missing" else name in columns)
    ]
    # Asked of all rows at once: a slice may hold numbers alone where the column does not.
    numbers = _numbers(frame, columns, space) if kind == "out_of_range" else frozenset()
    faulty = space.array((frame.height,), np.bool_)
    for start, stop in bounds(frame.height):
        here = faulty[start:stop]
        here[:] = False
        for name in names:
            cells = _AS_TYPED.cells(frame[name].slice(start, stop - start))
            here |= _faulty(_look(cells, name in numbers), kind, columns.get(name, Column()))
    return faulty


def _faulty(look: Look, kind: FindingKind, column: Column) -> npt.NDArray[np.bool_]:
    if kind == "missing":
        return look.cells.is_null().to_numpy()
    broken = broken_rows(look, column)
    if kind in broken:
        return broken[kind].to_numpy()
    return np.zeros(len(look.cells), dtype=np.bool_)


def _left_out(section: TableData) -> frozenset[str]:
    ignored = [name for name, column in section.columns.items() if column.kind == "ignored"]
    return frozenset({*section.exclude, *key_columns(section), *ignored} - {section.target})


def _numbers(frame: pl.DataFrame, columns: Mapping[str, Column], space: Space) -> frozenset[str]:
    """The columns with a range that are numbers to the checks of rows in memory: also labels that
    are, in these rows."""
    return frozenset(
        name
        for name in frame.columns
        if columns.get(name, Column()).range != "any"
        and are_numbers(Cells(frame[name], _AS_TYPED.cells, space), columns[name])
    )


def _look(cells: pl.Series, is_number: bool) -> Look:
    kind: LookKind = "datetime"
    values = cells
    if cells.dtype == pl.String:
        kind, values = "categorical", to_labels(cells)
    if is_number:
        kind, values = "numeric", to_numbers(cells).series
    return Look(cells.name, kind, cells, values, np.empty(0, dtype=np.int64), "")


def _limits(
    train: pl.DataFrame, section: TableData, beyond: Literal["cap", "impute"]
) -> list[Limit]:
    """The ends that the contract writes for features."""
    never = {*_left_out(section), section.target}
    found = []
    for column in train:
        written = section.columns.get(column.name, Column()).range
        is_feature = column.name not in never and column.dtype.is_numeric()
        if written != "any" and is_feature and column.null_count() < len(column):
            found.append(Limit(column.name, *written, beyond))
    return found
