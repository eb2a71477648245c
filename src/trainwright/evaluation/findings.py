"""What an evaluation must warn of: leakage, and too few rows to say anything."""

from __future__ import annotations

from collections.abc import Mapping

from trainwright.evaluation.intervals import Interval

NEAR_PERFECT = 0.995
"""A linear model that reaches this on real data most often sees the answer in a column."""

_FEW_ROWS = 100
_FEW_UNITS = 30
_JUDGED = ("roc_auc", "r2")


def find_warnings(
    rows: int,
    units: int,
    metrics: Mapping[str, Interval],
    baselines: Mapping[str, Mapping[str, Interval]],
    shares: Mapping[str, float],
) -> tuple[str, ...]:
    """Warnings in plain English, the gravest first.

    `shares` is how much of the linear baseline each column carries; empty if unknown.
    """
    found = [_leak(name, baselines["linear"][name].value, shares) for name in _judged_in(baselines)]
    if rows < _FEW_ROWS:
        found.append(f"only {rows} rows were judged: the intervals are wide")
    if units < min(rows, _FEW_UNITS):
        found.append(
            f"the {rows:,} rows are only {units} independent units (groups or stretches of time): "
            "the intervals rest on those"
        )
    without = [name for name, one in metrics.items() if not one.given]
    if without:
        found.append(
            "no interval for " + ", ".join(without) + ": too few rows or too few of a class"
        )
    return tuple(found)


def _judged_in(baselines: Mapping[str, Mapping[str, Interval]]) -> list[str]:
    linear = baselines.get("linear", {})
    return [name for name in _JUDGED if name in linear and linear[name].value >= NEAR_PERFECT]


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
