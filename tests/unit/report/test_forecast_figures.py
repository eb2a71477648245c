"""Figures of forecasts: of any length of time, with an interval or without one."""

from __future__ import annotations

import polars as pl
import pytest

from trainwright.evaluation.curves.plot_data import (
    ForecastCurves,
    ForecastIntervals,
    ForecastPath,
    curves_from_json,
    curves_to_json,
)
from trainwright.report.figures.forecast_figures import draw_forecast_curves


def curves(times: list[str], *, with_interval: bool) -> ForecastCurves:
    truth = tuple(float(at) for at in range(len(times)))
    low, high = (tuple(one + away for one in truth) for away in (-1, 1))
    each = {"model": (0.8, 0.7), "seasonal_naive": (0.5, 0.6), "dummy": (0.0, 0.1)}
    path = ForecastPath("a", tuple(times), truth, truth, (0,))
    intervals = ForecastIntervals(0.8, each, each, each)
    if with_interval:
        path = ForecastPath("a", tuple(times), truth, truth, (0,), low, high)
    return ForecastCurves("mase", (1, 2), each, (path,), (intervals,) if with_interval else ())


@pytest.mark.extended
@pytest.mark.parametrize("months", [2, 7, 20, 35, 36, 41, 60, 119])
def test_every_length_of_time_has_dates_without_a_warning(months: int) -> None:
    """A warning is an error here."""
    at = [f"{1950 + month // 12}-{month % 12 + 1:02d}-01 00:00:00" for month in range(months)]
    (path, *_) = draw_forecast_curves(curves(at, with_interval=True))
    assert "with the interval of each" in path.caption


def test_hours_have_dates_too() -> None:
    hours = pl.datetime_range(
        pl.datetime(2020, 1, 1), pl.datetime(2020, 1, 17), "1h", eager=True, closed="left"
    )
    at = hours.dt.to_string("%Y-%m-%d %H:%M:%S").to_list()
    assert draw_forecast_curves(curves(at, with_interval=False))


@pytest.mark.extended
def test_an_interval_has_figures_of_its_own() -> None:
    found = curves(["1.0", "2.0"], with_interval=True)
    titles = [figure.title for figure in draw_forecast_curves(found)]
    assert titles == ["Newest forecasts of a", "Error by step", "Coverage by step", "Width by step"]
    # The mean of the training rows would set the scale.
    names = [key.name for key in draw_forecast_curves(found)[-1].keys]
    assert names == ["model", "seasonal_naive"]
    plain = draw_forecast_curves(curves(["1.0", "2.0"], with_interval=False))
    assert [figure.title for figure in plain] == titles[:2]
    assert "interval" not in plain[0].caption


def test_curves_are_read_back_and_so_are_those_without_an_interval() -> None:
    found = curves(["1.0", "2.0"], with_interval=True)
    json = curves_to_json(found)
    assert curves_from_json(json) == found
    older = {key: value for key, value in json.items() if key != "intervals"}
    older["paths"] = [
        {key: value for key, value in one.items() if key not in ("low", "high")}
        for one in json["paths"]
    ]
    assert curves_from_json(older) == curves(["1.0", "2.0"], with_interval=False)
