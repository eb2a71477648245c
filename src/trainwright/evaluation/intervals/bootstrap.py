"""Bootstrap confidence intervals.

Percentile intervals (Efron and Tibshirani 1993, An Introduction to the Bootstrap, chapter 13).
Units are resampled, not rows (the cluster bootstrap; Davison and Hinkley 1997, section 3.8), so
dependent rows do not count as independent.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from trainwright.core.files import Json
from trainwright.core.formatting import show_number
from trainwright.data.base.inputs import Floats, Integers
from trainwright.evaluation.metrics.predictions import (
    GROUPS,
    MOST_UNITS,
    GroupSums,
    RowGroups,
    groups_of,
    number_units,
    weigh_groups,
)
from trainwright.evaluation.metrics.ranking import (
    FEW_POSITIVES,
    OneAgainstRest,
    PrecisionAtRecall,
    WithinFolds,
)
from trainwright.evaluation.metrics.weighted_metrics import BinSums, Sums, Weighted

MOST_UNDEFINED = 0.1
"""Maximum share of undefined resamples for an interval."""

LEAST_UNITS = 5
"""Minimum number of units for an interval."""

FEW_ROWS = 10_000
"""Row limit for recomputing a ranking on each resample, also with random groups."""

FEW_ROWS_OF_CLOSED_FORM = 2000
"""The limit for rankings with a closed form, whose bounds agree with the resamples to 5% of the
width, up to an area of 0.9998."""

_CHUNK_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Interval:
    """A value and its confidence interval.

    `value` is nan if the metric is undefined on the rows; `low` and `high` are -inf and inf if
    there are too few rows. Both cases are null in JSON.
    """

    value: float
    low: float
    high: float

    @property
    def given(self) -> bool:
        """Were there enough rows for an interval?"""
        return math.isfinite(self.low) and math.isfinite(self.high)

    @property
    def bounds(self) -> str:
        """`0.91 to 0.93`, as text."""
        if not self.given:
            return "not enough rows"
        return f"{show_number(self.low)} to {show_number(self.high)}"

    def to_json(self) -> Json:
        """`{"value", "low", "high"}`, null for what is not finite."""
        return {
            name: value if math.isfinite(value) else None
            for name, value in (("value", self.value), ("low", self.low), ("high", self.high))
        }

    @staticmethod
    def from_json(json: Json) -> Interval:
        """The inverse of `to_json`."""

        def number(name: str, absent: float) -> float:
            return absent if json[name] is None else float(json[name])

        return Interval(
            number("value", math.nan), number("low", -math.inf), number("high", math.inf)
        )


@dataclass(frozen=True, slots=True)
class Resampling:
    """Resampling scheme, shared by all metrics so that differences are paired. `units` [N] is the
    unit of each row.
    """

    units: Integers
    resamples: int
    seed: int


@dataclass(frozen=True, slots=True)
class Question:
    """A metric prepared for a subset of rows. `rows` are positions among all N rows."""

    rows: Integers
    weighted: Weighted


def row_weights(draws: Resampling) -> Iterator[Floats]:
    """Bootstrap weights of the rows, in chunks [r, N] of [resamples, N] of about 8 MB.

    Of U units, U are drawn uniformly with replacement.
    """
    generator = np.random.default_rng([draws.seed, 0x626F6F74])
    count, unit_of_row = number_units(draws.units)
    rows = len(draws.units)
    size = max(1, min(256, _CHUNK_BYTES // (8 * max(rows, 1))))
    alone = count == rows and bool(np.array_equal(unit_of_row, np.arange(rows)))
    for start in range(0, draws.resamples, size):
        chunk = min(size, draws.resamples - start)
        drawn = generator.integers(0, count, (chunk, count))
        drawn += np.arange(chunk)[:, None] * count
        times = np.bincount(drawn.ravel(), minlength=chunk * count).astype(np.float64)
        weights = times.reshape(chunk, count)
        yield weights if alone else np.take(weights, unit_of_row, axis=1)


def resample(questions: Sequence[Question], draws: Resampling) -> Floats:
    """Values of each question on each resample, [questions, resamples]; nan where undefined. More
    than `MOST_UNITS` units are drawn in `GROUPS` random groups."""
    if len(draws.units) > MOST_UNITS:
        count, unit_of_row = number_units(draws.units)
        if count > MOST_UNITS:
            return _resample_groups(questions, groups_of(unit_of_row, count, draws.seed), draws)
    values = np.full((len(questions), draws.resamples), np.nan)
    everything = np.arange(len(draws.units))
    whole = [
        len(question.rows) == len(everything) and np.array_equal(question.rows, everything)
        for question in questions
    ]
    done = 0
    if not len(everything):
        return values
    for weights in row_weights(draws):
        until = done + len(weights)
        last: tuple[Integers, Floats] = (everything, weights)
        for number, question in enumerate(questions):
            if not len(question.rows):
                continue
            if whole[number]:
                last = (question.rows, weights)
            elif last[0] is not question.rows:
                last = (question.rows, np.take(weights, question.rows, axis=1))
            values[number, done:until] = question.weighted(last[1])
        done = until
    return values


def method_of(units: int, *, in_folds: bool = False) -> str:
    """Interval method for a number of units."""
    if in_folds:
        return (
            f"{method_of(units)}; average_precision ranks rows within their fold, roc_auc counts "
            "pairs of rows of one fold"
        )
    if units > MOST_UNITS:
        return (
            f"bootstrap of {GROUPS} random groups of units; roc_auc and average_precision of more "
            f"than {FEW_ROWS_OF_CLOSED_FORM} rows and {FEW_POSITIVES} positives by their "
            "first-order form"
        )
    return "bootstrap of units"


def _resample_groups(questions: Sequence[Question], groups: RowGroups, draws: Resampling) -> Floats:
    values = np.full((len(questions), draws.resamples), np.nan)
    drawn = replace(draws, units=np.arange(groups.count))
    weights = np.concatenate(list(row_weights(drawn)))
    sums: dict[int, GroupSums] = {}
    last = (np.arange(0), groups.take(np.arange(0)))
    for number, question in enumerate(questions):
        if not len(question.rows):
            continue
        if last[0] is not question.rows:
            last = (question.rows, groups.take(question.rows))
        match question.weighted:
            case Sums() | BinSums() as metric:
                sums[number] = metric.grouped(last[1])
            case OneAgainstRest() | WithinFolds() as metric if len(question.rows) > (
                FEW_ROWS_OF_CLOSED_FORM if metric.has_closed_form else FEW_ROWS
            ):
                sums[number] = metric.grouped(last[1])
            case PrecisionAtRecall() as metric if len(question.rows) > FEW_ROWS:
                sums[number] = metric.grouped(last[1])
            case weighted:
                values[number] = _anew(weighted, last[1], weights)
    for number, found in zip(sums, weigh_groups(list(sums.values()), weights), strict=True):
        values[number] = found
    return values


def _anew(weighted: Weighted, groups: RowGroups, weights: Floats) -> Floats:
    """Values [R] of draws of groups [R, G], recomputed from the row weights."""
    size = max(1, _CHUNK_BYTES // (8 * len(groups.of_row)))
    chunks = (weights[at : at + size] for at in range(0, len(weights), size))
    return np.concatenate([weighted(np.take(each, groups.of_row, axis=1)) for each in chunks])


def undefined_share(values: Floats) -> float:
    """Share of undefined resamples."""
    return float(np.isnan(values).mean())


def interval_of(value: float, values: Floats, confidence: float, units: int) -> Interval:
    """Percentile interval of resampled `values` around `value`, from `units` units.

    It is widened to contain the value, which a biased metric's percentiles may not.
    """
    defined = values[~np.isnan(values)]
    if math.isnan(value) or units < LEAST_UNITS or undefined_share(values) > MOST_UNDEFINED:
        return Interval(value, -math.inf, math.inf)
    tail = (1 - confidence) / 2
    low, high = (float(bound) for bound in np.quantile(defined, [tail, 1 - tail]))
    return Interval(value, min(low, value), max(high, value))


def share_interval(value: float, values: Floats, confidence: float, units: int) -> Interval:
    """`interval_of` for a proportion such as accuracy.

    If every resample is 0 or every one is 1, the percentiles degenerate: the bound is Clopper and
    Pearson's (1934) for 0 errors in `units` trials, 1 - (a/2)^(1/units) with a = 1 - confidence.
    """
    interval = interval_of(value, values, confidence, units)
    if interval.given:  # a closed form is unbounded
        interval = Interval(value, max(0.0, interval.low), min(1.0, interval.high))
    if not interval.given or interval.low < interval.high or value not in (0.0, 1.0):
        return interval
    unseen = 1 - ((1 - confidence) / 2) ** (1 / units)
    return Interval(value, 1 - unseen, 1.0) if value else Interval(value, 0.0, unseen)
