"""Column profiles, the distance between two of them, and histograms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Literal, final

import numpy as np
import polars as pl

from trainwright.core.files import Json
from trainwright.data.base.inputs import Floats, Part
from trainwright.data.base.parse_cells import to_labels
from trainwright.data.base.row_storage import spread_rows
from trainwright.data.types import Prepared

BINS = 24
MOST_COLUMNS = 60
MOST_VALUES = 8
MOST_ROWS = 200_000
"""More rows are subsampled evenly."""

_ENDS = (0.005, 0.995)


@final
@dataclass(frozen=True, slots=True)
class Distribution:
    """Histogram of one column by part: counts of each of `labels`, or without labels of BINS
    equal-width bins from `low` to `high`, with outliers in the first and last bin."""

    name: str
    train: tuple[int, ...]
    held_out: tuple[int, ...]
    labels: tuple[str, ...] = ()
    low: float = 0.0
    high: float = 0.0

    def to_json(self) -> Json:
        """The fields by name."""
        return asdict(self)

    @staticmethod
    def from_json(json: Json) -> Distribution:
        """The inverse of `to_json`."""
        return Distribution(
            name=str(json["name"]),
            train=tuple(map(int, json["train"])),
            held_out=tuple(map(int, json["held_out"])),
            labels=tuple(map(str, json["labels"])),
            low=float(json["low"]),
            high=float(json["high"]),
        )


def distributions_of(prepared: Prepared) -> tuple[Distribution, ...]:
    """Histograms of the target and each feature of a table, of image labels, or of document
    lengths."""
    return tuple(_found(prepared))


def _found(prepared: Prepared) -> Iterator[Distribution]:
    held_out = (prepared.validation, prepared.test)
    lengths = _document_lengths(prepared.train), _document_lengths(*held_out)
    if len(lengths[0]) > 1:
        yield _of_numbers("tokens of a document", *map(pl.Series, lengths))
    if len(lengths[0]):
        return
    names = [prepared.target.column, *prepared.features.plotted_columns]
    for name in names[:MOST_COLUMNS]:
        if not all(name in part.frame.columns for part in (prepared.train, *held_out)):
            continue
        train = _values(prepared.train, name)
        others = pl.concat([_values(part, name) for part in held_out])
        if train.dtype.is_temporal():
            # The report page has only linear axes.
            train, others = _labels_of_time(train), _labels_of_time(others)
        if train.dtype.is_numeric() and train.n_unique() > MOST_VALUES:
            yield _of_numbers(name, train, others)
        else:
            yield _of_labels(name, train, others)


def _values(part: Part, name: str) -> pl.Series:
    column = part.frame[name]
    return column.gather(spread_rows(len(column), MOST_ROWS))


def _labels_of_time(times: pl.Series) -> pl.Series:
    """Year of each timestamp."""
    return times.dt.year().cast(pl.String)


def _document_lengths(*parts: Part) -> np.ndarray:
    """Length in tokens of each document with a segment in the parts."""
    return np.concatenate([part.inputs.document_sizes() for part in parts])


def _of_numbers(name: str, train: pl.Series, held_out: pl.Series) -> Distribution:
    known, others = (one.drop_nulls().cast(pl.Float64).to_numpy() for one in (train, held_out))
    known, others = known[np.isfinite(known)], others[np.isfinite(others)]
    low, high = np.quantile(known, _ENDS).tolist() if len(known) else (0.0, 0.0)
    if not low < high:
        low, high = low - 0.5, low + 0.5
    edges = np.linspace(low, high, BINS + 1)
    counts = (np.histogram(one.clip(low, high), edges)[0].tolist() for one in (known, others))
    of_train, of_others = counts
    return Distribution(name, tuple(of_train), tuple(of_others), (), low, high)


def _of_labels(name: str, train: pl.Series, held_out: pl.Series) -> Distribution:
    """The most frequent training values, numbers ascending, with the others pooled."""
    counted = train.drop_nulls().rename("value").value_counts(sort=True)
    # Equal counts leave the order undefined.
    ordered = counted.sort(["count", "value"], descending=[True, False])["value"]
    values = ordered.head(MOST_VALUES)
    values = values.sort() if train.dtype.is_numeric() else values
    parts = (train, held_out)
    found = [[int((part == value).sum()) for value in values.to_list()] for part in parts]
    labels = to_labels(values).to_list()
    rest = [len(one) - one.null_count() - sum(n) for one, n in zip(parts, found, strict=True)]
    if any(rest):
        labels.append(f"{max(0, len(ordered) - MOST_VALUES):,} others")
        found = [[*one, more] for one, more in zip(found, rest, strict=True)]
    return Distribution(name, tuple(found[0]), tuple(found[1]), tuple(labels))


def distributions_to_json(found: Sequence[Distribution]) -> Json:
    """Each as JSON."""
    return [one.to_json() for one in found]


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
    elif series.dtype.is_float():
        kind = "numbers"
    elif series.dtype.is_numeric():
        # Numbers of which doubles hold less than half are names.
        doubles = series.cast(pl.Float64).n_unique()
        kind = "numbers" if 2 * doubles >= series.n_unique() else "words"
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
