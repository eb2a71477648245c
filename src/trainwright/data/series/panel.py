"""Series on a common line of equally spaced time steps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, final

import numpy as np
import numpy.typing as npt
import polars as pl

from trainwright.core.files import Json
from trainwright.data.base.inputs import Floats, Integers
from trainwright.data.base.parse_cells import plain_type

Roll = Literal["", "modifiedfollowing", "modifiedpreceding"]
Unit = Literal["microseconds", "months", "business_days", "numbers"]

_SECOND = 1_000_000
_DAY = 86_400 * _SECOND
_NAMED = (
    (7 * 86_400, "week"),
    (86_400, "day"),
    (3600, "hour"),
    (60, "minute"),
    (1, "second"),
)
_LEAST_MONTH_DAYS, _SLACK_DAYS, _LAST = 24, 7, 31
_FEWEST_DAYS = 10
_EPOCH = np.datetime64("1970-01-01", "D")
NO_ROW = -1


@final
@dataclass(frozen=True, slots=True)
class TimeSpacing:
    """Times `start + number * size` in a unit. Of months `start` is the first moment (microseconds
    since 1970), and the times are on a `day` of their months, 31 being the last, or on the business
    day that `roll` of numpy's `busday_offset` finds. A time up to seven days from that, as holidays
    move it, is its month's too. Times are in UTC, and their hours and days those of the `zone`."""

    unit: Unit
    size: float
    start: float
    day: int = 1
    roll: Roll = ""
    zone: str = "UTC"

    @property
    def name(self) -> str:
        """`hour`, `3 months`: the distance of two times."""
        if self.unit == "microseconds":
            seconds = self.size / _SECOND
            for length, word in _NAMED:
                if seconds % length == 0:
                    return _counted(seconds / length, word)
            return _counted(seconds, "second")
        words = {"months": "month", "business_days": "business day", "numbers": "step"}
        return _counted(self.size, words[self.unit]) if self.unit != "numbers" else "step"

    def numbers(self, times: pl.Series) -> tuple[Integers, npt.NDArray[np.bool_]]:
        """The number of each time, int64 [N], and whether it is one of the spacing's times."""
        found, apart = self.nearest(times)
        slack = _SLACK_DAYS * _DAY if self.unit == "months" else 1e-6 * max(1.0, abs(self.size))
        return found, np.asarray(apart <= slack)

    def nearest(self, times: pl.Series) -> tuple[Integers, Floats]:
        """The number of the spacing's time in the period of each, and how far it is, [N] each."""
        given = _physical(times)
        if self.unit == "months":
            months = _month(times) - _month(_as_times(np.array([self.start])))[0]
            found = np.floor_divide(months, int(self.size))
        elif self.unit == "business_days":
            first = _days(np.array([self.start]))[0]
            found = np.busday_count(first, _days(given)) // int(self.size)
        else:
            found = np.rint((given - self.start) / self.size)
        found = np.asarray(found, np.int64)
        return found, np.asarray(np.abs(_physical(self.times(found)) - given))

    def times(self, numbers: Integers) -> pl.Series:
        """The times with these numbers: Datetime, or numbers of the data."""
        if self.unit == "numbers":
            return pl.Series("time", self.start + numbers * self.size, dtype=pl.Float64)
        if self.unit == "microseconds":
            return _as_times(self.start + numbers.astype(np.float64) * self.size)
        if self.unit == "business_days":
            first = _days(np.array([self.start]))[0]
            days = np.busday_offset(first, numbers * int(self.size))
        else:
            month = _days(np.array([self.start])).astype("M8[M]") + numbers * int(self.size)
            last = (month + 1).astype("M8[D]") - 1
            days = np.minimum(month.astype("M8[D]") + (self.day - 1), last)
            if self.roll:
                days = np.busday_offset(days, 0, self.roll)
        within = self.start % (_DAY)
        return _as_times((days - _EPOCH).astype(np.float64) * _DAY + within)

    def read_clock(self, times: pl.Series) -> pl.Series:
        """Times by the clock of the zone."""
        is_utc = self.zone == "UTC"
        return times if is_utc else plain_type(times.dt.replace_time_zone("UTC"), self.zone)

    def to_json(self) -> Json:
        """What `from_json` reads."""
        is_end = self.unit == "months" and (self.day, self.roll) == (_LAST, "")
        has_day = (
            self.unit == "months" and not is_end and (self.roll or self.day != self._first_day)
        )
        return {
            "unit": self.unit,
            "size": self.size,
            "start": self.start,
            "at_month_end": is_end,
            # Omitted where they say nothing new, so that existing data versions stay valid.
            **({"day": self.day, "roll": self.roll} if has_day else {}),
            **({"zone": self.zone} if self.zone != "UTC" else {}),
        }

    @property
    def _first_day(self) -> int:
        return int(_as_times(np.array([self.start])).dt.day().to_numpy()[0])

    @classmethod
    def from_json(cls, json: Json) -> TimeSpacing:
        """Inverse of `to_json`."""
        unit, size, start = json["unit"], float(json["size"]), float(json["start"])
        spacing = cls(unit, size, start, zone=json.get("zone", "UTC"))
        if unit != "months":
            return spacing
        day = _LAST if json["at_month_end"] else json.get("day", spacing._first_day)
        return replace(spacing, day=day, roll=json.get("roll", ""))


def infer_spacing(times: pl.Series, series: Integers) -> TimeSpacing:
    """The spacing of the times [N] of series [N]: the distance that two times of a series have most
    often. Not all times need to be of it."""
    given = _physical(times)
    order = np.lexsort((given, series))
    apart = np.diff(given[order])
    apart = apart[(np.diff(series[order]) == 0) & (apart > 0)]
    start = float(given.min())
    if times.dtype.is_numeric():
        return TimeSpacing("numbers", _commonest(apart), start)
    is_long = len(apart) and apart.min() >= _LEAST_MONTH_DAYS * _DAY
    if is_long and (months := _monthly(times, series, start)):
        return months
    is_daily = not len(apart) or _commonest(apart) == _DAY
    weekdays = times.dt.weekday()
    if is_daily and len(times) >= _FEWEST_DAYS and not bool((weekdays > 5).any()):
        return TimeSpacing("business_days", 1, start)
    return TimeSpacing("microseconds", _commonest(apart), start)


def _monthly(times: pl.Series, series: Integers, start: float) -> TimeSpacing | None:
    """Months, if a series has one time in each, on a day of the calendar or near it."""
    months = _month(times)
    order = np.lexsort((months, series))
    apart = np.diff(months[order])[np.diff(series[order]) == 0]
    if not apart.all():
        return None
    days = np.sort(times.dt.day().to_numpy())
    first, middle, last = (int(days[at]) for at in (0, len(days) // 2, -1))
    plain: list[tuple[int, Roll]] = [(_LAST, ""), (last, ""), (1, ""), (middle, "")]
    rolled: list[tuple[int, Roll]] = [(day, "modifiedfollowing") for day in (_LAST, 1, first)]
    rolled.append((last, "modifiedpreceding"))
    size = _commonest(apart)
    found = [TimeSpacing("months", size, start, *way) for way in (*plain, *rolled)]
    best = min(found, key=lambda spacing: float(spacing.nearest(times)[1].max()))
    return best if best.nearest(times)[1].max() <= _SLACK_DAYS * _DAY else None


def _commonest(apart: npt.NDArray[np.float64] | Integers) -> float:
    """The value that occurs most often, the least of several; 1 of none."""
    if not len(apart):
        return 1.0
    values, counts = np.unique(apart, return_counts=True)
    return float(values[counts.argmax()])


def _counted(count: float, word: str) -> str:
    return word if count == 1 else f"{count:g} {word}s"


def _physical(times: pl.Series) -> npt.NDArray[np.float64]:
    return times.to_physical().cast(pl.Float64).to_numpy()


def _as_times(microseconds: npt.NDArray[np.float64]) -> pl.Series:
    return pl.Series("time", np.rint(microseconds).astype(np.int64)).cast(pl.Datetime("us"))


def _days(microseconds: npt.NDArray[np.float64]) -> npt.NDArray[np.datetime64]:
    whole = np.floor(microseconds / (_DAY)).astype(np.int64)
    return np.asarray(_EPOCH + whole)


def _month(times: pl.Series) -> Integers:
    """Months since the year 0, int64 [N]."""
    dates = times.dt
    return (dates.year().cast(pl.Int64) * 12 + dates.month().cast(pl.Int64)).to_numpy()


@final
@dataclass(frozen=True, slots=True)
class SeriesPanel:
    """S series over T steps.

    `values` [S, T] is the target, NaN where it is unknown; `rows` int64 [S, T] the row of `frame`
    of a series at a step, -1 for none. `names` are those of the series; step 0 is the
    time `first` of the spacing. `scales` [S] is the mean absolute error of the seasonal naive
    method in the training part, 0 where the series does not change.
    """

    frame: pl.DataFrame
    names: tuple[str, ...]
    values: Floats
    rows: Integers
    spacing: TimeSpacing
    first: int
    scales: Floats

    @property
    def steps(self) -> int:
        """T."""
        return int(self.values.shape[1])

    def times(self, steps: Integers) -> pl.Series:
        """The times of steps [N], which may lie behind the last."""
        return self.spacing.times(self.first + steps)

    def cells(self, column: str, series: Integers, steps: Integers) -> pl.Series:
        """Cells [N] of a column for series and steps; missing where there is no row."""
        there = (steps >= 0) & (steps < self.steps)
        row = np.where(there, self.rows[series, np.clip(steps, 0, self.steps - 1)], NO_ROW)
        places = pl.Series(row).cast(pl.Int64)
        return self.frame[column].gather(places.set(places == NO_ROW, None).cast(pl.UInt32))

    def with_scales(self, scales: Floats) -> SeriesPanel:
        """The same with other `scales`."""
        return SeriesPanel(
            self.frame, self.names, self.values, self.rows, self.spacing, self.first, scales
        )


def build_panel(
    frame: pl.DataFrame, target: Floats, series: pl.Series, numbers: Integers, spacing: TimeSpacing
) -> SeriesPanel:
    """The rows of a frame on their steps: `target` [N], `series` [N] the name of each row's, and
    `numbers` [N] that of its time. No two rows are of one series and time."""
    names = sorted(series.unique().to_list())
    codes = series.replace_strict(names, list(range(len(names))), return_dtype=pl.Int64).to_numpy()
    first = int(numbers.min())
    shape = (len(names), int(numbers.max()) - first + 1)
    values, rows = np.full(shape, np.nan), np.full(shape, NO_ROW, dtype=np.int64)
    values[codes, numbers - first] = target
    rows[codes, numbers - first] = np.arange(len(target))
    return SeriesPanel(frame, tuple(names), values, rows, spacing, first, np.zeros(len(names)))


def series_scales(values: Floats, season: int) -> Floats:
    """Mean absolute error [S] of the seasonal naive method on values [S, T], one season ahead
    (Hyndman and Koehler 2006); 0 for series that do not change or are shorter."""
    if values.shape[1] <= season:
        return np.zeros(len(values))
    apart = np.abs(values[:, season:] - values[:, :-season])
    counts = np.isfinite(apart).sum(axis=1)
    return np.asarray(np.nansum(apart, axis=1) / np.maximum(1, counts))


def missing_steps(panel: SeriesPanel) -> list[tuple[int, int]]:
    """Each (series, step) without a row between the first and the last row of its series."""
    there = panel.rows != NO_ROW
    begun = np.maximum.accumulate(there, axis=1)
    goes_on = np.maximum.accumulate(there[:, ::-1], axis=1)[:, ::-1]
    return [(int(one), int(step)) for one, step in np.argwhere(begun & goes_on & ~there)]


def last_steps(values: Floats) -> Integers:
    """The last step [S] of each series with a known value; -1 without one."""
    known = np.isfinite(values)
    last = values.shape[1] - 1 - known[:, ::-1].argmax(axis=1)
    return np.where(known.any(axis=1), last, NO_ROW)
