"""Metrics of a ranking: the mean over queries of what each is worth.

Rows of a query that have one score stand in a random order: a query's value is the expected one
over all such orders (McSherry and Najork 2008, ECIR, doi:10.1007/978-3-540-78646-7_38), so that
neither the order of the file nor that of a sort decides it, and equal scores are worth what a
random order is.

A query whose rows cannot be ordered rightly or wrongly (one row, or equal relevance: for `map` and
`mrr` all rows relevant, or none) has the value nan and is not in the mean, as queries without
relevant rows are by trec_eval. LightGBM and XGBoost count such a query as 1, and scikit-learn one
without relevant rows as 0: a constant that no model changes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, final

import numpy as np
import numpy.typing as npt

from trainwright.contract.sections.metric import Metric
from trainwright.core.errors import Problem
from trainwright.core.formatting import many
from trainwright.data.base.inputs import Floats, Integers, Part
from trainwright.data.types import Prepared
from trainwright.evaluation.metrics.predictions import Answers, answers_of, number_units

Gain = Literal["exponential", "linear"]

MOST_EXPONENTIAL = 31
"""The largest relevance that LightGBM and XGBoost give an exponential gain."""


@final
@dataclass(frozen=True, slots=True)
class RankedQueries:
    """N rows by query and, within it, by descending score; equal scores of a query are a tie.

    `order` [N] are the positions of the rows, `query` [N] their query from 0 of so many `queries`,
    `place` [N] their rank from 0, were ties broken, `tie` [N] their tie from 0; `tie_start` and
    `tie_size` [T] the first rank and the rows of each tie. `relevance` [N] is sorted, too.
    """

    order: Integers
    query: Integers
    queries: int
    place: Integers
    tie: Integers
    tie_start: Integers
    tie_size: Integers
    relevance: Floats

    @classmethod
    def of(cls, codes: Integers, scores: Floats, relevance: npt.NDArray[Any]) -> RankedQueries:
        """Rows [N] with the ascending codes of their queries, from 0 without a gap."""
        order = np.lexsort((-scores, codes))
        query, score = codes[order], scores[order]
        first = np.diff(query, prepend=-1) != 0
        starts = np.flatnonzero(first)
        place = np.arange(len(order)) - starts[query]
        begins = first | (np.diff(score, prepend=np.nan) != 0)
        tie = np.cumsum(begins) - 1
        return cls(
            order=order,
            query=query,
            queries=len(starts),
            place=place,
            tie=tie,
            tie_start=place[begins],
            tie_size=np.bincount(tie),
            relevance=relevance[order].astype(np.float64),
        )

    def per_query(self, values: Floats) -> Floats:
        """Sum of values [N] over the rows of each query [Q]."""
        return np.bincount(self.query, values, self.queries).astype(np.float64)

    def per_tie(self, values: Floats) -> Floats:
        """Sum of values [N] over the rows of each tie [T]."""
        return np.bincount(self.tie, values, len(self.tie_size)).astype(np.float64)

    def ideal(self) -> Floats:
        """The relevance of the rows [N], descending within each query."""
        return self.relevance[np.lexsort((-self.relevance, self.query))]


def gains_of(relevance: Floats, gain: Gain) -> Floats:
    """What rows of these relevances are worth."""
    return np.exp2(relevance) - 1 if gain == "exponential" else relevance


def ndcg_of(ranking: RankedQueries, metric: Metric) -> Floats:
    """DCG over the best possible one [Q], with the discount 1 / log2(rank + 1) down to rank k
    (Järvelin and Kekäläinen 2002, ACM TOIS 20, doi:10.1145/582415.582418)."""
    longest = int(ranking.place.max(initial=0)) + 1
    discounts = 1 / np.log2(np.arange(longest) + 2.0)
    if metric.k != "all":
        discounts[metric.k :] = 0.0
    summed = np.concatenate([[0.0], discounts.cumsum()])
    of_tie = summed[ranking.tie_start + ranking.tie_size] - summed[ranking.tie_start]
    mean_discount = (of_tie / ranking.tie_size)[ranking.tie]
    gained = ranking.per_query(gains_of(ranking.relevance, metric.gain) * mean_discount)
    ideal = ranking.ideal()
    possible = ranking.per_query(gains_of(ideal, metric.gain) * discounts[ranking.place])
    starts = np.flatnonzero(ranking.place == 0)
    ends = np.append(starts[1:], len(ideal)) - 1
    informs = ideal[starts] > ideal[ends]
    # The sums of the best order may differ in their last bits.
    value = np.minimum(gained / np.where(informs, possible, 1.0), 1.0)
    return np.where(informs, value, np.nan)


def average_precision_of(ranking: RankedQueries, metric: Metric) -> Floats:
    """Precision at each relevant row among the first k, summed, over min(relevant rows, k) [Q], so
    that the best order has 1 (as LightGBM; trec_eval divides by all relevant rows).

    Of a tie with r relevant among n rows, behind s rows of which R are relevant, row j stands at
    rank s + j; it is relevant with the chance r / n, and then R + 1 + (j - 1) (r - 1) / (n - 1)
    relevant rows are expected down to it.
    """
    relevant = (ranking.relevance >= metric.relevant_from).astype(np.float64)
    of_tie, size = ranking.per_tie(relevant)[ranking.tie], ranking.tie_size[ranking.tie]
    within = ranking.place - ranking.tie_start[ranking.tie]
    expected = (
        of_tie
        / size
        * (
            _relevant_before(ranking, relevant)
            + 1
            + within * (of_tie - 1) / np.maximum(size - 1, 1)
        )
    )
    counts = ranking.place < _cut(metric)
    found = ranking.per_query(expected * counts / (ranking.place + 1))
    total = ranking.per_query(relevant)
    possible = np.maximum(np.minimum(total, _cut(metric)), 1)
    return np.where(_informs(ranking, total), np.minimum(found / possible, 1.0), np.nan)


def reciprocal_rank_of(ranking: RankedQueries, metric: Metric) -> Floats:
    """1 / rank of the first relevant row, 0 if it stands behind rank k [Q] (Voorhees 1999, TREC-8).

    Of the first tie with r relevant among n rows, row j is the first relevant one with the chance
    C(n - j, r - 1) / C(n, r).
    """
    relevant = (ranking.relevance >= metric.relevant_from).astype(np.float64)
    of_tie, size = ranking.per_tie(relevant)[ranking.tie], ranking.tie_size[ranking.tie]
    behind = size - 1 - (ranking.place - ranking.tie_start[ranking.tie])
    is_first = (_relevant_before(ranking, relevant) == 0) & (of_tie > 0) & (behind >= of_tie - 1)
    log = np.concatenate([[0.0], np.log(np.arange(1, int(size.max(initial=1)) + 1)).cumsum()])

    def log_choose(n: Integers, r: Integers) -> Floats:
        return np.asarray(log[n] - log[r] - log[n - r])

    chance = np.zeros(len(size))
    r, n, left = of_tie[is_first].astype(np.int64), size[is_first], behind[is_first]
    chance[is_first] = np.exp(log_choose(left, r - 1) - log_choose(n, r))
    counts = ranking.place < _cut(metric)
    found = ranking.per_query(chance * counts / (ranking.place + 1))
    return np.where(_informs(ranking, ranking.per_query(relevant)), found, np.nan)


QUERY_METRICS: Mapping[str, Callable[[RankedQueries, Metric], Floats]] = MappingProxyType(
    {"ndcg": ndcg_of, "map": average_precision_of, "mrr": reciprocal_rank_of}
)
"""The value of each query [Q], nan where its rows cannot be ordered rightly or wrongly."""


def _cut(metric: Metric) -> float:
    return np.inf if metric.k == "all" else float(metric.k)


def _informs(ranking: RankedQueries, relevant: Floats) -> npt.NDArray[np.bool_]:
    """Which queries have relevant and other rows [Q]."""
    sizes = np.bincount(ranking.query, minlength=ranking.queries)
    return np.asarray((relevant > 0) & (relevant < sizes))


def _relevant_before(ranking: RankedQueries, relevant: Floats) -> Floats:
    """Relevant rows of the query before the tie of each row [N]."""
    ends = np.concatenate([[0.0], relevant.cumsum()])
    starts = np.flatnonzero(ranking.place == 0)
    first_of_tie = starts[ranking.query] + ranking.tie_start[ranking.tie]
    return np.asarray(ends[first_of_tie] - ends[starts[ranking.query]])


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


def ranking_problems(metric: Metric, prepared: Prepared) -> Iterator[Problem]:
    """What the training and validation rows have against the metric of a ranking."""
    most = max(float(part.target.max()) for part in (prepared.train, prepared.validation))
    if metric.gain == "exponential" and most > MOST_EXPONENTIAL:
        yield Problem(
            f"a gain of 2^relevance - 1 is for relevances up to {MOST_EXPONENTIAL}",
            path="metric.gain",
            found=f"a relevance of {most:g}",
            expected=f"relevances up to {MOST_EXPONENTIAL}, or gain: linear",
            fix="write metric.gain: linear",
        )
        return
    for part in (prepared.train, prepared.validation):
        if not _can_be_ordered(metric, prepared, part):
            yield _nothing_to_order(metric, part)


def _can_be_ordered(metric: Metric, prepared: Prepared, part: Part) -> bool:
    queries = prepared.target.queries(part.frame)
    answers = answers_of(part.target, np.zeros((len(part), 1)), queries=queries)
    return len(values_of_queries(metric.name, answers, metric).informs) > 0


def _nothing_to_order(metric: Metric, part: Part) -> Problem:
    low, high = (f"{float(one):g}" for one in (part.target.min(), part.target.max()))
    if metric.name == "ndcg":
        return Problem(
            f"no query of the {part.name} rows has rows of different relevance",
            path=f"data.split.{part.name}" if part.name != "train" else "data.query",
            found=f"{many(len(part), 'row')}, relevance {low} to {high}",
            expected="queries with more and less relevant rows",
            fix="add rows, or give the part a larger share",
        )
    return Problem(
        f"no query of the {part.name} rows has both relevant and other rows",
        path="metric.relevant_from",
        found=f"relevant from {metric.relevant_from:g}, relevance {low} to {high}",
        expected="a relevance between the least and the largest",
        fix="change relevant_from, for example to the rating from which a row counts as good",
    )
