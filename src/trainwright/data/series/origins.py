"""Origins of forecasts: which train, which steer the training, which are judged."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from trainwright.core.errors import DataMistake, Problem
from trainwright.data.base.table import Floats, Integers, PartName
from trainwright.data.series.lookback import ForecastRows, all_rows

FEWEST_BLOCKS = 5
"""Blocks of origins that an interval takes."""

_TEST_SHARE, _MOST_SHARE = 0.15, 4


@final
@dataclass(frozen=True, slots=True)
class OriginSplit:
    """The steps of T that end the training part and the validation part: `trained` is the last step
    of the training part and `validated` that of the validation part, after which the test part
    begins. A forecast belongs to the part in which its origin and its step lie; the last step of a
    part is the first origin of the next."""

    steps: int
    trained: int
    validated: int
    horizon: int
    season: int

    def origins(self, part: PartName, fewest: int) -> Integers:
        """The origins of a part, ascending: those of validation and test have their whole horizon
        within it; the first ones of the training have `fewest` steps behind them."""
        match part:
            case "train":
                return np.arange(fewest - 1, self.trained)
            case "validation":
                return np.arange(self.trained, self.validated - self.horizon + 1)
            case "test":
                return np.arange(self.validated, self.steps - self.horizon)

    def end(self, part: PartName) -> int:
        """The last step that a part forecasts."""
        return {"train": self.trained, "validation": self.validated, "test": self.steps - 1}[part]

    def rows(self, part: PartName, values: Floats, fewest: int, most_rows: int) -> ForecastRows:
        """Forecasts of a part for series with these values [S, T], each with a known target; of
        more than `most_rows`, those of evenly spaced origins, which fall on all places of a
        season."""
        origins = self.origins(part, fewest)
        stride = max(1, -(-len(origins) * len(values) * self.horizon // most_rows))
        while math.gcd(stride, self.season) > 1:
            stride += 1
        chosen = origins[::-1][::stride][::-1]
        series = np.repeat(np.arange(len(values)), len(chosen))
        rows = all_rows(series, np.tile(chosen, len(values)), self.horizon)
        rows = rows.take(rows.at <= self.end(part))
        return rows.take(np.isfinite(values[rows.series, rows.at]))


def split_origins(
    steps: int, horizon: int, season: int, validation: str | int, test: str | int
) -> OriginSplit:
    """The split of T steps; `auto` sizes as the contract says.

    Raises:
        DataMistake: the history is too short.
    """
    of_test = test if isinstance(test, int) else _usual_steps(steps, horizon)
    of_validation = validation if isinstance(validation, int) else of_test
    problems = [
        Problem(
            f"the {part} part is shorter than the horizon",
            path=f"data.{part}_steps",
            found=f"{size} steps",
            expected=f"at least {horizon}",
            fix=f"write {part}_steps: {horizon}",
        )
        for part, size in (("validation", of_validation), ("test", of_test))
        if size < horizon
    ]
    least = of_test + of_validation + season + horizon
    if not problems and steps < least:
        problems.append(
            Problem(
                "the history is too short",
                path="data.horizon",
                found=f"{steps} time steps",
                expected=f"at least {least}: a season of {season} and a horizon of {horizon} to "
                f"learn from, {of_validation} to validate, {of_test} to test",
                fix="give a longer history, or lower horizon, season, validation_steps or "
                "test_steps",
            )
        )
    if problems:
        raise DataMistake(problems)
    validated = steps - 1 - of_test
    return OriginSplit(steps, validated - of_validation, validated, horizon, season)


def _usual_steps(steps: int, horizon: int) -> int:
    return max(round(_TEST_SHARE * steps), min(2 * horizon, steps // _MOST_SHARE), horizon)


def resampling_units(rows: ForecastRows, horizon: int) -> tuple[Integers, str]:
    """The unit [N] of each forecast that an interval resamples, and what it is.

    Forecasts of near origins share most of their truth, and series move together: a unit is a block
    of origins as long as the horizon, with all series. Of too few blocks the series are resampled,
    which says nothing of other times.
    """
    first = int(rows.origins.min()) if len(rows) else 0
    blocks = (rows.origins - first) // horizon
    count = len(np.unique(blocks))
    series = len(np.unique(rows.series))
    if count < FEWEST_BLOCKS <= series:
        return rows.series, f"{series} series are resampled, since there are {count} blocks"
    said = f"{count} blocks of {horizon} origins are resampled"
    if count < FEWEST_BLOCKS:
        wanted = (FEWEST_BLOCKS + 1) * horizon - 1
        said += f", too few for an interval: data.test_steps: {wanted} gives enough"
    return blocks, said
