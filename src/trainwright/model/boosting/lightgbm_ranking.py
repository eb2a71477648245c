"""Rankings by LightGBM: losses of queries, and the contract's metric as what is watched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lightgbm
import numpy as np

from trainwright.data.base.table import Floats
from trainwright.model.query_rows import RankingJob

USUAL_TRUNCATION, BEYOND = 30, 3
"""A pair of rows counts if one stands above this rank: LightGBM's default, and what it advises to
add to the k of a metric."""

OwnMetric = Callable[[Floats, lightgbm.Dataset], tuple[str, float, bool]]


def ranking_objective(objective: str, ranking: RankingJob, grades: Floats) -> dict[str, Any]:
    """Parameters of a loss of queries. `grades` [G] are the relevances that the labels number, so
    that they need not be whole numbers; each is worth what the contract's metric says."""
    if objective != "lambdarank":
        return {"objective": objective}
    return {
        "objective": objective,
        "label_gain": ranking.gain(grades).tolist(),
        "lambdarank_truncation_level": truncation_of(ranking),
    }


def truncation_of(ranking: RankingJob) -> int:
    """The rank down to which pairs count."""
    return max(USUAL_TRUNCATION, 0 if ranking.k == "all" else ranking.k + BEYOND)


def ranking_metric(ranking: RankingJob, train: lightgbm.Dataset) -> OwnMetric:
    """1 - the contract's metric, on the training or the validation rows."""

    def loss(scores: Floats, rows: lightgbm.Dataset) -> tuple[str, float, bool]:
        return ranking.watched, ranking.loss(scores, of_training=rows is train), False

    return loss


def ranking_losses(
    trees: lightgbm.Booster,
    matrix: Any,
    ranking: RankingJob,
    threads: int,
    between: Callable[[], None],
) -> Floats:
    """1 - the metric of the validation rows after each tree [trees]; `between` is called after each
    and may raise to end it."""
    raw, found = np.zeros(()), np.zeros(trees.current_iteration())
    for number in range(len(found)):
        between()
        added = trees.predict(
            matrix, raw_score=True, start_iteration=number, num_iteration=1, num_threads=threads
        )
        raw = raw + np.asarray(added, np.float64)
        found[number] = ranking.loss(raw, of_training=False)
    return found
