"""What an evaluation must warn of: leakage, and too few rows to say anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trainwright.contract.metric import METRICS
from trainwright.core.units import show_number
from trainwright.evaluation.intervals import Interval
from trainwright.evaluation.measuring import Measured

NEAR_PERFECT = 0.995
"""A linear model that reaches this on real data most often sees the answer in a column."""

_FEW_ROWS = 100
_FEW_UNITS = 30
_JUDGED = ("roc_auc", "r2")


@dataclass(frozen=True, slots=True)
class Size:
    """How many rows were judged, and how many independent units they are."""

    rows: int
    units: int


def find_warnings(
    size: Size,
    metrics: Mapping[str, Measured],
    linear: Mapping[str, Interval],
    shares: Mapping[str, float],
) -> tuple[str, ...]:
    """Warnings in plain English, the gravest first.

    `metrics` are the model's, `linear` those of the linear baseline (empty: none was fitted), of
    which a score without an interval says nothing: two rows are often in the right order;
    `shares` is how much of that baseline each column carries (empty: unknown).
    """
    found = [
        _leak(name, linear[name].value, shares)
        for name in _JUDGED
        if name in linear and linear[name].given and linear[name].value >= NEAR_PERFECT
    ]
    if size.rows < _FEW_ROWS:
        found.append(f"only {size.rows} rows were judged: the intervals are wide")
    if size.units < min(size.rows, _FEW_UNITS):
        found.append(
            f"the {size.rows:,} rows are only {size.units} independent units (groups or stretches "
            "of time): the intervals rest on those"
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
    return tuple(found)


def find_beaten(
    metric: str,
    own: Mapping[str, Interval],
    linear: Mapping[str, Interval],
    gains: Mapping[str, Interval],
) -> tuple[str, ...]:
    """A warning where the linear baseline is better than the model in the contract's metric, over
    the whole interval of their difference (`gains`, model minus baseline)."""
    gain = gains.get(metric)
    if gain is None or not gain.given:
        return ()
    if gain.high >= 0 if METRICS[metric].direction == "max" else gain.low <= 0:
        return ()
    values = f"{show_number(linear[metric].value)} against {show_number(own[metric].value)}"
    return (f"the linear baseline is better than the model: {metric} {values}",)


def _leak(metric: str, value: float, shares: Mapping[str, float]) -> str:
    text = (
        f"leakage? the linear baseline alone reaches {metric} {value:.4f}: a column may hold the "
        "answer"
    )
    if not shares:
        return text
    column = max(shares, key=lambda name: shares[name])
    return (
        f"{text}; look at {column!r}, which carries {shares[column]:.0%} of it, and exclude it "
        "unless it is known when the prediction is made"
    )
