"""Queries of a ranking as libraries of trees take them: rows query by query, sizes, metric."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, final

import numpy as np

from trainwright.data.base.table import Floats, Integers


def _no_rows() -> Integers:
    return np.zeros(0, dtype=np.int64)


def _no_value(_scores: Floats) -> float:
    raise AssertionError("only a ranking has queries")


def _same(relevance: Floats) -> Floats:
    return relevance


@final
@dataclass(frozen=True, slots=True)
class QueryRows:
    """Rows of a part query by query: their positions `order` [N], and the rows of each query
    `sizes` [Q]. `value` is the contract's metric of scores [N] in this order."""

    order: Integers = field(default_factory=_no_rows)
    sizes: Integers = field(default_factory=_no_rows)
    value: Callable[[Floats], float] = _no_value

    @property
    def codes(self) -> Integers:
        """The query of each row in this order, ascending [N]."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)


@final
@dataclass(frozen=True, slots=True)
class RankingJob:
    """Queries of the training and validation rows, the metric that judges their order, and what a
    relevance is worth by it among the first `k` rows. Empty for other tasks."""

    train: QueryRows = field(default_factory=QueryRows)
    validation: QueryRows = field(default_factory=QueryRows)
    metric: str = ""
    gain: Callable[[Floats], Floats] = _same
    k: Literal["all"] | int = "all"

    def __bool__(self) -> bool:
        return bool(self.metric)

    @property
    def watched(self) -> str:
        """What decides the number of trees, of which less is better."""
        return f"1-{self.metric}"

    def loss(self, scores: Floats, *, of_training: bool) -> float:
        """1 - the metric, of training or validation rows query by query."""
        rows = self.train if of_training else self.validation
        return 1.0 - rows.value(np.asarray(scores, np.float64))


def rows_by_query(codes: Integers, value: Callable[[Floats, Integers], float]) -> QueryRows:
    """Rows with the codes [N] of their queries; `value` takes scores and the positions of their
    rows."""
    order = np.argsort(codes, kind="stable")
    sizes = np.unique(codes, return_counts=True)[1].astype(np.int64)
    return QueryRows(order, sizes, lambda scores: value(scores, order))


NO_RANKING = RankingJob()
