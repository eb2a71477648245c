"""Compact column profiles and the distance between two of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Literal, final

import numpy as np
import polars as pl

from trainwright.core.files import Json
from trainwright.data.base.cells.parse_cells import to_labels
from trainwright.data.base.table import Floats

_QUANTILES = 101
_MOST_VALUES = 200
_BARS = "▁▂▃▄▅▆▇█"
_WIDTH = 10

OTHERS = "(others)"


@final
@dataclass(frozen=True, slots=True)
class Profile:
    """Profile of one column: `quantiles` are the 0th to 100th percentile of numbers (dates in
    seconds since 1970), `values` the counts of the most frequent words, the rest under `OTHERS`."""

    name: str
    kind: Literal["numbers", "dates", "words"]
    rows: int
    missing: int
    distinct: int
    mean: float = 0.0
    quantiles: tuple[float, ...] = ()
    values: Mapping[str, int] = field(default_factory=dict)

    @property
    def missing_share(self) -> float:
        """Share of missing values."""
        return self.missing / self.rows if self.rows else 0.0

    def to_json(self) -> Json:
        """The fields by name."""
        return {**asdict(self), "quantiles": list(self.quantiles)}

    @classmethod
    def from_json(cls, value: Json) -> Profile:
        """The profile that `to_json` wrote."""
        return cls(**{**value, "quantiles": tuple(value["quantiles"])})


def profile_column(series: pl.Series) -> Profile:
    """Count and measure a typed column."""
    rows, missing = len(series), series.null_count()
    kind: Literal["numbers", "dates", "words"] = "words"
    if series.dtype == pl.Datetime("us"):
        kind, series = "dates", series.cast(pl.Int64) / 1e6
    elif series.dtype.is_numeric():
        kind = "numbers"
    if kind == "words":
        # Nested values have no labels: present, but not comparable.
        counts = to_labels(series).drop_nulls().alias("v").value_counts(sort=True)
        pairs = sorted(
            zip(counts["v"].to_list(), counts["count"].to_list(), strict=True), key=_rank
        )
        values = dict(pairs[:_MOST_VALUES])
        if rest := sum(count for _, count in pairs[_MOST_VALUES:]):
            values[OTHERS] = rest
        return Profile(series.name, kind, rows, missing, counts.height, values=values)
    numbers = series.cast(pl.Float64).drop_nulls().to_numpy()
    numbers = numbers[np.isfinite(numbers)]
    distinct = len(np.unique(numbers))
    if not len(numbers):
        return Profile(series.name, kind, rows, missing, distinct)
    steps = np.quantile(numbers, np.linspace(0, 1, _QUANTILES))
    return Profile(
        series.name, kind, rows, missing, distinct, float(numbers.mean()), tuple(steps.tolist())
    )


def distance(before: Profile, after: Profile) -> float:
    """Distance of two distributions, 0 to 1.

    Numbers: Kolmogorov-Smirnov distance, at the resolution of the percentiles (0.01). Words: total
    variation distance. Different kinds, or only one without values: 1.
    """
    if before.kind != after.kind:
        return 1.0
    if before.kind == "words":
        shares = [_shares(one.values) for one in (before, after)]
        if not (shares[0] and shares[1]):
            return float(bool(shares[0]) != bool(shares[1]))
        names = {*shares[0], *shares[1]}
        return sum(abs(shares[0].get(name, 0.0) - shares[1].get(name, 0.0)) for name in names) / 2
    if not (before.quantiles and after.quantiles):
        return float(bool(before.quantiles) != bool(after.quantiles))
    steps = [np.array(one.quantiles) for one in (before, after)]
    points = np.concatenate(steps)
    below = [np.searchsorted(one, points, side="right") / _QUANTILES for one in steps]
    return float(np.abs(below[0] - below[1]).max())


def pictures(before: Profile, after: Profile) -> tuple[str, str]:
    """Two sparklines on common bins: for numbers ten bins between the 1st and 99th percentile of
    both, for words the ten most frequent."""
    if before.kind != after.kind:
        return "", ""
    if before.kind == "words":
        shares = [_shares(one.values) for one in (before, after)]
        together = {
            name: shares[0].get(name, 0.0) + shares[1].get(name, 0.0)
            for one in shares
            for name in one
        }
        names = sorted(together, key=lambda name: -together[name])[:_WIDTH]
        heights = [np.array([one.get(name, 0.0) for name in names]) for one in shares]
    elif before.quantiles and after.quantiles:
        low = min(before.quantiles[1], after.quantiles[1])
        high = max(before.quantiles[-2], after.quantiles[-2])
        edges = np.linspace(low, high, _WIDTH + 1)
        heights = [_in_bins(np.array(one.quantiles), edges) for one in (before, after)]
    else:
        return "", ""
    most = max((float(one.max()) for one in heights if len(one)), default=0.0)
    return _bars(heights[0], most), _bars(heights[1], most)


def _in_bins(steps: Floats, edges: Floats) -> Floats:
    """Share of the values in each bin, from the percentiles."""
    grid = np.linspace(0, 1, len(steps))
    # Equal percentiles are a repeated value: the last one is the share up to it.
    different, last = np.unique(steps[::-1], return_index=True)
    below = np.interp(edges, different, grid[::-1][last], left=0.0, right=1.0)
    return np.diff(below)


def _bars(heights: Floats, most: float) -> str:
    if not most:
        return ""
    levels = np.ceil(heights / most * len(_BARS)).astype(int) - 1
    return "".join(
        _BARS[max(0, int(level))] if height > 0 else " "
        for level, height in zip(levels, heights, strict=True)
    )


def _shares(values: Mapping[str, int]) -> dict[str, float]:
    total = sum(values.values())
    return {name: count / total for name, count in values.items()} if total else {}


def _rank(pair: tuple[str, int]) -> tuple[int, str]:
    return -pair[1], pair[0]
