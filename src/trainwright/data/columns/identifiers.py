"""Integer identifiers, as opposed to quantities."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from trainwright.data.base.cleaned_cells import Cells
from trainwright.data.base.parse_cells import LAST_WHOLE, to_labels, to_numbers, to_whole

MOSTLY_DIFFERENT = 0.98
"""The share of different values from which a column whose name says id names the rows, and what
repeats is a mistake or two rows of one object."""

_DENSE = 0.2
_PAIRS = 20
_YEARS = (1500, 2200)
_OWNERS = frozenset(
    {"user", "customer", "client", "account", "member", "patient", "person", "passenger"}
    | {"employee", "student", "subject", "household"}
)
_IDENTIFIERS = frozenset({"id", "uid", "rowid", *(f"{owner}id" for owner in _OWNERS)})
_ROW_NUMBERS = frozenset(
    {"row", "rowname", "rownames", "unnamed", "index", "idx", "obs", "observation", "case"}
    | {"record", "number", "num", "nr", "no", "0"}
)
CLOCKS = frozenset(
    {"time", "timestamp", "ts", "date", "year", "yr", "quarter", "month", "week", "day", "hour"}
    | {"minute", "second"}
)
"""Words that name a time."""

_AMOUNTS = CLOCKS | frozenset(
    {"days", "hours", "minutes", "seconds", "ms", "elapsed", "duration", "age", "rank"}
    | {"ranking", "position", "price", "cost", "amount", "cents", "total", "count", "size"}
    | {"length", "width", "height", "weight", "distance", "score", "temperature", "population"}
)


class _Numbers(NamedTuple):
    """Integers in row order."""

    low: float
    high: float
    in_order: bool
    by_one: bool


def identifying(cells: Cells, words: frozenset[str], origin: int = 0) -> str:
    """Why a unique numeric column is an identifier; empty if it may be informative. `words` are the
    tokens of its name; from `origin` doubles tell its numbers apart.

    A counter increases by one from row to row, or rises and is named as one. In any order, unique
    numbers are assigned rather than measured if they fill a fifth of their range and independent
    draws would give at least 20 equal pairs: n (n - 1) / 2 pairs, each equal with probability at
    least 1 / (high - low + 1). Other monotonic numbers may be times or cumulative sums and are
    exempt. Years, and names of amounts and times, stay features.
    """
    numbers = _read(cells, origin)
    if numbers is None:
        return ""
    low, high, count = numbers.low, numbers.high, len(cells)
    counts = numbers.by_one and low in (0, 1) and not words & CLOCKS
    # As R and pandas call the row number, or people do.
    named = cells.name == "X" or (words and words <= _ROW_NUMBERS)
    if counts or (named and numbers.in_order):
        return "identifier: it numbers the rows"
    if says_id(words):
        return "identifier: unique integers, and its name says id"
    if low >= 0 and words and words <= _OWNERS:
        return "identifier: unique integers, and its name says whose"
    honest = bool(words & _AMOUNTS) or low < 0 or (_YEARS[0] <= low and high <= _YEARS[1])
    if honest:
        return ""
    if numbers.by_one:
        return f"identifier: it numbers the rows from {low:.0f} on"
    spread = high - low + 1
    equal = count * (count - 1) / 2 / spread
    if numbers.in_order or count < _DENSE * spread or equal < _PAIRS:
        return ""
    return (
        f"identifier: unique integers, which are {count / spread:.0%} of those "
        f"from {low:.0f} to {high:.0f}: measurements repeat"
    )


def nearly_identifying(cells: Cells, words: frozenset[str], origin: int = 0) -> str:
    """Why a column of numbers, of which a few repeat, names the rows nevertheless; empty if it may
    as well say something. `words` are those of its name."""
    repeats = cells.distinct < MOSTLY_DIFFERENT * len(cells)
    if not says_id(words) or repeats or _read(cells, origin) is None:
        return ""
    share = f"{cells.distinct:,} different integers in {len(cells):,} rows"
    return f"identifier: {share}, and its name says id"


def find_origin(cells: Cells) -> int | None:
    """A whole number from which doubles tell the long whole numbers of a column apart: 0 where they
    do anyway, None where they do from none."""
    long = [one.filter(to_numbers(one).series.abs() > LAST_WHOLE) for one in cells.slices()]
    labels = to_labels(pl.concat(long)).unique()
    # 1e17 and 1.0e17 are one number.
    labels = labels.filter(labels.str.contains(r"^[+-]?[1-9]\d*$"))
    if labels.cast(pl.Float64).n_unique() == len(labels):
        return 0
    whole = to_whole(labels)
    if len(whole.bad):
        return None
    origin = int(whole.series.sort()[len(labels) // 2])
    return origin if to_numbers(labels, origin).series.n_unique() == len(labels) else None


def says_id(words: frozenset[str]) -> bool:
    """Whether the words of a column's name say that it names the rows."""
    return bool(words & _IDENTIFIERS)


def _read(cells: Cells, origin: int) -> _Numbers | None:
    """Numbers of a column without missing values; None if some are not integers."""
    low, high = np.inf, -np.inf
    rises = falls = by_one = True
    before = np.empty(0)
    for one in cells.slices():
        numbers = to_numbers(one, origin).series.to_numpy()
        if not (numbers == np.floor(numbers)).all():
            return None
        steps = np.diff(np.concatenate([before, numbers]))
        rises &= bool((steps > 0).all())
        falls &= bool((steps < 0).all())
        by_one &= bool((steps == 1).all())
        low = min(low, float(numbers.min(initial=low)))
        high = max(high, float(numbers.max(initial=high)))
        before = numbers[-1:]
    return _Numbers(low + origin, high + origin, rises or falls, by_one)
