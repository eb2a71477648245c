"""Subsampling of rows for checks, scoring and fitting."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

import numpy as np

from trainwright.data.base.inputs import Integers, Part, PartName
from trainwright.data.base.row_storage import IN_MEMORY, spread_rows, taken
from trainwright.data.columns.target import Target
from trainwright.data.read_table import RawTable
from trainwright.data.types import Prepared

_SAMPLE = 0x73616D70


def thinned(raw: RawTable, prepared: Prepared, most: int) -> tuple[RawTable, Prepared]:
    """About `most` evenly spaced rows of each file in memory, and the same rows of each part.
    Positions, versions and fitted features are those of all rows."""
    total = sum(frame.height for frame in raw.frames.values())
    chosen = {
        name: spread_rows(frame.height, max(1, most * frame.height // total))
        for name, frame in raw.frames.items()
    }
    places = {name: raw.positions[name][rows] for name, rows in chosen.items()}
    frames = {
        name: IN_MEMORY.frame(taken(frame, chosen[name])) for name, frame in raw.frames.items()
    }
    return (
        replace(raw, frames=frames, positions=places, space=IN_MEMORY),
        replace(
            prepared,
            train=_part(prepared.train, places),
            validation=_part(prepared.validation, places),
            test=_part(prepared.test, places),
        ),
    )


def sampled(part: Part, rows: Literal["all"] | int, seed: int) -> Part:
    """A random sample of rows of a part without replacement, in order; all if it has no more.
    Deterministic in the seed."""
    if rows == "all" or rows >= len(part):
        return part
    return _taken(part, drawn_rows(len(part), rows, seed))


def sampled_judged(part: Part, target: Target, rows: Literal["all"] | int, seed: int) -> Part:
    """`sampled`, for rows whose order is judged whole queries: as many as have at most so many
    rows, at least one."""
    codes = target.queries(part.frame)
    if codes is None or rows == "all" or rows >= len(part):
        return sampled(part, rows, seed)
    names, sizes = np.unique(codes, return_counts=True)
    drawn = np.random.default_rng([seed, _SAMPLE]).permutation(len(names))
    count = max(1, int(np.searchsorted(sizes[drawn].cumsum(), rows, side="right")))
    return _taken(part, np.flatnonzero(np.isin(codes, names[drawn[:count]])))


def drawn_rows(count: int, rows: int, seed: int) -> Integers:
    """Sample positions of `rows` of `count` rows, ascending, int64 [rows]."""
    generator = np.random.default_rng([seed, _SAMPLE])
    return np.sort(generator.choice(count, size=rows, replace=False))


def _part(part: Part, places: Mapping[PartName, Integers]) -> Part:
    """Rows of a part at these positions of its file."""
    wanted = places.get(part.name, places["train"])
    at = np.minimum(np.searchsorted(part.rows, wanted), len(part) - 1)
    return _taken(part, at[part.rows[at] == wanted])


def _taken(part: Part, rows: Integers) -> Part:
    """Rows at these (ascending) positions of the part."""
    return Part(
        name=part.name,
        frame=IN_MEMORY.frame(taken(part.frame, rows)),
        inputs=part.inputs.take(rows),
        target=part.target[rows],
        rows=part.rows[rows],
        units=part.units[rows],
        weights=part.weights[rows] if len(part.weights) else part.weights,
        soft_targets=part.soft_targets[rows] if len(part.soft_targets) else part.soft_targets,
        teacher_states=part.teacher_states[rows]
        if len(part.teacher_states)
        else part.teacher_states,
    )
