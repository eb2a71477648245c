"""The spacing of times, their numbers, and the way back."""

from __future__ import annotations

import datetime as dt

import numpy as np
import polars as pl
import pytest

from trainwright.data.series.panel import TimeSpacing, infer_spacing


def dates(*texts: str) -> pl.Series:
    return pl.Series("t", [dt.datetime.fromisoformat(one) for one in texts]).cast(pl.Datetime("us"))


MONTHS = dates(*(f"{1949 + m // 12}-{m % 12 + 1:02}-01" for m in range(40)))
ENDS = MONTHS.dt.month_end()
QUARTERS = MONTHS.gather_every(3)
HOURS = dates(*(f"2020-02-{1 + h // 24:02}T{h % 24:02}:30:00" for h in range(100)))
DAYS = dates(*(f"2020-03-{d:02}" for d in range(1, 32)))
WEEKDAYS = DAYS.filter(DAYS.dt.weekday() <= 5)


@pytest.mark.parametrize(
    ("times", "name"),
    [
        (MONTHS, "month"),
        (ENDS, "month"),
        (QUARTERS, "3 months"),
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
