"""Numbers that lie far from all others, and columns with a long tail."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from trainwright.core.formatting import many
from trainwright.data.base.table import Floats, Integers
from trainwright.data.quality.finding import Finding
from trainwright.data.quality.tail_fit import beyond_tail
from trainwright.data.quality.views import ColumnView, ExaminedData

ROBUST_Z = 10.0
"""Deviations from the median, in robust deviations, beyond which a value is an outlier."""

_MAD_TO_DEVIATION = 1.4826
_MOST = 0.01
_DISTINCT = 20
_SKEWED = 3.0
_ISOLATED = 0.75
_FEWEST = 200
_PILE = 20
_TREES = 100


def outliers(data: ExaminedData) -> list[Finding]:
    """Values more than 10 robust deviations from the median of their column (1.4826 times the
    median absolute deviation), where there are more of them than the tail expects; and values
    beyond a gap that is as wide as all but 1 % at either end lie apart. Of a column that is
    positive and skewed, the logarithms are looked at. More than 1 % of the rows are a tail, not
    outliers."""
    found = []
    for look in data.of_kind("numeric"):
        rows, worst = far_out(look)
        if not len(rows):
            continue
        low, high = look.numbers[rows].min(), look.numbers[rows].max()
        middle = float(np.nanmedian(look.numbers))
        found.append(
            Finding(
                "outliers",
                "warning",
                f"{look.name!r} has {many(len(rows), 'value')} far from the others: {low:g} to "
                f"{high:g}, median {middle:g}, up to {worst:.0f} robust deviations away",
                len(rows),
                data.places(rows),
                (look.name,),
                "data.quality.actions: {outliers: cap} puts them at the ends of the others",
            )
        )
    return found


def far_out(look: ColumnView) -> tuple[Integers, float]:
    """The rows of a numeric column's outliers, and the largest robust z among them."""
    values = look.numbers
    if look.reason or len(np.unique(values[np.isfinite(values)])) < _DISTINCT:
        return np.empty(0, dtype=np.int64), 0.0
    straight = _straight(values)
    z = robust_z(straight)
    far = _beyond_a_gap(straight)
    far[beyond_tail(np.abs(z), ROBUST_Z).rows] = True
    rows = np.flatnonzero(far)
    if len(rows) >= _PILE and len(np.unique(values[rows])) == 1:
        # One value in many rows stands for something else: see `unlikely_values` and `capped`.
        return np.empty(0, dtype=np.int64), 0.0
    if len(rows) > _MOST * len(values):
        return np.empty(0, dtype=np.int64), 0.0
    return rows, float(np.abs(z[rows]).max()) if len(rows) else 0.0


def _beyond_a_gap(values: Floats) -> npt.NDArray[np.bool_]:
    """Which values [N] are among the hundredth at either end, and beyond a gap there that is as
    wide as the others lie apart."""
    ordered = np.sort(values[np.isfinite(values)])
    few = int(_MOST * len(ordered))
    low, high = ordered[0], ordered[-1]
    span = ordered[-1 - few] - ordered[few]
    if few and span > 0:
        wide = np.flatnonzero(np.diff(ordered) >= span)
        before, after = wide[wide < few], wide[wide >= len(ordered) - 1 - few]
        low = ordered[before[-1] + 1] if len(before) else low
        high = ordered[after[0]] if len(after) else high
    beyond: npt.NDArray[np.bool_] = (values < low) | (values > high)
    return beyond


def robust_z(values: Floats) -> Floats:
    """Deviations from the median over 1.4826 times the median absolute deviation, [N]; where more
    than half of the values are equal, over the deviation of the others."""
    middle = np.nanmedian(values)
    away = np.abs(values - middle)
    scale = _MAD_TO_DEVIATION * float(np.nanmedian(away))
    if not scale:
        others = away[np.isfinite(away) & (away > 0)]
        scale = _MAD_TO_DEVIATION * float(np.median(others)) if len(others) else np.inf
    return (values - middle) / scale


def _straight(values: Floats) -> Floats:
    """The values, or their logarithms where they are positive and skewed to the right."""
    present = values[np.isfinite(values)]
    if present.min() <= 0 or _skewness(present) < 1:
        return values
    low, middle, high = np.quantile(present, (0.05, 0.5, 0.95))
    # A handful of outliers makes a column skewed, but not its bulk.
    return np.log(values) if high - middle > 1.5 * (middle - low) else values


def _skewness(values: Floats) -> float:
    deviation = float(values.std())
    return float(((values - values.mean()) ** 3).mean()) / deviation**3 if deviation else 0.0


def skewed(data: ExaminedData) -> list[Finding]:
    """Numeric columns with a skewness beyond 3."""
    found = []
    for look in data.looks:
        if look.kind != "numeric" or look.reason or look.name in data.left_out:
            continue
        values = look.numbers[np.isfinite(look.numbers)]
        if len(np.unique(values)) < 5 * _DISTINCT:
            continue
        skewness = _skewness(values)
        if abs(skewness) > _SKEWED:
            side = "right" if skewness > 0 else "left"
            text = f"{look.name!r} has a long tail to the {side}: skewness {skewness:.1f}"
            fix = "data.features.numeric: quantile, or a logarithm, for linear models and networks"
            found.append(Finding("skewed", "info", text, 1, columns=(look.name,), fix=fix))
    return found


def strange_rows(data: ExaminedData) -> list[Finding]:
    """Rows that random cuts of the numeric columns isolate at once (Liu et al. 2008, Isolation
    Forest; s is its anomaly score, 0.5 for usual rows, near 1 for isolated ones): s above 0.75."""
    looks = [look for look in data.telling if look.kind == "numeric"]
    if len(looks) < 2 or len(data) < _FEWEST:
        return []
    from sklearn.ensemble import IsolationForest

    values = np.stack([look.numbers for look in looks], axis=1)
    values = np.where(np.isfinite(values), values, np.nanmedian(values, axis=0))
    forest = IsolationForest(n_estimators=_TREES, random_state=0).fit(values)
    scores = -forest.score_samples(values)
    rows = np.flatnonzero(scores > _ISOLATED)
    if not len(rows) or len(rows) > _MOST * len(data):
        return []
    return [
        Finding(
            "outliers",
            "info",
            f"{len(rows):,} rows are unlike all others in {len(looks)} numeric columns together "
            f"(isolation score up to {scores.max():.2f})",
            len(rows),
            data.places(rows),
            fix="look at them: mistakes, or a group of its own",
        )
    ]
