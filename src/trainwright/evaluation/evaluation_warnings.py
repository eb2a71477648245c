"""What an evaluation must warn of: leakage, and too few rows to say anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trainwright.contract.metric import METRICS, Direction, Metric
from trainwright.core.formatting import many, show_number
from trainwright.evaluation.intervals import Interval
from trainwright.evaluation.naive_forecasts import PERSISTENCE, SEASONAL
from trainwright.evaluation.resampled_metrics import ResampledMetric

NEAR_PERFECT = 0.995
"""A linear model that reaches this on real data most often sees the answer in a column."""

_SUSPECT = 0.05
"""Share of a column below which no single one holds the answer: hundreds of words together may."""

_MOST = 0.5
"""Share of a column from which it may hold the answer alone."""

_FEW_ROWS = 100
_FEW_UNITS = 30
_FORECASTS = {
    PERSISTENCE: "repeating the last known target",
    SEASONAL: "repeating the target of a season ago",
}
_SUSPECTED = ("roc_auc", "r2")


@dataclass(frozen=True, slots=True)
class Size:
    """How many rows were judged, and how many independent units they are."""

    rows: int
    units: int


@dataclass(frozen=True, slots=True)
class LinearBaseline:
    """The linear baseline: its metrics, those of the model minus them (paired), and how much of it
    each column carries (empty: unknown). All are empty where none was fitted."""

    metrics: Mapping[str, Interval]
    gains: Mapping[str, Interval]
    shares: Mapping[str, float]


def find_warnings(
    judged: str, size: Size, metrics: Mapping[str, ResampledMetric], linear: LinearBaseline
) -> tuple[str, ...]:
    """Warnings in plain English, the gravest first.

    `judged` is the contract's metric, `metrics` are the model's. A score of the linear baseline
    without an interval says nothing: two rows are often in the right order.
    """
    found = [
        _leak(name, one.value, linear.shares)
        for name in _SUSPECTED
        if (one := linear.metrics.get(name)) and one.given and one.value >= NEAR_PERFECT
        if not linear.shares or max(linear.shares.values()) >= _SUSPECT
    ]
    if size.rows < _FEW_ROWS:
        rows = many(size.rows, "row was", "rows were")
        found.append(f"only {rows} judged: the intervals are wide")
    if size.units < min(size.rows, _FEW_UNITS):
        found.append(
            f"the {size.rows:,} rows are only {many(size.units, 'independent unit')} (groups or "
            "stretches of time): the intervals rest on those"
        )
    without = [name for name, one in metrics.items() if not one.interval.given]
    if without:
        found.append(
            "no interval for " + ", ".join(without) + ": too few rows or too few of a class"
        )
    partly = [name for name, one in metrics.items() if one.interval.given and one.left_out]
    if partly:
        most = max(metrics[name].left_out for name in partly)
        found.append(
            f"up to {most:.1%} of the resamples lacked a class and were left out of the intervals "
            "of " + ", ".join(partly)
        )
    if judged in linear.gains and _is_worse(linear.gains[judged], METRICS[judged].direction):
        own, other = metrics[judged].interval.value, linear.metrics[judged].value
        values = f"{show_number(other)} against {show_number(own)}"
        found.append(f"the linear baseline is better than the model: {judged} {values}")
    return tuple(found)


def low_target(metric: Metric, dummy: Mapping[str, ResampledMetric]) -> tuple[str, ...]:
    """The warning that a target asks for less than a model that knows nothing reaches."""
    if isinstance(metric.target, str) or metric.name not in dummy:
        return ()
    value = dummy[metric.name].interval.value
    is_max = METRICS[metric.name].direction == "max"
    if not (value >= metric.target if is_max else value <= metric.target):
        return ()
    asked = f"{metric.name} {'>=' if is_max else '<='} {metric.target:g}"
    return (
        f"the target proves nothing: it asks for {asked}, and the dummy, which knows nothing of a "
        f"row, has {show_number(value)}",
    )


def better_forecasts(
    judged: str, own: Mapping[str, ResampledMetric], naive: Mapping[str, Mapping[str, Interval]]
) -> tuple[str, ...]:
    """The warning that a forecast without any model is surely better; `naive` holds, by name, the
    gains of the model over each on every metric."""
    found = []
    for who, gains in naive.items():
        if judged in gains and _is_worse(gains[judged], METRICS[judged].direction):
            value = own[judged].interval.value
            values = f"{show_number(value - gains[judged].value)} against {show_number(value)}"
            found.append(f"{_FORECASTS[who]} is better than the model: {judged} {values}")
    return tuple(found)


def _is_worse(gain: Interval, direction: Direction) -> bool:
    """Whether the model is worse over the whole interval."""
    return gain.given and (gain.high < 0 if direction == "max" else gain.low > 0)


def _leak(metric: str, value: float, shares: Mapping[str, float]) -> str:
    text = f"leakage? the linear baseline alone reaches {metric} {value:.4f}: "
    easy = "easy to learn, or the answer stands in"
    if not shares:
        return f"{text}{easy} what the model sees"
    column = max(shares, key=lambda name: shares[name])
    if shares[column] < _MOST:
        return (
            f"{text}{easy} several columns; {column!r} carries the most of it, {shares[column]:.0%}"
        )
    return (
        f"{text}a column may hold the answer; look at {column!r}, which carries "
        f"{shares[column]:.0%} of it, and exclude it unless it is known when the "
        "prediction is made"
    )
