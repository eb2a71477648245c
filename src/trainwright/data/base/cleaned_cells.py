"""Cleaning of cells, and the cleaned cells of one column, possibly larger than memory."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from functools import cached_property
from typing import Self, final

import numpy as np
import polars as pl

from trainwright.contract.sections.data.table_data import TableData
from trainwright.core.files import Json
from trainwright.data.base.parse_cells import (
    DATES,
    FIRST_DATES,
    LAST_WHOLE,
    ReadColumn,
    Unit,
    formats_of,
    plain_type,
    to_labels,
    to_moments,
    to_numbers,
    without_nan,
)
from trainwright.data.base.row_storage import IN_MEMORY, RowStorage, bounds, release_pages

_MOST_HELD = 65_536
_OFFSET = r"^\s*\d{4}[-/]\d\d?[-/]\d\d?[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?\s*(Z|[+-]\d\d:?\d\d)\s*$"
_SUMMER = timedelta(hours=1)
ANSWERS = (("true", "false"), ("yes", "no"), ("1", "0"), ("y", "n"), ("t", "f"))
BOOLEANS = {
    case(word): side
    for pair in (*ANSWERS, ("1.0", "0.0"))
    for side, word in zip(("yes", "no"), pair, strict=True)
    for case in (str.lower, str.title, str.upper)
}


def unchanged(values: pl.Series) -> pl.Series:
    """The values unchanged."""
    return values


@final
@dataclass(frozen=True, slots=True)
class Cleaning:
    """Cell cleaning before typing: strip blanks, replace spellings, null missing-value spellings,
    strip units. Times are those of the clock in the column's zone in `zones`, in UTC without."""

    missing: tuple[str, ...]
    values: Mapping[str, Mapping[str, str]]
    units: Mapping[str, Unit] = field(default_factory=dict)
    zones: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, section: TableData) -> Cleaning:
        """Cleaning of a contract section."""
        values = {name: dict(column.values) for name, column in section.columns.items()}
        commas = section.reading.numbers
        units = {
            name: Unit(column.unit, commas.get(name, ""))
            for name, column in section.columns.items()
            if column.unit
        }
        return cls(section.missing_values, {name: v for name, v in values.items() if v}, units)

    def with_booleans(self, labels: Mapping[str, Collection[str]]) -> Cleaning:
        """The same, reading any spelling of true and false as the training rows write it: `labels`
        are all labels of these rows by column."""
        values = dict(self.values)
        for name, known in labels.items():
            sides = {BOOLEANS[label]: label for label in known if label in BOOLEANS}
            is_word = len(known) == 2 or all(label.lower() in ("true", "false") for label in known)
            if sides and is_word and len(sides) == len(known) and all(map(str.isalpha, known)):
                spelled = {word: sides[side] for word, side in BOOLEANS.items() if side in sides}
                spelled = {word: label for word, label in spelled.items() if word != label}
                values[name] = {**spelled, **self.values.get(name, {})}
        return replace(self, values=values)

    def cells(self, series: pl.Series) -> pl.Series:
        """A cleaned column: String, a number type, Datetime, or nested values left alone.

        NaN counts as missing. Dates become timestamps without a zone.
        """
        spellings = self.values.get(series.name, {})
        if series.name in self.zones:
            series = read_clock(series, self.zones[series.name])
        series = plain_type(series)
        if spellings and (series.dtype.is_numeric() or series.dtype == DATES):
            series = to_labels(series)
        if series.dtype == pl.String:
            return self._text(series, spellings)
        if series.dtype.is_numeric():
            return self._numbers(series)
        return series

    @property
    def missing_numbers(self) -> list[float]:
        """Numbers that stand for a missing value."""
        words = pl.Series(self.missing, dtype=pl.String)
        numbers = words.cast(pl.Float64, strict=False)
        return numbers.filter(numbers.is_finite()).to_list()

    def frame(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Clean every column of a frame."""
        return pl.DataFrame([self.cells(column) for column in frame.get_columns()])

    def to_json(self) -> Json:
        """What `from_json` reads."""
        units = {name: unit.to_json() for name, unit in self.units.items()}
        return {
            "missing": list(self.missing),
            "values": {name: dict(spellings) for name, spellings in self.values.items()},
            # Omitted if empty, so that existing data versions stay valid.
            **({"units": units} if units else {}),
            **({"zones": dict(self.zones)} if self.zones else {}),
        }

    @classmethod
    def from_json(cls, value: Json) -> Cleaning:
        """The cleaning that `to_json` wrote."""
        units = {name: Unit.from_json(unit) for name, unit in value.get("units", {}).items()}
        return cls(tuple(value["missing"]), value["values"], units, value.get("zones", {}))

    def _text(self, series: pl.Series, spellings: Mapping[str, str]) -> pl.Series:
        series = series.str.strip_chars()
        if spellings:
            series = series.replace(list(spellings), list(spellings.values()))
        missing = list({"", *self.missing})
        series = series.set(series.is_in(missing), None)
        unit = self.units.get(series.name)
        return series if unit is None else unit.without(series)

    def _numbers(self, series: pl.Series) -> pl.Series:
        if series.dtype.is_float():
            series = without_nan(series)
        numbers = series.cast(pl.Float64)
        missing = numbers.is_in(self.missing_numbers)
        if not series.dtype.is_float() and missing.any():
            # Doubles do not tell long numbers apart.
            words = to_labels(pl.Series(self.missing, dtype=pl.String))
            exact = to_labels(series).is_in(words.to_list())
            missing &= exact | (numbers.abs() <= LAST_WHOLE)
        return series.set(missing, None)


def zones_of(frame: pl.DataFrame) -> dict[str, str]:
    """The zone of each column of times, and of text the offsets from UTC that its zone has in
    summer and winter (`UTC+01:00 UTC+02:00`). Columns in UTC, or of several zones, are absent."""
    zones = {}
    for series in frame.get_columns():
        if isinstance(series.dtype, pl.Datetime) and series.dtype.time_zone not in (None, "UTC"):
            zones[series.name] = str(series.dtype.time_zone)
        elif series.dtype == pl.String and series.head(1).str.contains(_OFFSET).all():
            written = series.drop_nulls().str.extract(_OFFSET).fill_null("Z").unique()
            apart = {
                datetime.strptime(offset, "%z").utcoffset() or timedelta() for offset in written
            }
            if any(apart) and max(apart) - min(apart) <= _SUMMER:
                if len(apart) == 1:
                    apart |= {min(apart) - _SUMMER, min(apart) + _SUMMER} - {timedelta()}
                zones[series.name] = " ".join(str(timezone(offset)) for offset in sorted(apart))
    return zones


def read_clock(times: pl.Series, zone: str) -> pl.Series:
    """Times by the clock of a zone as `zones_of` names it. Text with an offset that is none of the
    zone's stays."""
    if ":" in zone:
        is_zoned = isinstance(times.dtype, pl.Datetime) and bool(times.dtype.time_zone)
        texts = times.dt.strftime("%F %T%:z") if is_zoned else times
        if texts.dtype != pl.String:
            return times
        offsets = (re.escape(offset[3:]) or "Z|[+-]00:00" for offset in zone.split())
        pattern = "|".join(offsets).replace(":", ":?")
        clock = texts.str.replace(rf"(:\d\d(?:\.\d+)?)\s*(?:{pattern})\s*$", "${1}")
        has_other = not is_zoned or clock.str.contains(_OFFSET).any()
        return clock if has_other else times.dt.replace_time_zone(None)
    if times.dtype == pl.String and len(times) and times.str.contains(_OFFSET).all():
        times = to_moments(times.str.strip_chars(), "").series.dt.replace_time_zone("UTC")
    return plain_type(times, zone)


@final
class Cells:
    """N cells of a file, cleaned by `clean`: once, and cached until `let_go`, if they fit into
    memory, otherwise on each access to a chunk. Statistics over all cells only need room in
    `space`."""

    def __init__(
        self,
        raw: pl.Series,
        clean: Callable[[pl.Series], pl.Series] = unchanged,
        space: RowStorage = IN_MEMORY,
    ) -> None:
        self._raw, self._clean, self._space = raw, clean, space
        self._held: tuple[pl.Series, ...] = ()
        self.name = raw.name
        self.dtype = clean(raw.head(0)).dtype

    def __len__(self) -> int:
        return len(self._raw)

    def between(self, start: int, stop: int) -> pl.Series:
        """Cells of these rows."""
        if self._held:
            return self._held[0].slice(start, stop - start)
        return self._clean(self._raw.slice(start, stop - start))

    @property
    def in_memory(self) -> bool:
        """May all cells be in memory at once?"""
        return self._space is IN_MEMORY

    def let_go(self) -> None:
        """Free the memory of the cleaned cells and of the mapped pages that they were read from;
        computed statistics are kept."""
        self._held = ()
        release_pages()

    def counted(self) -> Self:
        """Count missing and distinct values, then `let_go`."""
        _ = self.missing, self.distinct
        self.let_go()
        return self

    def _cleaned(self) -> pl.Series:
        if not self._held:
            self._held = (self._clean(self._raw),)
        return self._held[0]

    def whole(self) -> pl.Series:
        """All cells in memory, for error messages."""
        return self._cleaned() if self.in_memory else self.between(0, len(self))

    def slices(self) -> Iterator[pl.Series]:
        """All cells, in chunks."""
        if self.in_memory:
            self._cleaned()
        for start, stop in bounds(len(self)):
            yield self.between(start, stop)

    @property
    def is_nested(self) -> bool:
        """Are the values nested?"""
        return self.dtype.is_nested() or self.dtype in (pl.Binary, pl.Object)

    @cached_property
    def missing(self) -> int:
        """Cells without a value."""
        return sum(one.null_count() for one in self.slices())

    @property
    def present(self) -> int:
        """Cells with a value."""
        return len(self) - self.missing

    def first(self, count: int) -> pl.Series:
        """The first present values."""
        found = self.between(0, 0)
        for start, stop in bounds(len(self)):
            values = self.between(start, stop).drop_nulls()
            found = pl.concat([found, values.head(count - len(found))])
            if len(found) == count:
                break
        return found

    @cached_property
    def distinct(self) -> int:
        """Number of distinct values; 0 if nested."""
        if self.is_nested:
            return 0
        if self.in_memory:
            return self._cleaned().drop_nulls().n_unique()
        found = self.between(0, 0)
        for one in self.slices():
            found = pl.concat([found, one.drop_nulls().unique()]).unique()
            if len(found) > _MOST_HELD:
                return self._distinct_of_many()
        return len(found)

    def labels(self) -> list[str]:
        """The different values of a column of text."""
        return (
            pl.concat([cells.drop_nulls().unique() for cells in self.slices()]).unique().to_list()
        )

    @cached_property
    def numbers(self) -> ReadColumn:
        """All cells in memory, parsed as numbers."""
        return to_numbers(self.whole())

    @property
    def may_repeat_numbers(self) -> bool:
        """May two of the texts be one number? In files it is not counted."""
        if self._space is not IN_MEMORY:
            return True
        return self.distinct > self.numbers.series.drop_nulls().n_unique()

    @cached_property
    def not_numbers(self) -> int:
        """Number of values that do not parse as numbers."""
        if not self.in_memory:
            return sum(len(to_numbers(one).bad) for one in self.slices())
        if count := len(self.numbers.bad):
            # Only a numeric column needs them again.
            del self.numbers
        return count

    @cached_property
    def has_long_numbers(self) -> bool:
        """Are there numbers so large that doubles do not hold every whole one?"""
        lowest, highest = self.extent
        return max(-lowest, highest) > LAST_WHOLE

    @cached_property
    def extent(self) -> tuple[float, float]:
        """The lowest and the highest number, exact; infinite if there is none."""
        lowest, highest = math.inf, -math.inf
        for part in [self.numbers] if self.in_memory else map(to_numbers, self.slices()):
            if len(values := part.series.drop_nulls().to_numpy()):
                lowest = min(lowest, values.min().item())
                highest = max(highest, values.max().item())
        return lowest, highest

    @cached_property
    def date_formats(self) -> tuple[str, ...]:
        """As `values.date_formats`."""
        return formats_of(self.first(FIRST_DATES), self.slices())

    def _distinct_of_many(self) -> int:
        """Distinct count by sorted 64-bit hashes."""
        hashes = self._space.array((self.present,), np.uint64)
        filled = 0
        for one in self.slices():
            words = one.drop_nulls().hash(seed=0).to_numpy()
            hashes[filled : filled + len(words)] = words
            filled += len(words)
        hashes.sort()
        changes = (np.count_nonzero(np.diff(hashes[a : b + 1])) for a, b in bounds(len(hashes)))
        return 1 + int(sum(changes))
