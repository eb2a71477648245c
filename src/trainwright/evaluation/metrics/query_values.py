"""Values of queries as metrics of rows: point values, resamples, notes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from trainwright.contract.sections.metric import Metric
from trainwright.data.base.table import Floats, Integers
from trainwright.evaluation.metrics.predictions import Answers
from trainwright.evaluation.metrics.query_metrics import QUERY_METRICS, RankedQueries
from trainwright.evaluation.metrics.resampling_units import number_units


@final
@dataclass(frozen=True, slots=True)
class QueryValues:
    """The value of each query [Q], nan where nothing can be ordered, and the position of one row of
    it [Q]."""

    values: Floats
    rows: Integers

    @property
    def informs(self) -> Integers:
        """Which queries have a value."""
        return np.flatnonzero(~np.isnan(self.values))

    def mean(self) -> float:
        """The metric; nan if no query has a value."""
        known = self.values[self.informs]
        return float(known.mean()) if len(known) else math.nan

    def columns(self, rows: int) -> Floats:
        """[N, 2]: at one row of each query its value and 1, so that the ratio of both sums over
        rows whose weights are those of their queries is the mean."""
        found = np.zeros((rows, 2))
        found[self.rows[self.informs], 0] = self.values[self.informs]
        found[self.rows[self.informs], 1] = 1.0
        return found


def values_of_queries(name: str, answers: Answers, section: Metric) -> QueryValues:
    """Value of each query by a metric of rankings."""
    assert answers.queries is not None, "the rows of a ranking have queries"
    queries = answers.queries

    def rank() -> RankedQueries:
        return RankedQueries.of(number_units(queries)[1], answers.values(), answers.truth)

    ranking = answers.once("ranking", rank)
    settings = f"{name} {section.k} {section.gain} {section.relevant_from}"
    values = answers.once(settings, lambda: QUERY_METRICS[name](ranking, section))
    return QueryValues(values, ranking.order[ranking.place == 0])


def count_informing(name: str, answers: Answers, section: Metric) -> int:
    """Queries that have a value."""
    return len(values_of_queries(name, answers, section).informs)
