"""Plot data of forecasts: errors by step of the horizon, and the newest forecasts beside the
truth."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from trainwright.data.base.inputs import Floats, Integers, Part
from trainwright.data.series.lookback import ORIGIN, STEP
from trainwright.data.series.origins import time_and_series
from trainwright.evaluation.curves.plot_data import (
    BySteps,
    ForecastCurves,
    ForecastIntervals,
    ForecastPath,
)
from trainwright.evaluation.metrics.forecast_errors import in_error_units, pinballs, scaled_errors
from trainwright.evaluation.metrics.metric_values import interval_widths, is_inside
from trainwright.evaluation.metrics.predictions import Answers

_MOST_SERIES, _MOST_TIMES = 3, 400


def draw_forecasts(part: Part, answers: Mapping[str, Answers], model: str) -> ForecastCurves:
    """Curves of the answers of the model, called `model`, and of the baselines."""
    steps = part.frame[STEP].cast(pl.Int64).to_numpy()
    found = np.unique(steps)
    counts = scaled_errors(answers[model])[:, 1]

    def by_step(values: Callable[[Answers], Floats]) -> BySteps:
        return {name: _means(one, values(one), steps, found) for name, one in answers.items()}

    quantiles = answers[model].quantiles
    intervals = (
        ForecastIntervals(
            said=quantiles[-1] - quantiles[0],
            coverage={name: _shares(is_inside(one), steps, found) for name, one in answers.items()},
            width=by_step(interval_widths),
            pinball=by_step(pinballs),
        )
        if quantiles
        else None
    )
    return ForecastCurves(
        "mase" if counts.any() else "mae",
        tuple(int(step) for step in found),
        by_step(lambda one: np.abs(one.truth - one.values())),
        tuple(_paths(part, answers[model], steps)),
        (intervals,) if intervals else (),
    )


def _means(answers: Answers, values: Floats, steps: Integers, found: Integers) -> tuple[float, ...]:
    """Mean of values [N] at each step, in units of the error that counts as 1 where a series has
    one."""
    columns = in_error_units(answers, values)
    if not columns[:, 1].any():
        columns = np.stack([values, np.ones(len(values))], axis=1)
    at = np.searchsorted(found, steps)
    sums = np.stack([np.bincount(at, one, len(found)) for one in columns.T])
    return tuple(float(one) for one in sums[0] / np.maximum(1, sums[1]))


def _shares(inside: npt.NDArray[Any], steps: Integers, found: Integers) -> tuple[float, ...]:
    at = np.searchsorted(found, steps)
    counts = np.bincount(at, inside.astype(np.float64), len(found))
    return tuple(float(one) for one in counts / np.bincount(at, minlength=len(found)))


def _paths(part: Part, answers: Answers, steps: Integers) -> list[ForecastPath]:
    time, series = time_and_series(part.frame)
    names = part.frame[series] if series else pl.repeat("", len(part), eager=True)
    origins = part.frame[ORIGIN].to_physical().to_numpy()
    paths = []
    for name in names.unique().sort().to_list()[:_MOST_SERIES]:
        rows = np.flatnonzero((names == name).to_numpy())
        rows = _without_overlap(rows, origins, steps)
        if not len(rows):
            continue
        times = part.frame[time].gather(rows).cast(pl.String).to_list()
        begins = np.flatnonzero(np.diff(origins[rows], prepend=np.nan) != 0)
        paths.append(
            ForecastPath(
                str(name),
                tuple(times),
                _floats(answers.truth[rows]),
                _floats(answers.values()[rows]),
                tuple(int(one) for one in begins),
                *_interval(answers, rows),
            )
        )
    return paths


def _without_overlap(rows: Integers, origins: Floats | Integers, steps: Integers) -> Integers:
    """The forecasts of the newest origin, of the one a horizon before it, and so on."""
    of_rows = origins[rows]
    apart = np.unique(of_rows)
    horizon = int(steps.max())
    chosen = apart[::-1][::horizon][: max(1, _MOST_TIMES // horizon)][::-1]
    kept = rows[np.isin(of_rows, chosen)]
    return kept[np.lexsort((steps[kept], origins[kept]))]


def _interval(answers: Answers, rows: Integers) -> tuple[tuple[float, ...], ...]:
    if not answers.quantiles:
        return ()
    return tuple(_floats(answers.scores[rows, end]) for end in (0, -1))


def _floats(values: Floats) -> tuple[float, ...]:
    return tuple(float(one) for one in values)
