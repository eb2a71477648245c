"""Evaluation warnings: leakage, weak targets and too few rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from trainwright.contract.sections.metric import METRICS, ONE_SIDED, Direction, Metric
from trainwright.core.formatting import many, show_number
from trainwright.data.base.inputs import Part
from trainwright.data.columns.target import Target
from trainwright.evaluation.baselines.naive_forecasts import DRIFT, PERSISTENCE, SEASONAL
from trainwright.evaluation.intervals.bootstrap import Interval
from trainwright.evaluation.intervals.resampled_metrics import OF_POSITIVES, ResampledMetric

NEAR_PERFECT = 0.995
"""A linear model that reaches this on real data most often has a leaking column."""

_SUSPECT = 0.05
"""Contribution of a column below which no single one is suspect: hundreds of words jointly may
be."""

_MOST = 0.5
"""Contribution from which a column alone is suspect."""

_FEW_ROWS = 100
_FEW_UNITS = 30
_FORECASTS = {
    PERSISTENCE: "the naive forecast (last known target)",
    SEASONAL: "the seasonal naive forecast",
    DRIFT: "the drift forecast (last value and mean change)",
}
_SUSPECTED = ("roc_auc", "r2")
MOST_ZEROS = 0.1
"""Share of targets of 0 from which on a mean percentage error is that of the other rows only."""

_OF_SERIES = ("mase", "scaled_pinball")
_OF_TWO_VALUES = ("roc_auc", "quadratic_kappa", "r2")


@dataclass(frozen=True, slots=True)
class Size:
    """Number of evaluated rows and independent units."""

    rows: int
    units: int


@dataclass(frozen=True, slots=True)
class LinearBaseline:
    """The linear baseline: its metrics, and the contribution of each column (empty: unknown). Both
    are empty without a linear baseline."""

    metrics: Mapping[str, Interval]
    shares: Mapping[str, float]


def find_warnings(
    size: Size, metrics: Mapping[str, ResampledMetric], linear: LinearBaseline
) -> tuple[str, ...]:
    """Warnings, most severe first.

    `metrics` are the model's. A score of the linear baseline without an interval is no evidence:
    two rows are often ranked correctly.
    """
    found = [
        _leak(name, one.value, linear.shares)
        for name in _SUSPECTED
        if (one := linear.metrics.get(name)) and one.given and one.value >= NEAR_PERFECT
        if not linear.shares or max(linear.shares.values()) >= _SUSPECT
    ]
    if size.rows < _FEW_ROWS:
        rows = many(size.rows, "row was", "rows were")
        found.append(f"only {rows} evaluated: the intervals are wide")
    if size.units < min(size.rows, _FEW_UNITS):
        found.append(
            f"the {size.rows:,} rows are only {many(size.units, 'independent unit')} (groups or "
            "time blocks), which the intervals are based on"
        )
    without = [name for name, one in metrics.items() if not one.interval.given]
    if without:
        found.append(
            "no interval for " + ", ".join(without) + ": too few rows or too few of a class"
        )
    partly = [name for name, one in metrics.items() if one.interval.given and one.undefined]
    if partly:
        most = max(metrics[name].undefined for name in partly)
        found.append(
            f"up to {most:.1%} of the resamples lacked a class and were excluded from the "
            "intervals of " + ", ".join(partly)
        )
    return tuple(found)


def low_target(metric: Metric, dummy: Mapping[str, ResampledMetric]) -> tuple[str, ...]:
    """Warning for a target that the dummy reaches."""
    if isinstance(metric.target, str) or metric.name not in dummy or metric.name in ONE_SIDED:
        return ()
    value = dummy[metric.name].interval.value
    is_max = METRICS[metric.name].direction == "max"
    if not (value >= metric.target if is_max else value <= metric.target):
        return ()
    asked = f"{metric.name} {'>=' if is_max else '<='} {metric.target:g}"
    return (
        f"the target proves nothing: it asks for {asked}, and the dummy, which ignores the "
        f"features, has {show_number(value)}",
    )


def wrong_coverage(
    quantiles: tuple[float, ...], own: Mapping[str, ResampledMetric]
) -> tuple[str, ...]:
    """Warning that the interval covers another share of the rows than its quantiles say, on either
    side."""
    if not quantiles:
        return ()
    said, coverage = quantiles[-1] - quantiles[0], own["coverage"].interval
    if not coverage.given or coverage.low <= said <= coverage.high:
        return ()
    side = "fewer" if coverage.value < said else "more"
    return (
        f"the interval covers {side} rows than its quantiles say: {show_number(coverage.value)} "
        f"({coverage.bounds}), and they say {said:g}",
    )


def better_baselines(
    judged: str, own: Mapping[str, ResampledMetric], gains: Mapping[str, Mapping[str, Interval]]
) -> tuple[str, ...]:
    """Warning for each baseline that is significantly better; `gains` holds, by its name, those of
    the model over it on every metric."""
    warnings = []
    for who, gain in gains.items():
        if judged in gain and _is_worse(gain[judged], METRICS[judged].direction):
            value = own[judged].interval.value
            values = f"{show_number(value - gain[judged].value)} against {show_number(value)}"
            name = _FORECASTS.get(who, f"the {who} baseline")
            warnings.append(f"{name} is better than the model: {judged} {values}")
    return tuple(warnings)


def _is_worse(gain: Interval, direction: Direction) -> bool:
    """Is the model worse over the whole interval?"""
    return gain.given and (gain.high < 0 if direction == "max" else gain.low > 0)


def _leak(metric: str, value: float, shares: Mapping[str, float]) -> str:
    text = f"leakage? the linear baseline alone reaches {metric} {value:.4f}: "
    easy = "easy to learn, or the target leaks into"
    if not shares:
        return f"{text}{easy} the inputs"
    column = max(shares, key=lambda name: shares[name])
    if shares[column] < _MOST:
        return f"{text}{easy} several columns; {column!r} contributes most, {shares[column]:.0%}"
    return (
        f"{text}a column may leak the target; check {column!r}, which contributes "
        f"{shares[column]:.0%}, and exclude it unless it is known when the "
        "prediction is made"
    )


def why_undefined(metric: str, part: Part, target: Target) -> str:
    """Why a metric has no value on the rows of a part, or none that says much; empty: it has one,
    or the part has no rows."""
    if not len(part):
        return ""
    if metric in _OF_SERIES:
        moved = (part.inputs.levels.error_scale > 0).any()
        return "" if moved else "none of their series changes in its training rows"
    truth = part.target.T if part.target.ndim == 2 else part.target[None]
    if metric == "mape":
        zeros = float((truth == 0).mean(axis=1).max())
        return f"{zeros:.0%} of their targets are 0" if zeros > MOST_ZEROS else ""
    if metric in _OF_TWO_VALUES:
        constant = truth.min(axis=1) == truth.max(axis=1)
        # A mean over labels is that of the labels with both; r2 of one constant has no mean.
        if not (constant.any() if metric == "r2" else constant.all()):
            return ""
        name = target.classes[int(truth[0, 0])] if target.classes else f"{truth[0, 0]:g}"
        return "a target is the same in all of them" if len(truth) > 1 else f"all are {name!r}"
    if metric in OF_POSITIVES and len(target.classes) == 2 and len(truth) == 1:
        positive = target.positive_code
        return "" if (truth == positive).any() else f"none is {target.classes[positive]!r}"
    return ""


def note_undefined(metric: str, part: Part) -> tuple[str, ...]:
    """Warning with the number of rows that do not count in a metric."""
    uncounted, why = np.zeros(0, np.bool_), "have the target 0, of which no error is a share"
    if metric == "mape":
        uncounted = part.target == 0
    elif metric in _OF_SERIES:
        uncounted = ~(part.inputs.levels.error_scale > 0)
        why = "are of series that do not change in their training rows, which give no scale"
    count = int(uncounted.sum())
    return (f"{metric}: {count:,} of {part.target.size:,} values {why}: not counted",) * (count > 0)
