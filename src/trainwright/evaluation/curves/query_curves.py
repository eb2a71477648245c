"""Plot data and notes of a ranking: how its value is spread over the queries, and the worst."""

from __future__ import annotations

import numpy as np
import polars as pl

from trainwright.contract.sections.metric import Metric
from trainwright.core.formatting import many, show_number
from trainwright.data.base.cells.parse_cells import to_labels
from trainwright.data.columns.target_kind import Target
from trainwright.evaluation.curves.plot_data import QueryScore, RankingCurves
from trainwright.evaluation.metrics.predictions import Answers
from trainwright.evaluation.metrics.query_values import values_of_queries

_BINS = 20
_WORST = 10


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
