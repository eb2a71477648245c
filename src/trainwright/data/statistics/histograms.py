"""Histograms of each column in training and held-out rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import final

import numpy as np
import polars as pl

from trainwright.core.files import Json
from trainwright.data.base.cells.parse_cells import to_labels
from trainwright.data.base.storage.row_storage import spread_rows
from trainwright.data.base.table import Part
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
