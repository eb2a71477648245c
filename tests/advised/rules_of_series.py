"""Contracts about series that contradict themselves or their rows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta

from advised.cases import ROWS, Case, csv

DAYS = [date(2024, 1, 1) + timedelta(at) for at in range(ROWS)]
SHOPS = ["north"] * (ROWS // 2) + ["south"] * (ROWS // 2)
LATER = [*DAYS[: ROWS // 2], *(one + timedelta(400) for one in DAYS[ROWS // 2 :])]
TWICE = [*DAYS[: ROWS // 2], *DAYS[: ROWS // 2]]


def _visits(days: Sequence[object], known_from: int = 0) -> str:
    visits = [at * 7 % 23 + at / 4 if at >= known_from else "" for at in range(ROWS)]
    return csv(day=list(days), y=visits, shop=SHOPS)


DAILY = _visits(DAYS)
SERIES = "data={kind: series, path: rows.csv, target: y, time: day, horizon: %d, season: 1}"
WEEK = SERIES % 7
TREES = "model={kind: boosting}"
SHORTER = "give a longer history, or lower horizon, season, validation_steps or test_steps"

CASES = (
    Case(
        "write test_steps: 7, or lower data.horizon",
        (WEEK, TREES, "data.test_steps=3"),
        rows=DAILY,
    ),
    Case(
        "remove relation, or change relative_to",
        (WEEK, TREES, "data.relative_to=nothing", "data.relation=difference"),
        does=("data.relative_to=last_value",),
        rows=DAILY,
    ),
    Case(
        "write data.relation: difference",
        (WEEK, TREES, "data.relation=ratio"),
        rows=DAILY,
    ),
    Case("remove serving.latency_ms", (WEEK, TREES, "serving.latency_ms=50"), rows=DAILY),
    Case(
        "choose boosting, or remove metric.quantiles",
        (WEEK, "model={kind: neighbours}", "metric.quantiles=[0.1, 0.5, 0.9]"),
        rows=DAILY,
    ),
    Case(
        "remove training.calibration, or add for example metric.quantiles: [0.05, 0.5, 0.95]",
        (WEEK, "model={kind: mlp}", "training={calibration: conformal, num_epochs: 2}"),
        rows=DAILY,
    ),
    *(
        Case("choose one of them", (WEEK, TREES, setting), does=(mended,), rows=DAILY)
        for setting, mended in (
            ("metric.name=rmsle", "metric.name=mae"),
            ("slices=[{column: shop_at_origin, metric: poisson_deviance}]", "slices.0.metric=mase"),
        )
    ),
    Case(
        "change it, or remove training.loss",
        (WEEK, "model={kind: mlp}", "training={loss: {name: poisson}, num_epochs: 2}"),
        does=("training.loss.name=mae",),
        rows=DAILY,
    ),
    Case(
        "remove data.features.history",
        (WEEK, TREES, "data.features.history={time: day, columns: [x], lags: [1], horizon: 1}"),
        rows=DAILY,
    ),
    Case(
        "train each in a run of its own, and compare the runs: trainwright runs compare",
        (WEEK, "model={kind: auto}"),
        does=("model.kind=boosting",),
        rows=DAILY,
    ),
    Case(SHORTER, (SERIES % 60, TREES), does=("data.horizon=7",), rows=DAILY),
    Case(
        SHORTER,
        (WEEK, TREES, "data.validation_steps=50"),
        does=("data.validation_steps=10",),
        rows=_visits(DAYS, known_from=60),
    ),
    Case(
        "write data.time_format, for example '%d %B %Y', or repair these rows",
        (WEEK, TREES),
        does=("data.time_format='%d of %B %Y'",),
        rows=_visits([one.strftime("%d of %B %Y") for one in DAYS]),
    ),
    Case(
        "add the spelling to data.missing_values, or repair these rows",
        (WEEK, TREES),
        rows=DAILY.replace(",6.0,", ",unknown,"),
    ),
    Case(
        "remove the repeated rows, or name the column that tells them apart in data.series",
        (WEEK, TREES),
        does=("data.series=shop",),
        rows=_visits(TWICE),
    ),
    Case(
        "aggregate the rows to equal steps beforehand, or name the column of the series in "
        "data.series",
        (WEEK, TREES, "data.test_steps=14", "data.validation_steps=14"),
        does=("data.series=shop",),
        rows=_visits(LATER),
    ),
    Case(
        "remove it, or add the column to data.known",
        (WEEK, "model={kind: boosting, monotone: {x: increasing}}"),
        does=("data.known=[x]",),
        rows=DAILY,
    ),
)
