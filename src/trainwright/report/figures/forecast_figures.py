"""Figures of forecasts: the newest ones beside the truth, and errors by step."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from trainwright.evaluation.clause import DUMMY
from trainwright.evaluation.curves.plot_data import (
    BySteps,
    ForecastCurves,
    ForecastIntervals,
    ForecastPath,
)
from trainwright.evaluation.evaluate import MODEL
from trainwright.report.figures.svg_figure import (
    DASHES,
    MUTED,
    SERIES,
    Figure,
    Key,
    Panel,
    draw_svg,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_forecast_curves(curves: ForecastCurves) -> tuple[Figure, ...]:
    """A figure of the newest forecasts of each series, and one of errors by step."""
    paths = [_path(number, path) for number, path in enumerate(curves.paths)]
    if len(curves.steps) < 2:
        return tuple(paths)
    of_intervals = [
        figure
        for one in curves.intervals
        for figure in (_coverage(curves.steps, one), _widths(curves.steps, curves.metric, one))
    ]
    return (*paths, _by_step(curves), *of_intervals)


def _path(number: int, path: ForecastPath) -> Figure:
    times = _axis(path.times)
    truth, forecast = np.array(path.truth), np.array(path.forecast)
    pieces = np.split(np.arange(len(times)), path.begins[1:])
    low, high = np.array(path.low), np.array(path.high)

    def draw(axes: Axes) -> None:
        for piece in pieces if len(low) else ():
            axes.fill_between(
                times[piece], low[piece], high[piece], color=SERIES[1], alpha=0.25, linewidth=0
            )
        axes.plot(times, truth, color=SERIES[0], linewidth=1.2)
        for piece in pieces:
            axes.plot(times[piece], forecast[piece], color=SERIES[1], linewidth=1.4)
            axes.axvline(times[piece[0]], color=SERIES[1], linewidth=0.6, linestyle=":")
        axes.set_ylabel("target")
        _few_dates(axes, times)

    of_series = f" of {path.series}" if path.series else ""
    band = ", with the interval of each" if len(low) else ""
    origins = "1 origin" if len(pieces) == 1 else f"{len(pieces)} origins, a horizon apart"
    return Figure(
        f"Newest forecasts{of_series}",
        f"True and forecast values{of_series} of the newest test origins over time",
        draw_svg(Panel(f"forecasts{number}", draw)),
        f"Test forecasts from {origins} (dotted){band}, each made without what came after it.",
        (Key(0, "true"), Key(1, "forecast")),
    )


def _by_step(curves: ForecastCurves) -> Figure:
    names = _shown(curves.errors)

    def draw(axes: Axes) -> None:
        _lines(axes, curves.steps, curves.errors)
        axes.set_ylabel(curves.metric)
        axes.set_ylim(bottom=0)

    return Figure(
        "Error by step",
        f"Mean error ({curves.metric}) of the model and the baselines at each step of the horizon",
        draw_svg(Panel("steps", draw)),
        f"{curves.metric} of all test origins at each step. An error that grows faster than that "
        "of the baselines says how far ahead the model is of use.",
        tuple(Key(number, name) for number, name in enumerate(names)),
    )


def _coverage(steps: Sequence[int], found: ForecastIntervals) -> Figure:
    names = _shown(found.coverage)

    def draw(axes: Axes) -> None:
        _lines(axes, steps, found.coverage)
        axes.axhline(found.said, color=MUTED, linestyle="--", linewidth=1)
        axes.set_ylabel("coverage")

    return Figure(
        "Coverage by step",
        "Share of test forecasts inside the interval of the model and of the baselines by step",
        draw_svg(Panel("coverage", draw)),
        f"Share of the true values inside the interval at each step; it says {found.said:.0%} "
        "(dashed).",
        tuple(Key(number, name) for number, name in enumerate(names)),
    )


def _widths(steps: Sequence[int], unit: str, found: ForecastIntervals) -> Figure:
    names = _shown(found.width)

    def draw(axes: Axes) -> None:
        _lines(axes, steps, found.width)
        axes.set_ylabel("width" if unit == "mae" else "width / scale")
        axes.set_ylim(bottom=0)

    of_scale = "" if unit == "mae" else ", in units of the error that counts as 1 in mase"
    return Figure(
        "Width by step",
        "Mean width of the interval of the model and of the baselines at each step",
        draw_svg(Panel("widths", draw)),
        f"Mean width of the interval at each step{of_scale}. Of two that cover alike the narrower "
        "is better.",
        tuple(Key(number, name) for number, name in enumerate(names)),
    )


def _shown(values: BySteps) -> list[str]:
    """The model and the baselines but the mean of the training rows, which would set the scale of
    a figure."""
    return [MODEL, *sorted(set(values) - {MODEL, DUMMY})][: len(SERIES)]


def _lines(axes: Axes, steps: Sequence[int], values: BySteps) -> None:
    for number, name in enumerate(_shown(values)):
        axes.plot(steps, values[name], color=SERIES[number], linestyle=DASHES[number // 5])
    axes.set_xlabel("steps from the origin")


def _few_dates(axes: Axes, times: npt.NDArray[Any]) -> None:
    if times.dtype.kind != "M":
        return
    # Its functions have no types.
    dates: Any = import_module("matplotlib.dates")
    locator = dates.AutoDateLocator(minticks=3, maxticks=6)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))


def _axis(times: tuple[str, ...]) -> npt.NDArray[Any]:
    try:
        return np.array([float(one) for one in times])
    except ValueError:
        return np.array(times, dtype="datetime64[us]")
