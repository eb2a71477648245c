"""Outliers, skewed columns, isolated rows, and a row of totals.

Values in excess of a power law: valid values can be heavy-tailed, so distance alone is no
evidence of an error; an excess is. A power law fitted at moderate distances gives the expected
number beyond (Hill 1975, "A simple general approach to inference about the tail of a
distribution", doi:10.1214/aos/1176343247, truncated at the far distance), a conservative tail: it
decays more slowly than those of the usual distributions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np
import numpy.typing as npt

from trainwright.core.formatting import many
from trainwright.data.base.inputs import Floats, Integers
from trainwright.data.base.messages import quoted
from trainwright.data.quality.examined_data import ColumnView, ExaminedData
from trainwright.data.quality.finding import Finding

_TIMES = 2.0
"""The tail starts at the far distance over this."""

_FLATTEST, _STEEPEST = 1.6, 30.0
"""Bounds of the tail exponent; the lowest is that of a log-normal variable."""

_MOST_HONEST = 0.5
_BY_CHANCE = 1e-4
"""Maximum Poisson probability of the observed count."""

_ONE_SIDED = 1.645


@final
@dataclass(frozen=True, slots=True)
class BeyondTail:
    """Values beyond the tail, farthest first, and a lower bound of their number."""

    rows: Integers
    least: int


def beyond_tail(far: Floats, end: float) -> BeyondTail:
    """Distances [N] beyond `end` that occur at least twice as often as the tail predicts, and
    significantly so; NaN never does."""
    from scipy.special import gammainc

    far = np.nan_to_num(far)
    order = np.argsort(-far, kind="stable")
    far = far[order]
    honest = _expected(far, end)
    beyond = np.arange(1, len(far) + 1)
    least = np.floor(beyond - honest - _ONE_SIDED * np.sqrt(honest))
    sure = (far > end) & (honest <= _MOST_HONEST * beyond) & (least > 0)
    sure &= gammainc(beyond, honest) <= _BY_CHANCE
    if not sure.any():
        return BeyondTail(np.empty(0, dtype=np.int64), 0)
    last = int(np.flatnonzero(sure)[-1])
    return BeyondTail(order[: last + 1], int(least[last]))


def _expected(far: Floats, end: float) -> Floats:
    """Expected number [N] of values beyond each one: N_tail (far / start) ** -exponent, at the
    lower confidence bound of the exponent."""
    start = end / _TIMES
    moderate = np.log(far[(far > start) & (far <= end)] / start)
    exponent, deviation = _exponent(moderate, float(np.log(_TIMES)))
    exponent = max(exponent - _ONE_SIDED * deviation, _FLATTEST)
    share = _TIMES**-exponent
    expected: Floats = len(moderate) / (1 - share) * (np.maximum(far, start) / start) ** -exponent
    return expected


def _exponent(logs: Floats, end: float) -> tuple[float, float]:
    """Exponent of a power law truncated at `end`, from log distances below it, and its standard
    error."""
    from scipy.optimize import brentq

    if len(logs) < 2:
        return _STEEPEST, 0.0
    mean = float(logs.mean())

    def difference(exponent: float) -> float:
        return 1 / exponent - end / float(np.expm1(exponent * end)) - mean

    ends = 1e-3, _STEEPEST
    if difference(ends[0]) <= 0 or difference(ends[1]) >= 0:
        found = ends[0] if difference(ends[0]) <= 0 else ends[1]
    else:
        found = float(brentq(difference, *ends))
    grown = float(np.exp(found * end))
    information = 1 / found**2 - end**2 * grown / (grown - 1) ** 2
    return found, float(1 / np.sqrt(max(information, 1e-12) * len(logs)))


Values = npt.NDArray[Any]

ROBUST_Z = 10.0
"""Robust z-score beyond which a value is an outlier."""

_MAD_TO_DEVIATION = 1.4826
_MOST, _HALF = 0.01, 0.5
_DISTINCT = 20
_SKEWED = 3.0
_PILE = 20


def outliers(data: ExaminedData) -> list[Finding]:
    """Values with a robust z-score (1.4826 times the median absolute deviation) beyond 10, where
    there are more of them than the fitted tail expects; and values beyond a gap as wide as the
    range of all but 1 % at either end. Positive skewed columns are checked on a log scale. More
    than 1 % of the rows are a tail, not outliers."""
    found = []
    for look in data.of_kind("numeric"):
        rows, worst = far_out(look)
        if not len(rows):
            continue
        low, high = look.numbers[rows].min(), look.numbers[rows].max()
        ends = f"{low:g} to {high:g}" if high > low else f"{low:g}"
        middle = float(np.nanmedian(look.numbers))
        found.append(
            Finding(
                "outliers",
                "warning",
                f"{look.name!r} has {many(len(rows), 'outlier')}: {ends}, median {middle:g}, "
                f"robust z-score up to {worst:.0f}",
                len(rows),
                data.places(rows),
                (look.name,),
                "data.quality.actions: {outliers: cap} clips them to the range of the others",
            )
        )
    return found


def far_out(look: ColumnView) -> tuple[Integers, float]:
    """Outlier rows of a numeric column, and their largest robust z-score. A value of more than half
    of the rows, such as the zero of a quantity that most lack, is apart from the others."""
    values = look.numbers
    usual = values == np.nanmedian(values) if np.isfinite(values).any() else np.False_
    if usual.mean() > _HALF:
        values = np.where(usual, np.nan, values)
    if look.reason or len(np.unique(values[np.isfinite(values)])) < _DISTINCT:
        return np.empty(0, dtype=np.int64), 0.0
    straight = _straight(values)
    z = robust_z(straight)
    far = _beyond_a_gap(straight)
    far[beyond_tail(np.abs(z), ROBUST_Z).rows] = True
    rows = np.flatnonzero(far)
    if len(rows) >= _PILE and len(np.unique(values[rows])) == 1:
        # One value in many rows is a placeholder or a cap: see `unlikely_values` and `capped`.
        return np.empty(0, dtype=np.int64), 0.0
    if len(rows) > _MOST * len(values):
        return np.empty(0, dtype=np.int64), 0.0
    return rows, float(np.abs(z[rows]).max()) if len(rows) else 0.0


def _beyond_a_gap(values: Floats) -> npt.NDArray[np.bool_]:
    """Mask [N] of values in the outer 1 % at either end, beyond a gap as wide as the range of the
    others."""
    ordered = np.sort(values[np.isfinite(values)])
    few = int(_MOST * len(ordered))
    low, high = ordered[0], ordered[-1]
    if few and (span := ordered[-1 - few] - ordered[few]) > 0:
        low, high = ends_within_gaps(ordered, few, span)
    beyond: npt.NDArray[np.bool_] = (values < low) | (values > high)
    return beyond


def ends_within_gaps(ordered: Values, few: int, span: float) -> tuple[Any, Any]:
    """First and last of ascending values [N] that no gap of `span` among the `few` outermost at
    either end separates from the rest."""
    wide = np.flatnonzero(np.diff(ordered) >= span)
    before, after = wide[wide < few], wide[wide >= len(ordered) - 1 - few]
    low = ordered[before[-1] + 1] if few and len(before) else ordered[0]
    return low, ordered[after[0]] if few and len(after) else ordered[-1]


def robust_z(values: Floats) -> Floats:
    """Robust z-scores [N]: distance from the median over 1.4826 times the median absolute
    deviation; where more than half of the values are equal, over the scale of the others."""
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
    # Measured on the bulk: a few outliers alone make a column skewed.
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
            text = f"{look.name!r} has a long {side} tail: skewness {skewness:.1f}"
            fix = "data.features.numeric: quantile, or a logarithm, for linear models and networks"
            found.append(Finding("skewed", "info", text, 1, columns=(look.name,), fix=fix))
    return found


_FEWEST_ROWS, _FEWEST_COLUMNS = 20, 2
_ROUNDING = 1e-6


def totals_row(data: ExaminedData) -> list[Finding]:
    """A row whose numbers are the sums of all rows above it, or the last row if they are their
    means, in two numeric columns or more that have 20 different values. Where several rows hold
    such sums they are no totals: numbers that double from row to row do."""
    if len(data) <= _FEWEST_ROWS:
        return []
    order = np.argsort(data.rows, kind="stable")
    looks = [look for look in data.looks if look.kind == "numeric"]
    columns = {look.name: look.numbers[order] for look in looks}
    columns = {name: values for name, values in columns.items() if _varies(values)}
    if len(columns) < _FEWEST_COLUMNS:
        return []
    sums = np.stack([_is_sum(values) for values in columns.values()], axis=1)
    rows = np.flatnonzero(sums.sum(axis=1) >= _FEWEST_COLUMNS)
    if len(rows) == 1:
        return [_finding(data, int(order[rows[0]]), "sums", _chosen(columns, sums[rows[0]]))]
    means = np.array([_is_mean(values) for values in columns.values()])
    if means.sum() >= _FEWEST_COLUMNS:
        return [_finding(data, int(order[-1]), "means", _chosen(columns, means))]
    return []


def _finding(
    data: ExaminedData, row: int, what: Literal["sums", "means"], names: tuple[str, ...]
) -> Finding:
    places = data.places([row])
    return Finding(
        "outliers",
        "warning",
        f"row {places[0]:,} holds the {what} of the rows above it in {quoted(names, 3)}: a row of "
        "totals was not observed",
        1,
        places,
        names,
        "take the row out of the file: it is trained on, or tested, like any other",
    )


def _chosen(columns: dict[str, Floats], chosen: npt.NDArray[np.bool_]) -> tuple[str, ...]:
    return tuple(name for name, one in zip(columns, chosen, strict=True) if one)


def _varies(values: Floats) -> bool:
    return len(np.unique(values[np.isfinite(values)])) >= _DISTINCT


def _is_sum(values: Floats) -> npt.NDArray[np.bool_]:
    """Which values [N] are the sum of all above them, and larger than each of these."""
    known = np.nan_to_num(values)
    above = np.cumsum(known) - known
    largest = np.concatenate([[0.0], np.maximum.accumulate(np.abs(known))[:-1]])
    near = np.abs(values - above) <= _ROUNDING * np.abs(above)
    found: npt.NDArray[np.bool_] = near & (np.abs(values) > largest)
    found[:_FEWEST_ROWS] = False
    return found


def _is_mean(values: Floats) -> bool:
    """Whether the last value is the mean of all above it, and equal to none of these."""
    above = values[:-1][np.isfinite(values[:-1])]
    mean = float(above.mean())
    near = abs(float(values[-1]) - mean) <= _ROUNDING * abs(mean)
    return near and not bool((above == values[-1]).any())
