"""Metrics of a ranking that its rows cannot be judged by."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from trainwright.contract.sections.metric import Metric
from trainwright.core.errors import Problem
from trainwright.core.formatting import many
from trainwright.data.base.table import Part
from trainwright.data.types import Prepared
from trainwright.evaluation.metrics.predictions import answers_of
from trainwright.evaluation.metrics.query_values import values_of_queries

MOST_EXPONENTIAL = 31
"""The largest relevance that LightGBM and XGBoost give an exponential gain."""


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
