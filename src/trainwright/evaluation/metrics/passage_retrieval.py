"""Retrieval of passages by queries, as in a search engine.

The candidates of a query are all different passages of the judged part. Right is every passage that
stands beside the query in some pair of the part. Candidates of equal scores stand in a random
order: values are the expected ones over all such orders. A query with several passages counts once:
each of its pairs has the values of the query, and a weight of one over their number.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
import polars as pl

from trainwright.data.base.table import Floats, Integers
from trainwright.evaluation.metrics.predictions import Answers
from trainwright.evaluation.metrics.retrieval import losses_of_queries, mean_reciprocal

_BLOCK = 2**22
PASSAGE_CUTS = (1, 5, 10)
"""How many of the first passages a recall counts."""

_DEPTH = 10
PASSAGE_COLUMNS: Mapping[str, int] = MappingProxyType(
    {
        **{f"passage_recall_at_{k}": at for at, k in enumerate(PASSAGE_CUTS)},
        "passage_mrr": 3,
        "passage_ndcg_at_10": 4,
    }
)
"""The column of each metric in the scores of `answers_of_passages`."""

_WEIGHT, _LOSS = 5, 6
_NAMES = (*PASSAGE_COLUMNS, "weight", "loss")


def answers_of_passages(codes: Integers, scores: Floats) -> Answers:
    """Values of pairs with embeddings `scores` [N, 2 D] and the codes of their queries and passages
    [N, 2 and more]: [N, 7], recall at 1, 5 and 10 (the share of the right passages that are among
    the first), reciprocal rank of the first right one, NDCG at 10 with gains of 0 and 1 (Järvelin
    and Kekäläinen 2002), the weight, and the contrastive loss among the part's passages."""
    exact = np.asarray(scores, np.float64)
    assert bool(np.isfinite(exact).all()), "a model's scores are finite"
    queries, passages = np.split(exact, 2, axis=1)
    pairs = codes[:, :2]
    _, first_pair, own_query = np.unique(pairs[:, 0], return_index=True, return_inverse=True)
    _, first, own = np.unique(pairs[:, 1], return_index=True, return_inverse=True)
    chosen = passages[first]
    relevant = np.zeros((len(first_pair), len(first)), dtype=np.bool_)
    relevant[own_query, own] = True
    found = np.empty((len(pairs), 7))
    rows = max(1, _BLOCK // max(1, len(chosen)))
    for start in range(0, len(pairs), rows):
        block = np.arange(start, min(start + rows, len(pairs)))
        similar = queries[block] @ chosen.T
        right = relevant[own_query[block]]
        found[block, :5] = np.array(
            [_values(one, which) for one, which in zip(similar, right, strict=True)]
        ).reshape(len(block), 5)
        found[block, _LOSS] = losses_of_queries(similar, right, own[block])
    found[:, _WEIGHT] = 1 / np.bincount(own_query)[own_query]
    return Answers(pairs, found)


def _values(scores: Floats, right: npt.NDArray[np.bool_]) -> tuple[float, ...]:
    """Recalls, reciprocal rank and NDCG of a query with `scores` [C] of its candidates."""
    own = scores[right]
    above = (scores[None] > own[:, None]).sum(axis=1)
    tied = (scores[None] == own[:, None]).sum(axis=1)
    recalls = [float((np.clip(k - above, 0, tied) / tied).mean()) for k in PASSAGE_CUTS]
    best = own == own.max()
    wrong = int(tied[best][0] - best.sum())
    reciprocal = mean_reciprocal(float(above[best][0]), float(wrong), float(best.sum()))
    gained = np.concatenate([[0.0], np.cumsum(1 / np.log2(np.arange(_DEPTH) + 2))])
    ends = np.minimum(above + tied, _DEPTH)
    share = (gained[ends] - gained[np.minimum(above, _DEPTH)]) / tied
    ndcg = float(share.sum() / gained[min(len(own), _DEPTH)])
    return (*recalls, reciprocal, ndcg)


def passage_sums(name: str, answers: Answers) -> Floats:
    """[N, 2]: the weighted value of each pair and its weight, whose ratio of sums is the mean over
    the queries."""
    weight = answers.scores[:, _WEIGHT]
    return np.column_stack([answers.scores[:, PASSAGE_COLUMNS[name]] * weight, weight])


def mean_of_queries(name: str, answers: Answers) -> float:
    """The metric."""
    value, weight = passage_sums(name, answers).sum(axis=0)
    return float(value / weight)


def passage_columns(answers: Answers) -> list[pl.Series]:
    """Answers of text pairs as columns: the code of the query, its values, weight and loss."""
    return [
        pl.Series("query", answers.truth[:, 0]),
        *(pl.Series(name, answers.scores[:, at]) for at, name in enumerate(_NAMES)),
    ]


def answers_of_columns(frame: pl.DataFrame) -> Answers:
    """Inverse of `passage_columns`, beside the code of the passage as `target`."""
    codes = np.stack([frame["query"].to_numpy(), frame["target"].to_numpy()], axis=1)
    return Answers(codes, frame.select(_NAMES).to_numpy().astype(np.float64))
