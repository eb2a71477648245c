"""`data` of `kind: series`: series over time whose next values are forecast."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from trainwright.contract.sections.data.data_traits import Feeding
from trainwright.contract.sections.data.sources import Reading
from trainwright.contract.sections.data.table_data import Features
from trainwright.contract.sections.section import Auto, Count

RelativeTo = Literal["nothing", "last_value", "season_mean", "season_value"]
Relation = Literal["difference", "ratio"]
Lags = Annotated[tuple[Count, ...], Field(min_length=1)]


class SeriesData(Feeding):
    """Series over time: a row holds the value of a series at a time. A model learns rows of
    (series, origin, step): what is known at the origin, and the value so many steps later. Nothing
    that happens after an origin enters its features, except columns that are `known` beforehand.

    The last time steps are the test part, those before them the validation part. Within each, every
    time is an origin whose next `horizon` values are forecast (rolling origin; Tashman 2000,
    International Journal of Forecasting 16).
    """

    kind: Literal["series"]

    path: str
    """The rows, in any form and order that a table may have: a file, a folder, a pattern, a URL, or
    `frame://NAME`. Relative to the contract's folder."""

    target: str
    """The column to forecast: a number."""

    time: str
    """The column that says when: dates, months (`1949-01`), or whole numbers that count the steps.
    Times are equally spaced (business days and months count as equal); two rows of one series never
    have the same time. The value of a step without a row is unknown."""

    series: str = ""
    """The column that names the series of a row, for example a store. Empty: all rows are one."""

    horizon: Count
    """How many steps are forecast from an origin. One model learns all of them, with the step as a
    feature."""

    season: Auto | Count = "auto"
    """Steps of a season: 12 for months of a year, 24 for hours of a day; 1 without one. `auto`: a
    season of the calendar that the training part shows, by the seasonality test of the M4
    competition on the changes from step to step."""

    known: tuple[str, ...] = ()
    """Columns that are known before their time, for example holidays or planned prices. They enter
    a forecast as they are at the forecast time, and stand in the rows to predict for all of the
    horizon. Every other column enters as it was at the origin."""

    exclude: tuple[str, ...] = ()
    """Columns that are no features."""

    lags: Auto | Lags = "auto"
    """Which past values of the target are features, in steps: 1 is the value at the origin. `auto`:
    every one of a season, at most 24, and the same place of the seasons before the forecast
    time."""

    relative_to: Auto | RelativeTo = "auto"
    """What values are measured against: the last value at the origin, the mean of the last season,
    the value at the same place of the last season (past values then against its mean), or nothing.
    Trees cannot predict beyond the values that they were trained on, and a series with a trend
    leaves these; its changes mostly do not. `auto`: the one of the first three, with the relation,
    that has the least error of a ridge regression on the validation part."""

    relation: Auto | Relation = "auto"
    """How values are measured against it: as difference, in units of the usual change of the
    series, or as ratio, which needs positive values. `auto`: as `relative_to`."""

    validation_steps: Auto | Count = "auto"
    """Time steps before the test part that steer the training. `auto`: as many as the test
    part."""

    test_steps: Auto | Count = "auto"
    """Time steps at the end of the data that are forecast for the verdict. An interval needs at
    least 5 blocks of origins, each as long as the horizon. `auto`: 15% of all steps, at least two
    horizons where they are at most a quarter, and at least one."""

    most_rows: Count = 250_000
    """Most rows (series x origins x steps) of each part. Of more, evenly spaced origins are taken,
    the last among them."""

    time_format: str = "auto"
    """How the times are written, in strftime codes as `data.columns` of a table takes them, for
    example `%d/%m/%Y %H:%M`."""

    categorical: tuple[str, ...] = ()
    """Columns of numbers that are codes of categories."""

    missing_values: tuple[str, ...] = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "?")
    """Spellings of a missing value in text files."""

    features: Features = Features()
    """Encoding of columns as features."""

    reading: Reading = Reading()
    """How files are read, and how far they are trusted."""

    tasks: ClassVar[tuple[str, ...]] = ("forecasting",)
    samplings: ClassVar[tuple[str, ...]] = ("uniform", "blocks")
    sampling_limits: ClassVar[str] = "origins are visited alike"
    reads_frames: ClassVar[bool] = True
    samples_test: ClassVar[bool] = False
    has_row_latency: ClassVar[bool] = False

    @property
    def further_baselines(self) -> tuple[str, ...]:
        """The naive forecasts."""
        return ("persistence", "seasonal_naive", "drift")

    @property
    def source(self) -> str:
        """The path of its rows."""
        return self.path

    @property
    def file_reading(self) -> Reading:
        """How its files are read."""
        return self.reading

    @property
    def time_column(self) -> str:
        """The column that says when."""
        return self.time

    @property
    def judged_columns(self) -> tuple[tuple[str, str], ...]:
        """Series, origin and step."""
        series = ((self.series, "series"),) if self.series else ()
        return (*series, ("origin", "origin"), ("step", "step"))

    @property
    def follows_time(self) -> bool:
        """Later rows are judged by models of earlier ones."""
        return True
