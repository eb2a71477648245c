"""Costs of errors: decisions of least expected cost (Elkan 2001, The foundations of cost-sensitive
learning, IJCAI, section 1)."""

from __future__ import annotations

import math

import numpy as np

from trainwright.data.base.table import Floats, Integers
from trainwright.data.columns.target_kind import Costs


def least_expected(scores: Floats, costs: Costs) -> Integers:
    """Codes [N] with the least expected cost under probabilities [N, C], the first on ties: the
    minimum over k of the sum over j of p(j) C(j, k) (Elkan 2001, equation 1)."""
    if not len(scores):
        return np.zeros(0, np.int64)
    return np.asarray(np.argmin(scores @ np.array(costs), axis=1), np.int64)


def least_threshold(costs: Costs, positive: int) -> float:
    """Probability from which on the positive of two classes has the least expected cost (Elkan
    2001, equation 2)."""
    negative = 1 - positive
    alarm = costs[negative][positive] - costs[negative][negative]
    miss = costs[positive][negative] - costs[positive][positive]
    return alarm / (alarm + miss)


def costs_of(truth: Integers, chosen: Integers, costs: Costs) -> Floats:
    """Cost of each decision [N]."""
    return np.asarray(np.array(costs)[truth, chosen], np.float64)


def check_costs(costs: Costs, classes: int) -> None:
    """Check costs that were read.

    Raises:
        ValueError: they are not those of so many classes, or an error costs no more than a right
            prediction.
    """
    if len(costs) != classes or any(len(row) != classes for row in costs):
        raise ValueError("costs of other classes")
    for true, row in enumerate(costs):
        if not all(math.isfinite(one) and one >= 0 for one in row):
            raise ValueError("costs that are negative or not finite")
        if min(cost for said, cost in enumerate(row) if said != true) <= row[true]:
            raise ValueError("an error that costs no more than a right prediction")
