"""Preparation of series: rows of forecasts by origin, fit on the training part, encode."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import polars as pl

from trainwright.contract.sections.data.series import SeriesData
from trainwright.core.errors import DataMistake, Problem
from trainwright.core.files import hash_bytes, hash_value
from trainwright.data.base.inputs import Floats, Integers, Part, PartName, TableInputs
from trainwright.data.columns.number_target import ForecastTarget
from trainwright.data.columns.target import Target
from trainwright.data.encoders.encoding import FrameEncoding
from trainwright.data.encoders.table_encoder import TrainRows, fit_features
from trainwright.data.encoders.target_encoding import TrainTarget, train_target
from trainwright.data.series.lookback import ForecastRows, Lookback, all_rows
from trainwright.data.series.origins import (
    feature_types,
    forecast_frame,
    levels_of,
    resampling_units,
    usable_rows,
)
from trainwright.data.series.panel import SeriesPanel
from trainwright.data.series.read_series import RawSeries
from trainwright.data.series.series_choices import lookback_of
from trainwright.data.series.series_encoder import SeriesEncoder
from trainwright.data.split.random_split import PARTS
from trainwright.data.split.split_report import SplitReport
from trainwright.data.types import Prepared

_SCHEME = 1


def prepare_series(raw: RawSeries, section: SeriesData, seed: int) -> Prepared:
    """Rows of (series, origin, step) of each part, encoded. Every `auto` of the section must be
    decided.

    Raises:
        DataMistake: a part has no forecast whose series is known.
    """
    panel, split = raw.panel, raw.split
    lookback = lookback_of(section, panel.spacing, raw.columns)
    rows = {part: _rows(raw, section, part, lookback) for part in PARTS}
    _check_rows(rows)
    frames = {part: forecast_frame(panel, one, lookback, raw.columns) for part, one in rows.items()}
    truth = {part: frame[section.target].to_numpy() for part, frame in frames.items()}
    units = {part: resampling_units(one, split.horizon) for part, one in rows.items()}
    learned = levels_of(frames["train"]).learned(truth["train"])
    target = ForecastTarget.of(section.target, learned)
    known = partial(train_target, target, learned, units["train"][0], section.features.folds, seed)
    features, train = fit_series_features(raw, section, frames["train"], known)
    parts = {
        part: Part(
            name=part,
            frame=frame,
            inputs=train if part == "train" else features.transform(frame),
            target=truth[part],
            rows=_numbers(panel, rows[part], split.horizon),
            units=units[part][0],
        )
        for part, frame in frames.items()
    }
    return Prepared(
        train=parts["train"],
        validation=parts["validation"],
        test=parts["test"],
        features=features,
        target=target,
        split=_report(raw, rows, frames, truth, units["test"][1]),
        version=_version(raw, parts, features, target),
    )


def fit_series_features(
    raw: RawSeries, section: SeriesData, frame: pl.DataFrame, known: Callable[[], TrainTarget]
) -> tuple[SeriesEncoder, TableInputs]:
    """Fit the features on the frame of training forecasts, and encode it."""
    columns, panel = feature_types(frame, raw.columns), raw.panel
    table, inputs = fit_features(
        TrainRows(frame, columns, raw.cleaning, known), section.features, {}
    )
    encoder = SeriesEncoder(
        columns=raw.columns,
        cleaning=raw.cleaning,
        lookback=lookback_of(section, panel.spacing, raw.columns),
        spacing=panel.spacing,
        horizon=section.horizon,
        scales=dict(zip(panel.names, panel.scales.tolist(), strict=True)),
        newest=panel.first + panel.steps - 1,
        table=table,
    )
    return encoder, encoder.with_levels(inputs, frame)


def labelled_part(panel: SeriesPanel, features: SeriesEncoder, name: PartName = "test") -> Part:
    """Forecasts of every origin of new rows from the end of the run's data on, whose horizon is
    known.

    Raises:
        DataMistake: there are none.
    """
    begin = max(0, features.newest - panel.first)
    origins = np.arange(begin, panel.steps - features.horizon)
    series = np.repeat(np.arange(len(panel.names)), len(origins))
    rows = all_rows(series, np.tile(origins, len(panel.names)), features.horizon)
    rows = rows.take(np.isfinite(panel.values[rows.series, np.minimum(rows.at, panel.steps - 1)]))
    rows = usable_rows(panel, rows, features.lookback)
    if not len(rows):
        end = features.spacing.times(np.array([features.newest]))[0]
        raise DataMistake(
            Problem(
                "there is no forecast to judge",
                path=features.columns.time.name,
                found=f"rows up to {panel.times(np.array([panel.steps - 1]))[0]}",
                expected=f"at least {features.horizon} steps with a target after {end}, the end "
                "of the run's data, together with the history before them",
                fix="give newer rows, with their past",
            )
        )
    frame = forecast_frame(panel, rows, features.lookback, features.columns)
    truth = frame[features.columns.target.name].to_numpy()
    units, _ = resampling_units(rows, features.horizon)
    numbers = _numbers(panel, rows, features.horizon)
    return Part(name, frame, features.transform(frame), truth, numbers, units)


def _rows(raw: RawSeries, section: SeriesData, part: PartName, lookback: Lookback) -> ForecastRows:
    rows = raw.split.rows(part, raw.panel.values, raw.season, section.most_rows)
    return usable_rows(raw.panel, rows, lookback)


def _check_rows(rows: Mapping[PartName, ForecastRows]) -> None:
    problems = [
        Problem(
            f"the {part} part has no forecast whose series is known at its origin",
            path="data.target",
            found=f"{len(one)} rows of (series, origin, step)",
            expected="at least 2",
            fix="give a longer history, or lower horizon, season, validation_steps or test_steps",
        )
        for part, one in rows.items()
        if len(one) < 2
    ]
    if problems:
        raise DataMistake(problems)


def _numbers(panel: SeriesPanel, rows: ForecastRows, horizon: int) -> Integers:
    """A number of each forecast, the same in every run on the same data."""
    return (rows.series * panel.steps + rows.origins) * horizon + rows.steps - 1


def _report(
    raw: RawSeries,
    rows: Mapping[PartName, ForecastRows],
    frames: Mapping[PartName, pl.DataFrame],
    truth: Mapping[PartName, Floats],
    units: str,
) -> SplitReport:
    split, time = raw.split, raw.columns.time.name
    origins = {part: len(np.unique(one.origins)) for part, one in rows.items()}
    listed = " / ".join(f"{count:,}" for count in origins.values())
    late = int((rows["train"].at > split.trained).sum())
    return SplitReport(
        kind="origins",
        reason=f"{listed} origins of {split.horizon} steps, the newest test; {units}",
        rows={part: len(one) for part, one in rows.items()},
        class_shares={},
        target_mean={part: float(one.mean()) for part, one in truth.items()},
        groups={},
        groups_on_two_sides=0,
        time_ranges={
            part: (str(frame[time].min()), str(frame[time].max())) for part, frame in frames.items()
        },
        future_rows_in_training=late,
        duplicate_rows=0,
    )


def _version(
    raw: RawSeries, parts: Mapping[PartName, Part], features: FrameEncoding, target: Target
) -> str:
    """SHA-256 over the content of the files, the forecasts of each part and the fitted features."""
    return hash_value(
        {
            "scheme": _SCHEME,
            "files": [file.sha256 for file in raw.facts.files],
            "split": {name: hash_bytes(one.rows.astype("<i8").data) for name, one in parts.items()},
            "features": features.identity(),
            "target": target.identity(),
        }
    )
