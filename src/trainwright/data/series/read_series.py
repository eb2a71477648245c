"""Reads the rows of series, and decides what `auto` means for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import final

import numpy as np
import polars as pl

from trainwright.contract.key_paths import as_key, nearest_word
from trainwright.contract.sections.data.series import SeriesData
from trainwright.contract.sections.data.table_data import Column, TableData
from trainwright.core.errors import DataMistake, Place, Problem
from trainwright.core.formatting import many
from trainwright.data.base.cleaned_cells import Cleaning, read_clock, zones_of
from trainwright.data.base.messages import some
from trainwright.data.base.parse_cells import to_moments
from trainwright.data.columns.column_kinds import ColumnType, Kind
from trainwright.data.columns.doubts import Doubt
from trainwright.data.read_table import DataFacts, Raw, RawTable, read_sources, read_table
from trainwright.data.series.lookback import ORIGIN, STEP
from trainwright.data.series.origins import OriginSplit, split_origins
from trainwright.data.series.panel import SeriesPanel, series_scales
from trainwright.data.series.series_choices import (
    SeriesChoices,
    choose_lags,
    choose_relation,
    choose_season,
    fit_ridge,
    fit_small_trees,
    lookback_of,
    steps_chosen,
)
from trainwright.data.series.series_columns import RowPlaces, SeriesColumns, describe_gaps
from trainwright.data.sources.frames import NO_FRAMES, Frame
from trainwright.data.sources.source_file import SourceFile

_MONTH = r"^\d{4}-\d{2}$"


@final
@dataclass(frozen=True, slots=True)
class RawSeries(Raw):
    """Series before the rows of forecasts are made. `scales` of the panel are those of the training
    part."""

    panel: SeriesPanel
    columns: SeriesColumns
    cleaning: Cleaning
    season: int
    split: OriginSplit
    facts: DataFacts
    notes: tuple[str, ...]

    @property
    def remarks(self) -> tuple[tuple[str, str], ...]:
        """The series and their spacing, and what is missing."""
        panel = self.panel
        ends = panel.times(np.array([0, panel.steps - 1]))
        said = f"{many(len(panel.names), 'series', 'series')} of {panel.steps:,} steps, a "
        zone = panel.spacing.zone
        in_utc = f" UTC (hours of {zone})" * (zone != "UTC")
        said += f"{panel.spacing.name} each, {ends[0]} to {ends[1]}{in_utc} · season {self.season}"
        return (("series", said), *(("note", note) for note in describe_gaps(panel)))


def read_series(
    section: SeriesData, folder: Path, given: Mapping[str, Frame] = NO_FRAMES
) -> RawSeries:
    """Read the file of a section, relative to `folder`, and put its rows on their time steps.

    What `auto` means is decided by the training and the validation part alone.

    Raises:
        DataMistake: with every problem that could be found at once.
    """
    source = read_sources(TableData(path=section.path, reading=section.reading), folder, given)
    file = source["train"]
    _check_names(section, file)
    times = file.frame[section.time]
    zone = zones_of(times.to_frame()).get(section.time, "")
    if zone and to_moments(read_clock(times, zone), "").series.dt.time().n_unique() == 1:
        zone = ""
    # Of several times of a day the clock shows some twice: in UTC they are equally spaced.
    table = _read_rows(section, file, folder, given, (section.time,) if zone else ())
    columns = _columns(section, table)
    positions = table.positions["train"]
    places = RowPlaces(
        lambda rows: file.rows_text(positions[rows]), lambda row: file.place(int(positions[row]))
    )
    panel = columns.panel(table.frames["train"], places)
    if zone and ":" not in zone:
        panel = replace(panel, spacing=replace(panel.spacing, zone=zone))
    return _decided(section, table, columns, panel)


def _decided(
    section: SeriesData, table: RawTable, columns: SeriesColumns, panel: SeriesPanel
) -> RawSeries:
    _check_relation(section, panel)
    chosen: SeriesChoices = {}
    asked = section.season if section.season != "auto" else 1
    sizes = section.validation_steps, section.test_steps
    split = split_origins(panel.steps, section.horizon, asked, *sizes)
    season = asked
    if section.season == "auto":
        season, why = choose_season(panel.values[:, : split.trained + 1], panel.spacing)
        chosen["season"] = (season, why)
        split = split_origins(panel.steps, section.horizon, season, *sizes)
    chosen |= steps_chosen(split)
    chosen["lags"] = choose_lags(season, split.trained + 1)
    panel = panel.with_scales(series_scales(panel.values[:, : split.trained + 1], season))
    lags = chosen["lags"][0] if section.lags == "auto" else section.lags
    decided = section.model_copy(update={"season": season, "lags": lags})
    lookback = lookback_of(decided, panel.spacing, columns)

    def choices(of_trees: bool) -> SeriesChoices:
        learner = fit_small_trees if of_trees else fit_ridge
        return chosen | choose_relation(panel, lookback, split, section, learner)

    facts = replace(
        table.facts,
        choices=cache(choices),
        doubts=_doubts(table.facts.doubts, columns),
        part_rows={"train": len(split.rows("train", panel.values, season, section.most_rows))},
    )
    notes = (*table.notes, *describe_gaps(panel))
    return RawSeries(panel, columns, table.cleaning, season, split, facts, notes)


def _doubts(doubts: Sequence[Doubt], columns: SeriesColumns) -> tuple[Doubt, ...]:
    """Those of features, of which a column of dates is none, and of two-digit years of the time."""
    features = {one.name for one in columns.features}
    named = ((one, as_key(one.column)) for one in doubts if one.column in features)
    settled = tuple(
        replace(one, write=f'data.time_format: "{one.settings.format}"')
        for one in doubts
        if one.column == columns.time.name
    )
    return settled + tuple(
        replace(one, write=f"data.categorical: [{key}], or data.exclude: [{key}]")
        for one, key in named
    )


def _check_relation(section: SeriesData, panel: SeriesPanel) -> None:
    """A ratio to a level is one of positive values."""
    least = float(np.nanmin(panel.values, initial=np.inf))
    if section.relation == "ratio" and least <= 0:
        raise DataMistake(
            Problem(
                f"a ratio to values of {section.target!r} that are not all positive has no meaning",
                path="data.relation",
                found=f"values down to {least:g}",
                expected="positive values, or the relation difference",
                fix="write data.relation: difference",
            )
        )


def _check_names(section: SeriesData, file: SourceFile) -> None:
    """Columns that the contract names exist, and none has the name of one that is made."""
    names = file.frame.columns
    named = [("data.target", section.target), ("data.time", section.time)]
    named += [("data.series", section.series)] if section.series else []
    named += [(f"data.known.{at}", name) for at, name in enumerate(section.known)]
    named += [(f"data.exclude.{at}", name) for at, name in enumerate(section.exclude)]
    named += [(f"data.categorical.{at}", name) for at, name in enumerate(section.categorical)]
    problems = []
    for path, name in named:
        if name not in names:
            close = nearest_word(name, names)
            problems.append(
                Problem(
                    f"the data has no column {name!r}",
                    path=path,
                    found=name,
                    expected=f"one of: {some(names, 12)}",
                    fix=f"did you mean {close}?" if close else "choose one of the columns",
                    place=file.place(),
                )
            )
    problems += [
        Problem(
            f"a column is called {name!r}, as one that forecasts add",
            path=name,
            fix="rename the column in the file",
            place=file.place(),
        )
        for name in (STEP, ORIGIN)
        if name in names and name not in section.exclude
    ]
    if problems:
        raise DataMistake(problems)


def _read_rows(
    section: SeriesData,
    file: SourceFile,
    folder: Path,
    given: Mapping[str, Frame],
    instants: tuple[str, ...],
) -> RawTable:
    try:
        return read_table(_as_table(section, file), folder, given, instants)
    except DataMistake as mistake:
        raise DataMistake([_of_series(one, section) for one in mistake.problems]) from mistake


def _of_series(problem: Problem, section: SeriesData) -> Problem:
    """A problem of the rows of a table, whose columns a section of series declares otherwise."""
    if problem.path == section.time:
        fix = "write data.time_format, for example '%d %B %Y', or repair these rows"
        return replace(problem, fix=fix)
    if problem.path == section.target:
        fix = "add the spelling to data.missing_values, or repair these rows"
        is_spelled = problem.kind == "unreadable_target"
        return replace(problem, fix=fix if is_spelled else "name a column of numbers")
    return problem


def _as_table(section: SeriesData, file: SourceFile) -> TableData:
    """The section of a table with the same rows."""
    columns = {name: Column(kind="categorical") for name in section.categorical}
    columns[section.target] = Column(kind="numeric")
    if section.series:
        columns[section.series] = Column(kind="categorical")
    columns[section.time] = _time_column(file.frame[section.time], section.time_format)
    return TableData(
        path=section.path,
        target=section.target,
        exclude=section.exclude,
        columns=columns,
        missing_values=section.missing_values,
        missing_target="drop",
        reading=section.reading,
    )


def _time_column(cells: pl.Series, written: str) -> Column:
    """How the times are read: months written as `1949-01`, numbers, or dates."""
    if written != "auto" or cells.dtype.is_temporal():
        return Column(kind="datetime", format=written)
    texts = cells.cast(pl.String).drop_nulls()
    if len(texts) and texts.str.contains(_MONTH).all():
        return Column(kind="datetime", format="%Y-%m")
    is_number = len(texts) and not texts.cast(pl.Float64, strict=False).null_count()
    return Column(kind="numeric" if is_number else "datetime")


def _columns(section: SeriesData, table: RawTable) -> SeriesColumns:
    """The typed columns that forecasts use.

    Raises:
        DataMistake: no row has a time.
    """
    by_name = {one.name: one for one in table.columns}
    time = by_name[section.time]
    typed = table.frames["train"][section.time].dtype
    if typed != pl.Datetime("us") and not typed.is_numeric():
        raise DataMistake(
            Problem(
                f"no row has a time in {section.time!r}",
                path="data.time",
                found="an empty column",
                expected="dates, months such as 1949-01, or whole numbers",
                fix="name the column that says when",
                place=Place(table.facts.files[0].path),
            )
        )
    kind: Kind = "datetime" if typed == pl.Datetime("us") else "numeric"
    target = ColumnType(section.target, "numeric", "target", 0, 0, "")
    features = tuple(
        one
        for one in table.columns
        if one.kind in ("numeric", "categorical") and one.name not in (section.time, section.series)
    )
    return SeriesColumns(replace(time, kind=kind), target, section.series, features)
