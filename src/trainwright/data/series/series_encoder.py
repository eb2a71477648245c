"""Encoding of series: from their history to the features of forecasts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import time
from typing import ClassVar, final

import numpy as np
import polars as pl

from trainwright.core.errors import DataMistake, Problem
from trainwright.core.files import Json
from trainwright.core.formatting import many
from trainwright.data.base.cleaned_cells import Cleaning
from trainwright.data.base.inputs import Inputs, Part, TableInputs
from trainwright.data.base.levels import Levels
from trainwright.data.base.messages import some
from trainwright.data.base.parse_cells import DATE_FORMATS, DATES, parse_moments
from trainwright.data.base.row_storage import IN_MEMORY, RowStorage, slices_of
from trainwright.data.columns.column_kinds import new_problems
from trainwright.data.columns.typed_rows import missing_column
from trainwright.data.encoders.encoding import FrameEncoding, InputColumn, NewRows
from trainwright.data.encoders.table_encoder import TableEncoder
from trainwright.data.series.lookback import (
    ORIGIN,
    STEP,
    ForecastRows,
    Lookback,
    all_rows,
    name_at_origin,
)
from trainwright.data.series.origins import forecast_frame, levels_of, usable_rows
from trainwright.data.series.panel import (
    NO_ROW,
    SeriesPanel,
    TimeSpacing,
    last_steps,
    series_scales,
)
from trainwright.data.series.series_columns import RowPlaces, SeriesColumns
from trainwright.data.sources.source_file import FileVersion, SourceFile

_FORMAT = 1


@final
@dataclass(frozen=True, slots=True)
class SeriesEncoder(FrameEncoding):
    """From rows of series to inputs of forecasts.

    `scales` are those of the training series by name; `table` encodes the features; `newest` is the
    number of the last time of the run's data.
    """

    columns: SeriesColumns
    cleaning: Cleaning
    lookback: Lookback
    spacing: TimeSpacing
    horizon: int
    scales: Mapping[str, float]
    newest: int
    table: TableEncoder

    modality: ClassVar[str] = "series"

    @property
    def typed(self) -> TableEncoder:
        """The encoder of the features."""
        return self.table

    @property
    def sources(self) -> Mapping[str, str]:
        """The columns that enter as of the origin."""
        return {name_at_origin(name): name for name in self.lookback.others}

    @property
    def cardinalities(self) -> tuple[int, ...]:
        """As the table's."""
        return self.table.cardinalities

    @property
    def numeric_names(self) -> tuple[str, ...]:
        """As the table's."""
        return self.table.numeric_names

    @property
    def plotted_columns(self) -> tuple[str, ...]:
        """As the table's."""
        return self.table.plotted_columns

    def transform(self, frame: pl.DataFrame, space: RowStorage = IN_MEMORY, /) -> TableInputs:
        """Inputs of a frame of forecasts, with their levels."""
        return self.with_levels(self.table.transform(frame, space), frame)

    def with_levels(self, inputs: TableInputs, frame: pl.DataFrame) -> TableInputs:
        """The inputs of a frame with its levels."""
        levels = levels_of(frame)
        if self.lookback.relative_to == "nothing":
            levels = Levels(error_scale=levels.error_scale, steps=levels.steps)
        return replace(inputs, row_levels=levels)

    def without_levels(self) -> SeriesEncoder:
        """The same for a model of the values themselves."""
        return replace(self, lookback=replace(self.lookback, relative_to="nothing"))

    def inputs_of(self, part: Part) -> Iterator[Inputs]:
        """The rows of the part's frame, encoded a slice at a time."""
        return (self.transform(rows) for rows in slices_of(part.frame))

    def read_new(self, rows: NewRows, /) -> TableInputs:
        """Inputs of the forecasts that follow the last known value of each series.

        Raises:
            DataMistake: as `future`.
        """
        return self.transform(self.future(rows.frame(), rows.source))

    def columns_before(self, rows: NewRows, /) -> Sequence[pl.Series]:
        """Time, series, origin and step of each forecast; days as the rows write them."""
        given, column = rows.frame(), self.columns.time
        frame = self.future(given, rows.source)
        series = [frame[self.columns.series]] if self.columns.series else []
        step = frame[STEP].cast(pl.Int64)
        times = [frame[column.name], frame[ORIGIN]]
        if given.schema[column.name] in (pl.String, pl.Date):
            times = [write_days(one, column.format) for one in times]
        return (times[0], *series, times[1], step)

    def count_unseen(self, rows: NewRows, /) -> dict[str, int]:
        """As the table's, of the forecasts."""
        return self.table.count_unseen_in(self.future(rows.frame(), rows.source))

    def read(self, frame: pl.DataFrame, source: str) -> SeriesPanel:
        """Rows of any series as a panel.

        Raises:
            DataMistake: a column is missing, a value is not of its kind, or the times are not those
                of the training's spacing.
        """
        file = SourceFile(frame, FileVersion(source, "", 0, frame.height), np.empty(0, np.int64))
        typed: list[pl.Series] = []
        problems: list[Problem] = []
        for column in self.columns.every:
            if column.name not in frame.columns:
                problems.append(missing_column(column, frame.columns, file))
                continue
            series, found = new_problems(self.cleaning.cells(frame[column.name]), column, file)
            typed.append(series)
            problems += found
        if problems:
            raise DataMistake(problems)
        places = RowPlaces(file.rows_text, file.place)
        panel = self.columns.panel(pl.DataFrame(typed), places, self.spacing)
        own = series_scales(panel.values, self.lookback.season).tolist()
        pairs = zip(panel.names, own, strict=True)
        return panel.with_scales(np.array([self.scales.get(name, one) for name, one in pairs]))

    def future(self, frame: pl.DataFrame, source: str) -> pl.DataFrame:
        """Forecasts of the next steps of each series, from its last known value on.

        Raises:
            DataMistake: as `read`; a series has too few values; or a known column is missing.
        """
        panel = self.read(frame, source)
        last = last_steps(panel.values)
        origins = np.where(last == NO_ROW, 0, last)
        rows = all_rows(np.arange(len(last)), origins, self.horizon)
        self._check_history(panel, rows, last == NO_ROW, source)
        self._check_known(panel, rows, source)
        return forecast_frame(panel, rows, self.lookback, self.columns)

    def _check_history(
        self, panel: SeriesPanel, rows: ForecastRows, empty: np.ndarray, source: str
    ) -> None:
        """Each series has a level."""
        first = rows.take(rows.steps == 1)
        there = set(usable_rows(panel, first, self.lookback).series.tolist())
        short = [name for at, name in enumerate(panel.names) if at not in there or bool(empty[at])]
        if short:
            raise DataMistake(
                Problem(
                    f"{many(len(short), 'series has', 'series have')} too little history to "
                    "forecast from",
                    path=self.columns.target.name,
                    found=f"{some(short, 5)} in {source}",
                    expected=f"values of at least {many(self.lookback.fewest, 'step')} up to the "
                    "origin",
                    fix="give the rows of the past together with those to forecast, or leave "
                    "these series out",
                )
            )

    def _check_known(self, panel: SeriesPanel, rows: ForecastRows, source: str) -> None:
        """Known columns have values at all forecast times."""
        problems = []
        for name in self.lookback.known:
            missing = panel.cells(name, rows.series, rows.at).is_null().arg_true()
            if not len(missing):
                continue
            times = panel.times(rows.at[missing.to_numpy()]).unique().sort()
            shown = [str(one) for one in times.head(3)]
            problems.append(
                Problem(
                    f"the column {name!r}, which is known beforehand, has no value at "
                    f"{many(len(missing), 'time')} to forecast",
                    path=name,
                    found=f"nothing for {some(shown, 3, len(times))} in {source}",
                    expected=f"rows with {name!r}, and without a target, for the next "
                    f"{many(self.horizon, 'step')} of each series",
                    fix="add these rows behind the history",
                )
            )
        if problems:
            raise DataMistake(problems)

    def trial_inputs(self) -> list[Inputs]:
        """As the table's, of the last step of the horizon and of the first."""
        (inputs,) = self.table.trial_inputs()
        steps = np.array([self.horizon, 1])
        levels = Levels(np.zeros(2), np.ones(2), np.ones(2), steps=steps)
        return [replace(TableInputs.of_kind(inputs), row_levels=levels)]

    def profile(self, part: Part, /) -> dict[str, Json]:
        """Distribution of each feature."""
        return self.table.profile(part)

    def signature(self, _profile: Mapping[str, Json], /) -> Sequence[InputColumn]:
        """The columns of a history."""
        return [InputColumn(one.name, one.kind, "", one.missing > 0) for one in self.columns.every]

    def shape_json(self, outputs: int) -> Json:
        """As the table's."""
        return self.table.shape_json(outputs)

    def describe(self, rows: int) -> str:
        """Rows of the file, and features of a forecast."""
        features = many(len(self.table.columns), "feature")
        return f"{many(rows, 'row')} · {features} of each forecast"

    def to_json(self) -> Json:
        """What `from_json` reads."""
        return {"kind": self.modality, **self._content(self.table.to_json())}

    def identity(self) -> Json:
        """What decides every encoded row."""
        return self._content(self.table.identity())

    def _content(self, table: Json) -> Json:
        return {
            "format": _FORMAT,
            "columns": self.columns.to_json(),
            "cleaning": self.cleaning.to_json(),
            "lookback": self.lookback.to_json(),
            "spacing": self.spacing.to_json(),
            "horizon": self.horizon,
            "scales": dict(self.scales),
            "newest": self.newest,
            "table": table,
        }

    @classmethod
    def from_json(cls, json: Json) -> SeriesEncoder:
        """Inverse of `to_json`.

        Raises:
            KeyError, TypeError, ValueError: invalid content, or another format.
        """
        if json.get("format") != _FORMAT:
            raise ValueError(f"series of format {json.get('format')!r}, expected {_FORMAT}")
        return cls(
            columns=SeriesColumns.from_json(json["columns"]),
            cleaning=Cleaning.from_json(json["cleaning"]),
            lookback=Lookback.from_json(json["lookback"]),
            spacing=TimeSpacing.from_json(json["spacing"]),
            horizon=int(json["horizon"]),
            scales={str(name): float(one) for name, one in json["scales"].items()},
            newest=int(json["newest"]),
            table=TableEncoder.from_json(json["table"]),
        )


def write_days(times: pl.Series, form: str) -> pl.Series:
    """Times of whole days as dates, or as text of a format that holds days otherwise."""
    if times.dtype != DATES or "%H" in form or "%I" in form or (times.dt.time() != time.min).any():
        return times
    if form in ("", DATE_FORMATS[0]):
        return times.cast(pl.Date)
    written = times.dt.strftime(form)
    is_same = parse_moments(written, form).equals(times)
    return written if is_same else times.cast(pl.Date)
