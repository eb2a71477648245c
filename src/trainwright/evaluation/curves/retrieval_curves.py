"""Plot data of rankings and retrievals: values by query, recall by the number of candidates."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl

from trainwright.contract.sections.metric import Metric
from trainwright.core.formatting import many, show_number
from trainwright.data.base.inputs import Integers
from trainwright.data.base.parse_cells import to_labels
from trainwright.data.columns.target import Target
from trainwright.evaluation.curves.plot_data import (
    PassageCurves,
    QueryScore,
    RankingCurves,
    RetrievalCurves,
)
from trainwright.evaluation.metrics.predictions import Answers
from trainwright.evaluation.metrics.query_metrics import values_of_queries
from trainwright.evaluation.metrics.retrieval import PASSAGE_CUTS, CandidatePlaces, mean_of_queries

_BINS = 20
_WORST = 10
_SHOWN = (1, 2, 3, 5, 10, 20, 50, 100)


def query_names(target: Target, frame: pl.DataFrame) -> pl.Series:
    """The query of each row as text."""
    return to_labels(frame[target.query])


def draw_query_curves(answers: Answers, metric: Metric, names: pl.Series) -> RankingCurves:
    """Compute the curves; `names` [N] are the queries of the rows."""
    found = values_of_queries(metric.name, answers, metric)
    known = found.informs
    values = found.values[known]
    counts, edges = np.histogram(values, _BINS, (0.0, 1.0))
    queries = answers.queries
    assert queries is not None
    sizes = dict(
        zip(*(one.tolist() for one in np.unique(queries, return_counts=True)), strict=True)
    )
    worst = known[np.argsort(values, kind="stable")[:_WORST]]
    return RankingCurves(
        metric.name,
        tuple(map(float, edges)),
        tuple(map(int, counts)),
        tuple(
            QueryScore(
                str(names[int(found.rows[at])]),
                sizes[int(queries[found.rows[at]])],
                float(found.values[at]),
            )
            for at in worst
        ),
        len(found.values) - len(known),
    )


def note_queries(answers: Answers, metric: Metric) -> tuple[str, ...]:
    """What the queries without a value are, and how the metric would be if they counted."""
    found = values_of_queries(metric.name, answers, metric)
    known, every = len(found.informs), len(found.values)
    if known == every:
        return ()
    without, total = every - known, float(np.nansum(found.values))
    same = "equally relevant rows" if metric.name == "ndcg" else "only relevant rows, or none"
    as_one = show_number((total + without) / every)
    return (
        f"{without:,} of {many(every, 'query', 'queries')} leave nothing to order (one row, or "
        f"{same}) and are not in the mean of {metric.name}, as by trec_eval; counted as 1, as "
        f"LightGBM and XGBoost do, it would be {as_one}, counted as 0 {show_number(total / every)}",
    )


def count_candidates(codes: Integers) -> tuple[int, int]:
    """Different images and different texts among pairs with codes [N, 2]."""
    return len(np.unique(codes[:, 0])), len(np.unique(codes[:, 1]))


def draw_recalls(answers: Mapping[str, Answers], codes: Integers) -> RetrievalCurves:
    """Recall of the model and of each baseline at several cuts, in both directions."""
    images, texts = count_candidates(codes)
    shown = tuple(k for k in _SHOWN if k < max(images, texts)) or (1,)

    def recalls(side: int) -> dict[str, tuple[float, ...]]:
        places = {who: CandidatePlaces.of(each, side) for who, each in answers.items()}
        return {
            who: tuple(float(one.recall(k).mean()) for k in shown) for who, one in places.items()
        }

    return RetrievalCurves(images, texts, shown, recalls(0), recalls(1))


def draw_passages(answers: Mapping[str, Answers], codes: Integers) -> PassageCurves:
    """Recall of the model and of each baseline at 1, 5 and 10."""
    queries, passages = (len(np.unique(codes[:, side])) for side in (0, 1))
    recalls = {
        who: tuple(mean_of_queries(f"passage_recall_at_{k}", each) for k in PASSAGE_CUTS)
        for who, each in answers.items()
    }
    return PassageCurves(queries, passages, PASSAGE_CUTS, recalls)


def note_passages(codes: Integers) -> tuple[str, ...]:
    """The pool that every value is for."""
    queries, passages = (len(np.unique(codes[:, side])) for side in (0, 1))
    return (
        f"each of {queries:,} queries has {passages:,} passages to choose from: among more "
        "candidates values are lower, among fewer higher",
    )


def draw_retrieval(
    target: Target, answers: Mapping[str, Answers], codes: Integers
) -> RetrievalCurves | PassageCurves:
    """Curves of a target: both directions, or the passages of queries."""
    if target.is_one_way:
        return draw_passages(answers, codes)
    return draw_recalls(answers, codes)


def note_candidates(target: Target, codes: Integers) -> tuple[str, ...]:
    """The pool that every value is for."""
    if target.is_one_way:
        return note_passages(codes)
    images, texts = count_candidates(codes)
    return (
        f"each query has {texts:,} texts or {images:,} images to choose from: among more "
        "candidates recall is lower, among fewer higher",
    )
