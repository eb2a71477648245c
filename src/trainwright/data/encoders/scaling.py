"""Imputation and scaling of numeric columns.

Medians, quantiles and, up to one slice of rows, moments are those of scikit-learn's SimpleImputer,
RobustScaler, QuantileTransformer and StandardScaler bit for bit; tests hold them to it. They are
computed by numpy, because importing scikit-learn takes nearly as long as importing torch, and
because rows may be more than memory holds: they come a slice at a time, a column for its median.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import final

import numpy as np
import numpy.typing as npt

from trainwright.contract.sections.data.table_data import Imputing, Scaling
from trainwright.core.files import Json
from trainwright.data.base.inputs import Floats, Integers
from trainwright.data.base.row_storage import IN_MEMORY, RowStorage, bounds

_MOST_QUANTILES = 1000
_QUANTILE_ROWS = 200_000
_IMPUTED = ("median", "mean")
_EPSILON = float(np.finfo(np.float64).eps)
_SAMPLE = 10_000
_MERGED = 0.01
"""Share of different numbers that single precision may make equal."""
_BOUND = 1e-7
"""Shares of 0 and 1 are held so far from them, as their places would be infinite."""


@final
@dataclass(frozen=True, slots=True)
class NumberState:
    """Fitted imputation and scaling of F numeric columns.

    `scale` and `impute` [F] say what is done to each. `fill` [F] stands for missing numbers (0 in a
    column without imputation). `indicated` are the columns with missing training values, each of
    which gets a 0/1 column. `center` and `spread` [F] (0 and 1 where they are not used) belong to
    `standard`, `robust` and, after the logarithm, `log`, and the center to columns of `none` that
    single precision holds only from there; `quantiles` [Q, columns of that kind] to `quantile`.
    """

    scale: tuple[Scaling, ...]
    impute: tuple[Imputing, ...]
    fill: Floats
    indicated: tuple[int, ...]
    center: Floats
    spread: Floats
    quantiles: Floats

    def transform(self, values: Floats) -> npt.NDArray[np.float32]:
        """[N, F] with NaN for missing -> [N, F + indicators] as 32-bit floats."""
        missing = np.isnan(values)
        filled = _filled(values, self.impute, self.fill)
        scaled = self._scaled(filled)
        indicators = missing[:, list(self.indicated)].astype(np.float32)
        return np.concatenate([scaled.astype(np.float32), indicators], axis=1)

    def _scaled(self, values: Floats) -> Floats:
        if not values.size:
            return values
        values = _logarithms(values, self.scale)
        moved = np.flatnonzero((self.center != 0) | (self.spread != 1))
        if len(moved):
            values = values.copy()
            values[:, moved] = (values[:, moved] - self.center[moved]) / self.spread[moved]
        if len(spread := _where(self.scale, "quantile")):
            values = values.copy()
            values[:, spread] = _to_normal(values[:, spread], self.quantiles)
        return values

    def to_json(self) -> Json:
        """What `from_json` reads; every float survives to the last bit."""
        return {
            "scale": list(self.scale),
            "impute": list(self.impute),
            "fill": self.fill.tolist(),
            "indicated": list(self.indicated),
            "center": self.center.tolist(),
            "spread": self.spread.tolist(),
            "quantiles": self.quantiles.tolist(),
        }

    @classmethod
    def from_json(cls, value: Json) -> NumberState:
        """The state that `to_json` wrote.

        Raises:
            ValueError: its parts are of other numbers of columns.
        """
        found = cls(
            scale=tuple(value["scale"]),
            impute=tuple(value["impute"]),
            fill=np.array(value["fill"], dtype=np.float64),
            indicated=tuple(value["indicated"]),
            center=np.array(value["center"], dtype=np.float64),
            spread=np.array(value["spread"], dtype=np.float64),
            quantiles=np.array(value["quantiles"], dtype=np.float64),
        )
        parts = (found.impute, found.fill, found.center, found.spread)
        if any(np.shape(part) != (len(found.scale),) for part in parts):
            raise ValueError("the parts of the numbers are of other lengths")
        return found


@final
@dataclass(frozen=True, slots=True)
class NumberRows:
    """`height` rows of `width` numeric columns, wherever they lie: `between(start, stop, columns)`
    gives some as float64 [stop - start, columns], NaN for missing."""

    height: int
    width: int
    between: Callable[[int, int, Integers], Floats]

    @classmethod
    def of(cls, values: Floats) -> NumberRows:
        """The rows of an array [N, F]."""
        height, width = values.shape
        return cls(height, width, lambda start, stop, some: _columns(values[start:stop], some))

    def slices(self, chosen: Integers) -> Iterator[Floats]:
        """These columns, a slice of the rows at a time."""
        for start, stop in bounds(self.height):
            yield self.between(start, stop, chosen)

    def take(self, rows: Integers, chosen: Integers) -> Floats:
        """These columns of the given rows, which ascend."""
        found = np.empty((len(rows), len(chosen)))
        for start, stop in bounds(self.height):
            low, high = np.searchsorted(rows, (start, stop))
            if high > low:
                found[low:high] = self.between(start, stop, chosen)[rows[low:high] - start]
        return found


def fit_numbers(
    rows: NumberRows,
    scale: Sequence[Scaling],
    impute: Sequence[Imputing],
    space: RowStorage = IN_MEMORY,
) -> NumberState:
    """Fit on the training rows; `scale` and `impute` are of each column. A column without any
    training value is filled with 0. `space` has room for one column.

    A column without imputation in which no training row lacks a value is filled with its median, of
    10,000 rows or fewer, in new rows: trees never split on a missing number there, and each library
    takes one for another number.

    A column without scaling that single precision does not hold is centered, or, where that is not
    enough, scaled by its quantiles: trees split both alike.
    """
    scale, impute = list(scale), list(impute)
    every = np.arange(rows.width)
    fill, center, spread = np.zeros(rows.width), np.zeros(rows.width), np.ones(rows.width)
    present = sum((~np.isnan(one)).sum(axis=0) for one in rows.slices(every))
    for at in _where(impute, "median"):
        fill[at] = _median(_present(rows, at, space))
    if len(chosen := _where(impute, "mean")):
        fill[chosen] = _mean(rows, chosen)
    complete = [at for at in _where(impute, "none") if present[at] == rows.height > 0]
    sampled = np.union1d(_where(scale, "none"), np.array(complete, np.int64))
    few = rows.take(np.arange(0, rows.height, 1 + rows.height // _SAMPLE), sampled)
    sample = dict(zip(sampled, few.T, strict=True))
    for at in complete:
        impute[at], fill[at] = "median", float(np.median(sample[at]))
    imputed = _where(impute, *_IMPUTED)
    indicated = tuple(int(one) for one in imputed if present[one] < rows.height)

    def between(start: int, stop: int, chosen: Integers) -> Floats:
        some = [scale[at] for at in chosen], [impute[at] for at in chosen]
        values = rows.between(start, stop, chosen)
        return _logarithms(_filled(values, some[1], fill[chosen]), some[0])

    filled = NumberRows(rows.height, rows.width, between)
    if len(chosen := _where(scale, "standard", "log")):
        center[chosen], spread[chosen] = _standard(filled, chosen)
    for at in _where(scale, "none"):
        center[at] = far_center(sample[at])
        if center[at] and merges_in_single(sample[at] - center[at]):
            scale[at], center[at] = "quantile", 0.0
    for at in _where(scale, "robust"):
        center[at], spread[at] = _robust(_present(filled, at, space))
    chosen = _where(scale, "quantile")
    quantiles = _quantiles(filled, chosen, space) if len(chosen) else np.empty(0)
    return NumberState(tuple(scale), tuple(impute), fill, indicated, center, spread, quantiles)


def merges_in_single(values: Floats) -> bool:
    """Does single precision make more than 1% of the different numbers equal? NaN is none."""
    different = np.unique(values[~np.isnan(values)])
    held = np.unique(different.astype(np.float32))
    return len(different) - len(held) > _MERGED * len(different)


def far_center(values: Floats) -> float:
    """A middle value to subtract in double precision, where single precision merges the numbers;
    otherwise 0. Of many values it takes evenly spaced ones."""
    values = values[:: 1 + len(values) // _SAMPLE]
    if not merges_in_single(values):
        return 0.0
    present = np.sort(values[~np.isnan(values)])
    return float(present[len(present) // 2])


def _where(kinds: Sequence[str], *wanted: str) -> Integers:
    """The columns of these kinds."""
    return np.array([at for at, kind in enumerate(kinds) if kind in wanted], dtype=np.int64)


def _columns(values: Floats, chosen: Integers) -> Floats:
    """Some of the columns. All of them as they lie: sums go through memory in its order, and a
    column must not depend on what is written of others."""
    return values if len(chosen) == values.shape[1] else np.ascontiguousarray(values[:, chosen])


def _filled(values: Floats, impute: Sequence[str], fill: Floats) -> Floats:
    if "none" not in impute:
        return np.where(np.isnan(values), fill, values)
    imputed = np.isin(np.arange(values.shape[1]), _where(impute, *_IMPUTED))
    return np.where(np.isnan(values) & imputed, fill, values)


def _logarithms(values: Floats, scale: Sequence[str]) -> Floats:
    """sign(x) ln(1 + |x|) in the columns of that scale: about x near 0, about ln |x| far off."""
    chosen = _where(scale, "log")
    if not len(chosen):
        return values
    values = values.copy()
    values[:, chosen] = np.sign(values[:, chosen]) * np.log1p(np.abs(values[:, chosen]))
    return values


def _present(rows: NumberRows, column: int, space: RowStorage) -> Floats:
    """The values of a column that are there, float64, for the caller to change."""
    chosen = np.array([column])
    values: Floats = space.array((rows.height,), np.float64)
    filled = 0
    for one in rows.slices(chosen):
        here = one[:, 0][~np.isnan(one[:, 0])]
        values[filled : filled + len(here)] = here
        filled += len(here)
    return values[:filled]


def _median(values: Floats) -> float:
    """The middle of the values, which are put in another order; 0 of none."""
    if not len(values):
        return 0.0
    high = len(values) // 2
    low = high if len(values) % 2 else high - 1
    values.partition([low, high])
    return float((values[low] + values[high]) / 2)


def _mean(rows: NumberRows, chosen: Integers) -> Floats:
    total, count = np.zeros(len(chosen)), np.zeros(len(chosen))
    for values in rows.slices(chosen):
        missing = np.isnan(values)
        total += np.where(missing, 0.0, values).sum(axis=0)
        count += (~missing).sum(axis=0)
    return np.where(count > 0, total / np.maximum(count, 1), 0.0)


def _standard(rows: NumberRows, chosen: Integers) -> tuple[Floats, Floats]:
    """Mean and standard deviation, 1 for it where all values are equal: those of scikit-learn's
    StandardScaler for one slice of rows; several are put together as in Chan, Golub and LeVeque
    1983 (The American Statistician 37), equations 2.1."""
    count, mean, squares = (np.zeros(len(chosen)) for _ in range(3))
    for values in rows.slices(chosen):
        here, of_these, apart = _slice_moments(values)
        both = np.maximum(count + here, 1)
        step = np.where(count > 0, of_these - mean, 0.0)
        mean = np.where(count > 0, mean + step * here / both, of_these)
        squares = squares + apart + step**2 * count * here / both
        count = count + here
    variance = squares / np.maximum(count, 1)
    least = count * _EPSILON * variance + (count * mean * _EPSILON) ** 2
    return mean, np.where(variance <= least, 1.0, np.sqrt(variance))


def _slice_moments(values: Floats) -> tuple[Floats, Floats, Floats]:
    """Number, mean and summed squared distance from the mean of the values of each column, with
    the correction of the two-pass algorithm."""
    missing = np.isnan(values)
    total = np.nansum if missing.any() else np.sum
    count = len(values) - missing.sum(axis=0).astype(np.float64)
    mean = total(values, axis=0) / np.maximum(count, 1)
    apart = values - mean
    correction = total(apart, axis=0)
    squares = total(apart**2, axis=0) - correction**2 / np.maximum(count, 1)
    return count, mean, squares


def _robust(values: Floats) -> tuple[float, float]:
    """Median, and third less first quartile; 1 where they are equal."""
    if not len(values):
        return 0.0, 1.0
    center = _median(values)
    first, third = np.percentile(values, (25.0, 75.0), overwrite_input=True)
    apart = float(third - first)
    return center, 1.0 if apart < 10 * _EPSILON else apart


def _quantiles(rows: NumberRows, chosen: Integers, space: RowStorage) -> Floats:
    """Of each column at even shares from 0 to 1; of many rows from a part that is drawn."""
    quantiles = np.zeros((min(_MOST_QUANTILES, rows.height), len(chosen)))
    drawn = np.arange(min(rows.height, _QUANTILE_ROWS))
    if rows.height > _QUANTILE_ROWS:
        shuffled: Integers = space.array((rows.height,), np.int64)
        for start, stop in bounds(rows.height):
            shuffled[start:stop] = np.arange(start, stop)
        # The generator of scikit-learn, so that the same rows are drawn.
        np.random.RandomState(0).shuffle(shuffled)
        drawn = np.sort(shuffled[:_QUANTILE_ROWS])
    values = rows.take(drawn, chosen)
    present = ~np.isnan(values).all(axis=0)
    if present.any():
        shares = np.linspace(0, 1, len(quantiles), endpoint=True) * 100
        quantiles[:, present] = np.nanpercentile(values[:, present], shares, axis=0)
    return quantiles


def _to_normal(values: Floats, quantiles: Floats) -> Floats:
    """Each number at the place of the normal distribution at which it stands among the quantiles:
    between two by interpolation, in the middle of equal ones."""
    shares = np.linspace(0, 1, len(quantiles), endpoint=True)
    out = np.array(values, dtype=np.float64)
    bound = _BOUND - np.spacing(1)
    for column, known in zip(out.T, quantiles.T, strict=True):
        with np.errstate(invalid="ignore"):  # comparisons with NaN
            below, above = column - _BOUND < known[0], column + _BOUND > known[-1]
        seen = ~np.isnan(column)
        up = np.interp(column[seen], known, shares)
        down = np.interp(-column[seen], -known[::-1], -shares[::-1])
        column[seen] = 0.5 * (up - down)
        column[above] = 1
        column[below] = 0
        column[:] = normal_places(np.clip(column, bound, 1 - bound))
    return out


def normal_places(shares: Floats) -> Floats:
    """Quantiles of the standard normal distribution [N], of shares between 0 and 1; NaN stays NaN.
    To 32 bits they are those of scipy, whose import takes 0.1 s."""
    places = map(NormalDist().inv_cdf, shares.data)
    return np.fromiter(places, np.float64, len(shares))
