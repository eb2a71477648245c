"""Row samples and folds of the probe."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from trainwright.data.base.cells.parse_cells import to_labels
from trainwright.data.base.storage.row_storage import spread_rows
from trainwright.data.base.table import Integers
from trainwright.data.split.group_bins import fill_bins
from trainwright.data.split.groups import members
from trainwright.data.split.row_keys import random_keys
from trainwright.data.split.time_order import moments, time_blocks
from trainwright.evaluation.experiments.probe import FOLDS, MOST_ROWS

TIME_BLOCKS = 50
"""Time blocks of the cluster bootstrap."""


class Sample(NamedTuple):
    """Row positions of the probe [n], and the resampling unit of each, from 0 [n]."""

    rows: Integers
    units: Integers


def sample_groups(column: pl.Series, seed: int) -> Sample:
    """Whole groups, sampled at random beyond the row limit. Rows without a group are excluded."""
    present = column.is_not_null().arg_true().to_numpy().astype(np.int64)
    member, sizes = members(to_labels(column[present]))
    keys = random_keys(len(sizes), seed, "experiment sample")
    order = np.argsort(keys, kind="stable")
    chosen = np.zeros(len(sizes), dtype=np.bool_)
    chosen[order[np.cumsum(sizes[order]) <= MOST_ROWS]] = True
    kept = chosen[member]
    return Sample(present[kept], _numbered(member[kept]))


def sample_time_blocks(column: pl.Series) -> Sample:
    """50 time blocks; beyond the row limit shorter ones, evenly spaced."""
    rows = column.is_not_null().arg_true().to_numpy().astype(np.int64)
    order = rows[np.argsort(column[rows].to_physical().to_numpy(), kind="stable")]
    if len(order) > MOST_ROWS:
        length = MOST_ROWS // TIME_BLOCKS
        starts = np.linspace(0, len(order) - length, TIME_BLOCKS).astype(np.int64)
        order = order[(starts[:, None] + np.arange(length)).ravel()]
    rows = np.sort(order)
    times = column[rows].alias("time").to_frame()
    return Sample(rows, time_blocks(moments(times, "time"), TIME_BLOCKS))


def sample_evenly(units: Integers) -> Sample:
    """Evenly spaced rows with the units of the contract's split."""
    rows = spread_rows(len(units), MOST_ROWS)
    return Sample(rows, _numbered(units[rows]))


def folds_of_units(units: Integers, seed: int) -> Integers:
    """Fold of each row, keeping units together."""
    sizes = np.bincount(units)
    keys = random_keys(len(sizes), seed, "experiment folds")
    return fill_bins(sizes, [len(units) / FOLDS] * FOLDS, keys)[units]


def folds_in_order(units: Integers) -> Integers:
    """Fold of each row, keeping neighbouring units together."""
    found: Integers = units * FOLDS // (int(units.max(initial=0)) + 1)
    return found


def shuffled(folds: Integers, seed: int) -> Integers:
    """Folds of the same sizes, drawn at random."""
    keys = random_keys(len(folds), seed, "experiment random")
    return folds[np.argsort(keys, kind="stable")]


def _numbered(units: Integers) -> Integers:
    return np.unique(units, return_inverse=True)[1].astype(np.int64)
