"""Clauses on the model in use: the time of a prediction, and the size of the bundle."""

from __future__ import annotations

import math

import numpy as np

from trainwright.contract.sections.run_settings import Serving
from trainwright.data.base.inputs import Floats
from trainwright.evaluation.clause import Clause, status_of
from trainwright.evaluation.evaluation_result import ALL_ROWS
from trainwright.evaluation.intervals.bootstrap import Interval

LATENCY, MEGABYTES = "latency_ms", "megabytes"
_FEWEST_CALLS = 200


def calls_for(section: Serving, confidence: float) -> int:
    """Predictions to time: 200, or as many as an upper bound of the percentile needs."""
    tail = (1 - confidence) / 2
    return max(_FEWEST_CALLS, math.ceil(math.log(tail) / math.log(section.percentile / 100)))


def latency_interval(times: Floats, percentile: float, confidence: float) -> Interval:
    """Percentile of times [n] with its distribution-free interval between two order statistics
    (David and Nagaraja 2003, Order Statistics, section 7.1): the number of times below the true
    percentile is binomial. A bound that so few times do not have is infinite."""
    from scipy.stats import binom

    share, tail, count = percentile / 100, (1 - confidence) / 2, len(times)
    ordered = np.sort(times)
    low, high = int(binom.ppf(tail, count, share)), int(binom.ppf(1 - tail, count, share))
    return Interval(
        float(np.percentile(times, percentile)),
        float(ordered[low - 1]) if low else -math.inf,
        float(ordered[high]) if high < count else math.inf,
    )


def serving_clauses(
    section: Serving, times: Floats, megabytes: float, confidence: float
) -> tuple[Clause, ...]:
    """Clauses of the limits that the contract sets, for times in milliseconds [n]. A size is exact:
    its interval is the value."""
    found = []
    if section.latency_ms != "unlimited":
        interval = latency_interval(times, section.percentile, confidence)
        name = f"{LATENCY} p{section.percentile:g} <= {section.latency_ms:g}"
        status = status_of(interval, section.latency_ms, "min")
        found.append(Clause(name, LATENCY, ALL_ROWS, section.latency_ms, interval, status))
    if section.megabytes != "unlimited":
        size = Interval(megabytes, megabytes, megabytes)
        name = f"{MEGABYTES} <= {section.megabytes:g}"
        status = status_of(size, section.megabytes, "min")
        found.append(Clause(name, MEGABYTES, ALL_ROWS, section.megabytes, size, status))
    return tuple(found)
