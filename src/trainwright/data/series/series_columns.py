"""Columns of series: how rows of any file become a panel, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np
import polars as pl

from trainwright.core.errors import DataMistake, Place, Problem
from trainwright.core.files import Json
from trainwright.core.formatting import many
from trainwright.data.base.inputs import Integers
from trainwright.data.base.parse_cells import to_labels
from trainwright.data.columns.column_kinds import ColumnType
from trainwright.data.series.panel import (
    SeriesPanel,
    TimeSpacing,
    build_panel,
    infer_spacing,
    missing_steps,
)

ONE_SERIES = "all rows"
"""The name of the series where no column names one."""

_MOST_SHOWN = 3
_MOST_MISSING = 0.5


@final
@dataclass(frozen=True, slots=True)
class RowPlaces:
    """Where rows stand in their file: what messages say of them."""

    text: Callable[[Integers], str]
    place: Callable[[int], Place]


@final
@dataclass(frozen=True, slots=True)
class SeriesColumns:
    """The columns that are read: time, target, known ones and others. `series` is empty where all
    rows are one."""

    time: ColumnType
    target: ColumnType
    series: str
    features: tuple[ColumnType, ...]

    @property
    def every(self) -> tuple[ColumnType, ...]:
        """All that a file must have, in order."""
        named = ColumnType(self.series, "categorical", "series", 0, 0, "")
        return (self.time, *([named] if self.series else []), self.target, *self.features)

    def to_json(self) -> Json:
        """What `from_json` reads."""
        return {
            "time": self.time.to_json(),
            "target": self.target.to_json(),
            "series": self.series,
            "features": [one.to_json() for one in self.features],
        }

    @classmethod
    def from_json(cls, json: Json) -> SeriesColumns:
        """Inverse of `to_json`."""
        return cls(
            ColumnType.from_json(json["time"]),
            ColumnType.from_json(json["target"]),
            json["series"],
            tuple(ColumnType.from_json(one) for one in json["features"]),
        )

    def panel(
        self, frame: pl.DataFrame, places: RowPlaces, spacing: TimeSpacing | None = None
    ) -> SeriesPanel:
        """The panel of typed rows, with the spacing of the training, if it is known.

        Raises:
            DataMistake: a time is missing, irregular or there twice.
        """
        times, names = frame[self.time.name], self._names(frame)
        self._check_there(times, names, places)
        codes = names.cast(pl.Categorical).to_physical().cast(pl.Int64).to_numpy()
        self._check_duplicates(times, times, names, codes, places)
        found = spacing or infer_spacing(times, codes)
        numbers, fits = found.numbers(times)
        self._check_spacing(times, fits, found, places)
        self._check_duplicates(pl.Series(numbers), times, names, codes, places)
        # A panel of mostly nothing may be larger than memory.
        self._check_gaps(times, codes, numbers, found)
        values = frame[self.target.name].cast(pl.Float64).fill_null(np.nan).to_numpy()
        return build_panel(frame, values, names, numbers, found)

    def _names(self, frame: pl.DataFrame) -> pl.Series:
        if not self.series:
            return pl.repeat(ONE_SERIES, frame.height, eager=True, dtype=pl.String)
        return to_labels(frame[self.series])

    def _check_there(self, times: pl.Series, names: pl.Series, places: RowPlaces) -> None:
        problems = []
        for key, cells in (("time", times), ("series", names)):
            missing = cells.is_null().arg_true().cast(pl.Int64).to_numpy()
            if len(missing):
                problems.append(
                    Problem(
                        f"{many(len(missing), 'row has', 'rows have')} no {key}",
                        path=f"data.{key}",
                        found=places.text(missing),
                        expected=f"a {key} in every row",
                        fix="complete these rows, or remove them",
                        place=places.place(int(missing[0])),
                    )
                )
        if problems:
            raise DataMistake(problems)

    def _check_duplicates(
        self,
        steps: pl.Series,
        times: pl.Series,
        names: pl.Series,
        codes: Integers,
        places: RowPlaces,
    ) -> None:
        rows = pl.DataFrame({"time": steps, "series": codes})
        again = rows.is_duplicated().arg_true().cast(pl.Int64).to_numpy()
        if not len(again):
            return
        first = int(again[0])
        same = np.flatnonzero((rows["time"] == steps[first]).to_numpy() & (codes == codes[first]))
        of_series = f" of {names[first]!r}" if self.series else ""
        raise DataMistake(
            Problem(
                f"{many(len(again), 'row shares', 'rows share')} a time with another row of the "
                "same series",
                path="data.time",
                found=f"{times[first]}{of_series} in {places.text(same)}",
                expected="one row for each series and time",
                fix="remove the repeated rows, or name the column that tells them apart in "
                "data.series"
                if not self.series
                else "remove the repeated rows, or aggregate them beforehand",
                place=places.place(int(same[-1])),
            )
        )

    def _check_spacing(
        self, times: pl.Series, fits: np.ndarray, spacing: TimeSpacing, places: RowPlaces
    ) -> None:
        wrong = np.flatnonzero(~fits)
        if not len(wrong):
            return
        raise DataMistake(
            Problem(
                f"{many(len(wrong), 'time is', 'times are')} not equally spaced with the others",
                path="data.time",
                found=f"{times[int(wrong[0])]} in {places.text(wrong)}",
                expected=f"times a {spacing.name} apart, as most are",
                fix=f"aggregate the rows to equal steps beforehand, to means of a {spacing.name}",
                place=places.place(int(wrong[0])),
            )
        )

    def _check_gaps(
        self, times: pl.Series, codes: Integers, numbers: Integers, spacing: TimeSpacing
    ) -> None:
        """Most steps between the first and the last row of a series have a row: `codes` and
        `numbers` [N] are the series and the step of each."""
        rows = pl.DataFrame({"series": codes, "step": numbers}).group_by("series")
        ends = rows.agg(pl.col("step").min().alias("first"), pl.col("step").max().alias("last"))
        steps = int((ends["last"] - ends["first"] + 1).sum())
        if steps - len(codes) <= _MOST_MISSING * steps:
            return
        raise DataMistake(
            Problem(
                "most time steps have no row",
                path="data.time",
                found=f"{len(codes):,} rows in {steps:,} steps of a {spacing.name} {_ends(times)}",
                expected="times that are equally spaced, with few gaps",
                fix="aggregate the rows to equal steps beforehand, or name the column of the "
                "series in data.series",
            )
        )


def _ends(times: pl.Series) -> str:
    ordered = times.sort()
    return f"from {ordered[0]} to {ordered[-1]}"


def describe_gaps(panel: SeriesPanel) -> list[str]:
    """Notes on steps without a row, and on unknown values."""
    missing = missing_steps(panel)
    there = panel.rows >= 0
    unknown = int((there & ~np.isfinite(panel.values)).sum())
    said = []
    if missing:
        shown = [f"{panel.times(np.array([step]))[0]}" for _, step in missing[:_MOST_SHOWN]]
        more = f" and {len(missing) - len(shown):,} more" if len(missing) > len(shown) else ""
        steps = many(len(missing), "time step has", "time steps have")
        listed = f"{', '.join(shown)}{more}"
        said.append(f"{steps} no row ({listed}): the values are unknown, and none is made up")
    if unknown:
        said.append(f"{many(unknown, 'row has', 'rows have')} no target, which counts as unknown")
    return said
