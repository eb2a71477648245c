"""What is told of ambiguous columns of series is what their section can write."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from trainwright.contract.sections.data.series import SeriesData
from trainwright.data.series.read_series import RawSeries, read_series
from trainwright.run.screen import doubt_warnings

SECTION = SeriesData(
    kind="series", path="rows.csv", target="y", time="day", series="shop", horizon=7
)


def read(folder: Path, section: SeriesData = SECTION) -> RawSeries:
    days = pl.date_range(pl.date(2023, 1, 1), pl.date(2023, 4, 30), eager=True)
    count = len(days)
    pl.DataFrame(
        {
            "day": days,
            "shop": ["north"] * count,
            "y": [at * 7 % 23 for at in range(count)],
            "price": ["x" if at == 9 else str(at % 11) for at in range(count)],
            "made": [f"{at % 12 + 1:02d}/{at % 11 + 1:02d}/2022" for at in range(count)],
        }
    ).write_csv(folder / "rows.csv")
    return read_series(section, folder)


def test_the_advice_settles_it(tmp_path: Path) -> None:
    (told,) = doubt_warnings(read(tmp_path).facts)
    assert told.startswith("price: 1 value, such as 'x'")
    assert told.endswith("write data.categorical: [price], or data.exclude: [price]")
    for change in ({"categorical": ("price",)}, {"exclude": ("price",)}):
        assert doubt_warnings(read(tmp_path, SECTION.model_copy(update=change)).facts) == []
