"""Columns in mixed units, such as kilograms and pounds."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from trainwright.data.base.inputs import Floats, Integers
from trainwright.data.quality.examined_data import ColumnView, ExaminedData
from trainwright.data.quality.finding import Finding
from trainwright.data.statistics.coded_column import CodedColumn

_FEWEST_ROWS = 100
_FEWEST = 5
_SHARE = 0.002
_MOST_SHARE = 0.45
_DISTINCT = 40
_FACTOR = 1.7
_POSITIVE = 0.99
_MAD_TO_DEVIATION = 1.4826
_MOST_LOOKED_AT = 10_000
_ROUNDS = 15
_LEAST_ERROR = 0.01
_MOST_COLUMNS = 40
_FEW_OF_A_CLASS = 0.02
_ERRORS, _NEAR, _NEAR_AT_MOST = 4.0, 0.03, 0.15
_SEPARATE = 0.6

KNOWN = {
    1.8: "Fahrenheit for Celsius (its slope)",
    1.60934: "kilometres for miles",
    2.20462: "pounds for kilograms",
    2.54: "centimetres for inches",
    3.28084: "feet for metres",
    3.6: "km/h for m/s",
    4.184: "joules for calories",
    7.0: "days for weeks",
    10.0: "a factor of 10",
    12.0: "months for years",
    24.0: "hours for days",
    25.4: "millimetres for inches",
    28.3495: "grams for ounces",
    39.3701: "inches for metres",
    60.0: "minutes for hours",
    100.0: "per cent, or centimetres for metres",
    365.25: "days for years",
    453.592: "grams for pounds",
    1000.0: "a thousand, as in grams for kilograms",
    3600.0: "seconds for hours",
    1e4: "ten thousand, as in square metres for hectares",
    1e6: "a million",
}
"""Known conversion factors."""


def mixed_units(data: ExaminedData) -> list[Finding]:
    """Positive columns in which a cluster of values is off by a unit conversion factor.

    Both the logarithm of the column and its residual given the logarithms of the other numeric
    columns (a least absolute deviations fit on at most 10,000 rows) are checked. A second cluster
    must be at least a factor of 1.7 away, nearly empty in between, and hold 0.2 to 45 % of the
    rows. Clusters that coincide with classes of the target, whose factor is no known conversion, or
    that another numeric column separates too, are not units.
    """
    looks = [look for look in data.telling if _is_size(look)]
    found = []
    for look in looks[:_MOST_COLUMNS]:
        logs = _logs(look.numbers)
        rows, factor = second_cluster(logs)
        if not len(rows):
            others = [other for other in looks if other.name != look.name]
            rows, factor = second_cluster(_unexpected(logs, others))
        if (
            len(rows)
            and not _is_a_class(data, look, rows)
            and _is_a_unit(looks, look, rows, factor)
        ):
            found.append(_finding(data, look, rows, factor))
    return found


def _is_size(look: ColumnView) -> bool:
    if look.kind != "numeric" or look.reason or len(look.values) < _FEWEST_ROWS:
        return False
    if CodedColumn(look.values, look.name).named:
        return False
    values = look.numbers[np.isfinite(look.numbers)]
    return len(np.unique(values)) >= _DISTINCT and float((values > 0).mean()) >= _POSITIVE


def _logs(values: Floats) -> Floats:
    """Logarithms, NaN where undefined."""
    logs: Floats = np.log(np.where(values > 0, values, np.nan))
    return logs


def second_cluster(logs: Floats) -> tuple[Integers, float]:
    """Rows of the smaller of two clusters of log values (float64 [N], NaN for missing) and its
    factor to the larger, exp(d) for the distance d of the medians. No rows without two clusters.

    The largest gap separates the two. d must be 5 robust standard deviations of the larger and 4 of
    the smaller, and the middle fifth between the medians nearly empty.
    """
    present = np.flatnonzero(np.isfinite(logs))
    nothing = np.empty(0, dtype=np.int64), 1.0
    if len(present) < _FEWEST_ROWS:
        return nothing
    order = present[np.argsort(logs[present], kind="stable")]
    values = logs[order]
    least = max(_FEWEST, int(_SHARE * len(values)))
    gaps = np.diff(values)
    gaps[: least - 1] = 0
    gaps[len(gaps) - least + 1 :] = 0
    at = int(np.argmax(gaps)) + 1
    few, many = sorted((values[:at], values[at:]), key=len)
    middle, other = float(np.median(many)), float(np.median(few))
    distance = other - middle
    ends = sorted((middle + 0.4 * distance, middle + 0.6 * distance))
    between = int(((values > ends[0]) & (values < ends[1])).sum())
    apart = abs(distance) >= max(np.log(_FACTOR), 5 * _spread(many), 4 * _spread(few))
    if not apart or len(few) > _MOST_SHARE * len(values) or between > 0.1 * len(few):
        return nothing
    rows = order[:at] if other < middle else order[at:]
    return np.sort(rows), float(np.exp(distance))


def _is_a_class(data: ExaminedData, look: ColumnView, rows: Integers) -> bool:
    """Are the rows exactly those of some classes?"""
    if data.task != "classes":
        return False
    inside = np.zeros(len(data), dtype=np.bool_)
    inside[rows] = True
    labels = data.labels.filter(look.values.is_not_null())
    here = pl.Series(inside).filter(look.values.is_not_null())
    shares = (
        pl.DataFrame({"label": labels, "inside": here})
        .group_by("label")
        .agg(pl.col("inside").mean())["inside"]
    )
    return bool(((shares < _FEW_OF_A_CLASS) | (shares > 1 - _FEW_OF_A_CLASS)).all())


def _is_a_unit(looks: list[ColumnView], look: ColumnView, rows: Integers, factor: float) -> bool:
    """Is the factor a known conversion, and no other column has the same two clusters?"""
    size = max(factor, 1 / factor)
    inside = np.zeros(len(look.values), dtype=np.bool_)
    inside[rows] = True
    error = _ERRORS * 1.25 * _spread(_logs(look.numbers[rows])) / np.sqrt(len(rows))
    if abs(np.log(_known(size) / size)) > max(_NEAR, min(error, _NEAR_AT_MOST)):
        return False
    others = [other.numbers for other in looks if other.name != look.name]
    return not any(_distance(values, inside) > _SEPARATE for values in others)


def _distance(values: Floats, inside: npt.NDArray[np.bool_]) -> float:
    """Kolmogorov-Smirnov distance between a cluster and the other rows."""
    from scipy.stats import ks_2samp

    here = np.isfinite(values)
    ours, theirs = values[inside & here], values[~inside & here]
    if min(len(ours), len(theirs)) < _FEWEST:
        return 0.0
    return float(ks_2samp(ours, theirs, method="asymp").statistic)


def _known(size: float) -> float:
    return min(KNOWN, key=lambda known: abs(np.log(known / size)))


def _spread(values: Floats) -> float:
    return _MAD_TO_DEVIATION * float(np.median(np.abs(values - np.median(values))))


def _unexpected(logs: Floats, others: list[ColumnView]) -> Floats:
    """Residuals [N] of the logarithms given the other columns' logarithms: least absolute
    deviations by iteratively reweighted least squares (Schlossmacher 1973)."""
    known = np.flatnonzero(np.isfinite(logs))
    if not others or len(known) < _FEWEST_ROWS:
        return np.full(len(logs), np.nan)
    inputs = np.stack([_logs(other.numbers) for other in others], axis=1)
    inputs = np.where(np.isfinite(inputs), inputs, np.nanmedian(inputs, axis=0))
    spread = inputs.std(axis=0)
    inputs = (inputs - inputs.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    inputs = np.concatenate([np.ones((len(inputs), 1)), inputs], axis=1)
    chosen = known[:: max(1, -(-len(known) // _MOST_LOOKED_AT))]
    rows, wanted = inputs[chosen], logs[chosen]
    weights = np.ones(len(chosen))
    line: Floats = np.zeros(inputs.shape[1])
    for _ in range(_ROUNDS):
        fitted, *_ = np.linalg.lstsq(rows * weights[:, None], wanted * weights, rcond=None)
        line = np.asarray(fitted, dtype=np.float64)
        weights = 1 / np.sqrt(np.maximum(np.abs(wanted - rows @ line), _LEAST_ERROR))
    left: Floats = logs - inputs @ line
    return left


def _finding(data: ExaminedData, look: ColumnView, rows: Integers, factor: float) -> Finding:
    size = max(factor, 1 / factor)
    meaning = f": {KNOWN[_known(size)]}?"
    words = f"{size:.3g} times as large" if factor > 1 else f"{size:.3g} times smaller"
    return Finding(
        "mixed_units",
        "warning",
        f"{len(rows):,} values of {look.name!r} are {words}, as if in another unit{meaning}",
        len(rows),
        data.places(rows),
        (look.name,),
        "convert them to one unit",
    )
