"""What the order of the rows and the classes show."""

from __future__ import annotations

import numpy as np
import polars as pl

from clean_rows import ROWS, clean, made, only
from trainwright.data.quality.columns import time_series
from trainwright.data.quality.examined_data import examine
from trainwright.data.quality.labels import label_noise

CLOCK = 1900 + np.arange(ROWS)


def test_a_sensor_that_stands_still() -> None:
    values = np.cumsum(np.random.default_rng(0).normal(size=ROWS))
    values[100:140] = values[100]
    assert only(time_series.stuck(made(sensor=values, time=CLOCK))).rows == tuple(range(100, 140))
    # Sorted by anything else, rows in a row share a value.
    assert time_series.stuck(made(sensor=values)) == []
    assert time_series.stuck(made(sensor=values, time=CLOCK % 50)) == []
    product = ["b" if 100 <= row < 140 else "a" for row in range(ROWS)]
    assert time_series.stuck(made(sensor=values, time=CLOCK, product=product)) == []
    days = made(sensor=values, period=(CLOCK % 48 / 47).round(6))
    assert only(time_series.stuck(days)).rows == tuple(range(100, 140))


def test_a_number_that_stands_still_while_its_twin_moves() -> None:
    random = np.random.default_rng(0)
    one = np.repeat(np.round(random.normal(size=ROWS // 8), 2), 8)
    other = one + random.normal(0, 0.05, ROWS)
    one[160:184] = one[160]
    finding = only(time_series.frozen(made(one=one, other=other, time=CLOCK)))
    assert (finding.columns, set(finding.rows)) == (("one",), set(range(160, 184)))
    assert time_series.frozen(made(one=one, time=CLOCK)) == []
    assert time_series.frozen(made(one=one, other=other)) == []


def test_moments_that_are_absent() -> None:
    days = pl.datetime_range(
        pl.datetime(2024, 1, 1), pl.datetime(2025, 3, 31), "1d", time_unit="us", eager=True
    )
    kept = days.gather([row for row in range(len(days)) if row not in (50, 51, 90)])[:ROWS]
    finding = only(time_series.time_gaps(made(day=kept)))
    assert (finding.severity, finding.count, finding.rows) == ("warning", 3, (50, 88))


def test_weekends_and_shuffled_days_are_no_gaps_of_a_series() -> None:
    days = pl.datetime_range(
        pl.datetime(2024, 1, 1), pl.datetime(2025, 12, 31), "1d", time_unit="us", eager=True
    )
    works = days.filter(days.dt.weekday() <= 5)
    found = time_series.time_gaps(made(day=works[:ROWS]))
    assert [one.severity for one in found] in ([], ["info"])
    shuffled = days[:420].sample(ROWS, seed=0, shuffle=True)
    assert [one.severity for one in time_series.time_gaps(made(day=shuffled))] == ["info"]


def test_classes_that_are_rare_or_few() -> None:
    labels = ["a"] * 350 + ["b"] * 46 + ["c"] * 4
    data = examine(pl.DataFrame({**clean(), "won": labels}), "won")
    assert only(label_noise.class_imbalance(data)).severity == "warning"
    assert only(label_noise.rare_class(data)).rows == (396, 397, 398, 399)
    in_order = only(label_noise.ordered_target(data))
    assert "sorted by 'won'" in in_order.message
    # Folders of images and published tables are: it says nothing of rows that resemble each other.
    assert (in_order.severity, in_order.fix) == ("info", "")
    again = examine(pl.DataFrame({**clean(), "won": (["a"] * 40 + ["b"] * 40) * 5}), "won")
    assert only(label_noise.ordered_target(again)).severity == "warning"


def test_a_target_that_stays_as_it_was() -> None:
    walk = np.cumsum(np.random.default_rng(0).normal(size=ROWS))
    data = examine(pl.DataFrame({**clean(), "height": walk}), "height")
    assert only(label_noise.ordered_target(data)).columns == ("height",)
    assert label_noise.ordered_target(made()) == []
