"""The spacing of times, their numbers, and the way back."""

from __future__ import annotations

import datetime as dt

import numpy as np
import polars as pl
import pytest

from trainwright.core.errors import DataMistake, Place
from trainwright.data.columns.column_kinds import ColumnType
from trainwright.data.series.panel import TimeSpacing, infer_spacing
from trainwright.data.series.series_columns import RowPlaces, SeriesColumns


def dates(*texts: str) -> pl.Series:
    return pl.Series("t", [dt.datetime.fromisoformat(one) for one in texts]).cast(pl.Datetime("us"))


MONTHS = dates(*(f"{1949 + m // 12}-{m % 12 + 1:02}-01" for m in range(40)))
ENDS = MONTHS.dt.month_end()
QUARTERS = MONTHS.gather_every(3)
HOURS = dates(*(f"2020-02-{1 + h // 24:02}T{h % 24:02}:30:00" for h in range(100)))
DAYS = dates(*(f"2020-03-{d:02}" for d in range(1, 32)))
QUARTER_ENDS = ENDS.gather_every(3, 2)
BUSINESS_ENDS = ENDS.dt.offset_by("1d").dt.add_business_days(-1, roll="forward")
WEEKDAYS = DAYS.filter(DAYS.dt.weekday() <= 5)


@pytest.mark.parametrize(
    ("times", "name"),
    [
        (MONTHS, "month"),
        (ENDS, "month"),
        (QUARTERS, "3 months"),
        (QUARTER_ENDS, "3 months"),
        (ENDS.gather_every(12, 11), "12 months"),
        (BUSINESS_ENDS, "month"),
        (BUSINESS_ENDS.gather_every(3, 2), "3 months"),
        (MONTHS.dt.add_business_days(0, roll="forward"), "month"),
        (MONTHS.dt.offset_by("24d").dt.add_business_days(0, roll="backward"), "month"),
        (pl.Series([min(end, end.replace(day=min(30, end.day))) for end in ENDS]), "month"),
        (HOURS, "hour"),
        (DAYS, "day"),
        (WEEKDAYS, "business day"),
        (DAYS.gather_every(7), "week"),
        (pl.Series([3.0, 5.0, 7.0, 9.0]), "step"),
    ],
)
def test_spacing_is_found_and_times_are_numbered(times: pl.Series, name: str) -> None:
    spacing = infer_spacing(times, np.zeros(len(times), np.int64))
    numbers, fits = spacing.numbers(times)
    assert spacing.name == name
    assert fits.all()
    assert numbers.tolist() == list(range(len(times)))
    assert spacing.times(numbers).cast(times.dtype).to_list() == times.to_list()
    assert TimeSpacing.from_json(spacing.to_json()) == spacing


def test_the_times_that_follow_are_those_of_the_calendar() -> None:
    spacing = infer_spacing(ENDS, np.zeros(len(ENDS), np.int64))
    following = spacing.times(np.array([40, 41])).dt.date().to_list()
    assert following == [dt.date(1952, 5, 31), dt.date(1952, 6, 30)]
    week = infer_spacing(WEEKDAYS, np.zeros(len(WEEKDAYS), np.int64))
    friday = len(WEEKDAYS) + 2
    assert week.times(np.array([friday, friday + 1])).dt.date().to_list() == [
        dt.date(2020, 4, 3),
        dt.date(2020, 4, 6),
    ]


def test_holidays_move_the_times_of_months() -> None:
    march = BUSINESS_ENDS.dt.strftime("%Y-%m") == "1951-03"
    third_friday = MONTHS.dt.offset_by("14d").dt.add_business_days(0, roll="forward")
    feigned = ENDS.to_list()
    feigned[feigned.index(dt.datetime(1952, 2, 29))] = dt.datetime(1952, 2, 28)
    for times in (
        BUSINESS_ENDS.dt.offset_by("-1d").zip_with(march, BUSINESS_ENDS),
        pl.Series(feigned).cast(pl.Datetime("us")),
        third_friday.dt.offset_by("3d"),
    ):
        spacing = infer_spacing(times, np.zeros(len(times), np.int64))
        numbers, fits = spacing.numbers(times)
        assert (spacing.name, fits.all(), numbers.tolist()) == ("month", True, list(range(40)))
    month_ends = infer_spacing(ENDS, np.zeros(len(ENDS), np.int64))
    assert month_ends.numbers(dates("1950-05-31", "1950-06-15"))[1].tolist() == [True, False]
    thirties = pl.Series([DAYS[0] + dt.timedelta(30 * at) for at in range(9)])
    assert infer_spacing(thirties.cast(DAYS.dtype), np.zeros(9, np.int64)).name == "30 days"


def test_a_month_has_one_row() -> None:
    spacing = infer_spacing(ENDS, np.zeros(len(ENDS), np.int64))
    time, target = (ColumnType(name, "datetime", "", 0, 0, "") for name in "tv")
    frame = pl.DataFrame({"t": dates("1950-05-29", "1950-05-31"), "v": [1.0, 2.0]})
    places = RowPlaces(lambda rows: f"rows {rows.tolist()}", lambda row: Place("a.csv", row))
    with pytest.raises(DataMistake, match=r"share a time(.|\n)*rows \[0, 1\]"):
        SeriesColumns(time, target, "", ()).panel(frame, places, spacing)


def test_earlier_bundles_keep_their_months() -> None:
    written = {
        "unit": "months",
        "size": 1.0,
        "start": MONTHS.to_physical()[0],
        "at_month_end": True,
    }
    assert TimeSpacing.from_json(written).times(np.arange(40)).to_list() == ENDS.to_list()
    middle = dates("2020-01-15")
    written |= {"start": middle.to_physical()[0], "at_month_end": False}
    assert str(TimeSpacing.from_json(written).times(np.array([1]))[0]) == "2020-02-15 00:00:00"


def test_gaps_keep_their_numbers_and_other_times_are_no_steps() -> None:
    times = DAYS.gather([0, 1, 2, 5, 6, 7])
    spacing = infer_spacing(times, np.zeros(6, np.int64))
    assert spacing.numbers(times)[0].tolist() == [0, 1, 2, 5, 6, 7]
    between = dates("2020-03-01T12:00:00", "2020-03-02T00:00:00")
    assert spacing.numbers(between)[1].tolist() == [False, True]


def test_series_of_other_lengths_have_one_spacing() -> None:
    times = pl.concat([DAYS, DAYS.gather_every(1)[:3]])
    series = np.array([0] * len(DAYS) + [1] * 3)
    assert infer_spacing(times, series).name == "day"
