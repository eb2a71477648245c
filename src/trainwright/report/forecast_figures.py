"""Figures of forecasts: the newest ones beside the truth, and errors by step."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from trainwright.evaluation.clause import DUMMY
from trainwright.evaluation.evaluate import MODEL
from trainwright.evaluation.plot_data import ForecastCurves, ForecastPath
from trainwright.report.figures import DASHES, SERIES, Figure, Key, Panel, draw_svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_forecast_curves(curves: ForecastCurves) -> tuple[Figure, ...]:
    """A figure of the newest forecasts of each series, and one of errors by step."""
    paths = [_path(number, path) for number, path in enumerate(curves.paths)]
    return (*paths, *((_by_step(curves),) if len(curves.steps) > 1 else ()))


def _path(number: int, path: ForecastPath) -> Figure:
    times = _axis(path.times)
    truth, forecast = np.array(path.truth), np.array(path.forecast)
    pieces = np.split(np.arange(len(times)), path.begins[1:])

    def draw(axes: Axes) -> None:
        axes.plot(times, truth, color=SERIES[0], linewidth=1.2)
        for piece in pieces:
            axes.plot(times[piece], forecast[piece], color=SERIES[1], linewidth=1.4)
            axes.axvline(times[piece[0]], color=SERIES[1], linewidth=0.6, linestyle=":")
        axes.set_ylabel("target")
        _few_dates(axes, times)

    of_series = f" of {path.series}" if path.series else ""
    origins = "1 origin" if len(pieces) == 1 else f"{len(pieces)} origins, a horizon apart"
    return Figure(
        f"Newest forecasts{of_series}",
        f"True and forecast values{of_series} of the newest test origins over time",
        draw_svg(Panel(f"forecasts{number}", draw)),
        f"Test forecasts from {origins} (dotted), each made without what came after it.",
        (Key(0, "true"), Key(1, "forecast")),
    )


def _by_step(curves: ForecastCurves) -> Figure:
    # The mean of the training rows would set the scale of the figure.
    others = sorted(set(curves.errors) - {MODEL, DUMMY})
    names = [MODEL, *others][: len(SERIES)]

    def draw(axes: Axes) -> None:
        for number, name in enumerate(names):
            axes.plot(
                curves.steps,
                curves.errors[name],
                color=SERIES[number],
                linestyle=DASHES[number // 5],
            )
        axes.set_xlabel("steps from the origin")
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


def _few_dates(axes: Axes, times: npt.NDArray[Any]) -> None:
    if times.dtype.kind != "M":
        return
    # Its functions have no types.
    dates: Any = import_module("matplotlib.dates")
    locator = dates.AutoDateLocator(maxticks=6)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))


def _axis(times: tuple[str, ...]) -> npt.NDArray[Any]:
    try:
        return np.array([float(one) for one in times])
    except ValueError:
        return np.array(times, dtype="datetime64[us]")
