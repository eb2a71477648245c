"""Predictions paired with the truth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from trainwright.data.base.levels import NO_LEVELS, Levels
from trainwright.data.base.table import Floats, Integers
from trainwright.data.columns.target_kind import LIKELY, Costs

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Answers:
    """Predictions and truth of N rows.

    Where they `are_several`, of several targets, `truth` is [N, T]: float64 values beside predicted
    ones [N, T], or int64 0 and 1 of labels beside their probabilities [N, T]; `each` has every
    target by itself. Else `truth` is int64 class codes [N] or float64 values [N]; `scores` is
    float64 class probabilities [N, C] (rows sum to 1), values [N, 1], or the `quantiles` [N, K],
    ascending in each row, with the median among them. `positive` is the code of the positive class
    of two, otherwise unused. `folds` is the fold [N] of each row, if models of folds scored them:
    scores of two models are not ranked against each other. `decided` are the chosen classes [N],
    of labels [N, L] whether each is given, where a threshold decides, not the highest
    probability. `queries` is the query [N] of each row
    of a ranking. `levels` are what values are measured against: of series, and of texts. `costs`
    are those of errors, if the contract has any. Build it by `answers_of`.
    """

    truth: npt.NDArray[Any]
    scores: Floats
    positive: int = 1
    folds: Integers | None = None
    decided: Integers | None = None
    queries: Integers | None = None
    quantiles: tuple[float, ...] = ()
    levels: Levels = NO_LEVELS
    costs: Costs = ()
    are_several: bool = False
    _kept: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.truth)

    @property
    def are_labels(self) -> bool:
        """Are they of several labels?"""
        return self.are_several and self.truth.dtype.kind == "i"

    def each(self) -> tuple[Answers, ...]:
        """Those of each of several targets; of a label as two classes."""
        return self.once("each", lambda: tuple(map(self._of_target, range(self.truth.shape[1]))))

    def _of_target(self, at: int) -> Answers:
        scores = self.scores[:, at : at + 1]
        if self.are_labels:
            scores = np.concatenate([1 - scores, scores], axis=1)
        decided = None if self.decided is None else self.decided[:, at]
        return Answers(self.truth[:, at], scores, 1, self.folds, decided)

    @property
    def classes(self) -> int:
        """C, the number of classes; 1 for numbers."""
        return 1 if self.quantiles else int(self.scores.shape[1])

    def once(self, name: str, make: Callable[[], Value]) -> Value:
        """Result of `make`, cached for all metrics of these answers."""
        if name not in self._kept:
            self._kept[name] = make()
        found: Value = self._kept[name]
        return found

    def chosen(self) -> Integers:
        """Argmax class of each row [N], the first on ties; or the one that was decided. Of labels 1
        from a probability of 1/2 on, [N, L]."""
        return self.likeliest() if self.decided is None else self.decided

    def likeliest(self) -> Integers:
        """Class of the highest probability of each row [N], the first on ties; of labels whether
        each is likely."""
        if self.are_labels:
            return self.once("chosen", lambda: (self.scores >= LIKELY).astype(np.int64))
        if not len(self):
            return np.zeros(0, np.int64)
        return self.once("chosen", lambda: np.asarray(np.argmax(self.scores, axis=1), np.int64))

    def row_costs(self) -> Floats:
        """Cost of each row's decision [N]: the one that was made, or without one that of the least
        expected cost."""
        # Imported here: few errors have costs.
        from trainwright.data.columns.error_costs import costs_of, least_expected

        assert self.costs, "the contract has costs where it measures them"
        decided = self.decided
        if decided is None:
            decided = self.once("cheapest", lambda: least_expected(self.scores, self.costs))
        return costs_of(self.truth, decided, self.costs)

    def class_counts(self) -> Integers:
        """Row count of each true class [C]."""
        return self.once(
            "counts", lambda: np.bincount(self.truth, minlength=self.classes).astype(np.int64)
        )

    def is_positive(self) -> npt.NDArray[np.bool_]:
        """Mask of positive rows [N]."""
        return np.asarray(self.truth == self.positive)

    def positive_scores(self) -> Floats:
        """Probability of the positive class [N]."""
        return self.scores[:, self.positive]

    def values(self) -> Floats:
        """Predicted numbers [N]; of quantiles the median."""
        return self.scores[:, self.quantiles.index(0.5) if self.quantiles else 0]

    def take(self, rows: Integers) -> Answers:
        """The given rows, in the given order."""
        folds = None if self.folds is None else self.folds[rows]
        decided = None if self.decided is None else self.decided[rows]
        queries = None if self.queries is None else self.queries[rows]
        return Answers(
            self.truth[rows],
            self.scores[rows],
            self.positive,
            folds,
            decided,
            queries,
            self.quantiles,
            self.levels.take(rows),
            self.costs,
            self.are_several,
        )

    def rows_of_folds(self) -> list[Integers]:
        """The rows of each fold that has any."""
        assert self.folds is not None, "only asked where there are folds"
        return [np.flatnonzero(self.folds == fold) for fold in np.unique(self.folds)]

    def ranked_in_folds(self) -> Answers:
        """These answers with each score replaced by its percentile rank in its fold, ties sharing
        theirs: (rank - 1/2) / rows, so that scores that are all equal have 1/2. Without folds, the
        scores unchanged."""
        return self if self.folds is None else self.once("ranked in folds", self._in_fold_ranks)

    def _in_fold_ranks(self) -> Answers:
        ranks = np.empty_like(self.scores)
        for rows in self.rows_of_folds():
            for code in range(self.classes):
                ranks[rows, code] = _percentile_ranks(self.scores[rows, code])
        return Answers(self.truth, ranks, self.positive)


def _percentile_ranks(scores: Floats) -> Floats:
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    return np.asarray(((counts.cumsum() - counts / 2) / len(scores))[place])


def answers_of(
    truth: npt.NDArray[Any],
    scores: Floats,
    positive: int = 1,
    folds: Integers | None = None,
    decided: Integers | None = None,
    queries: Integers | None = None,
    quantiles: tuple[float, ...] = (),
    levels: Levels = NO_LEVELS,
    costs: Costs = (),
) -> Answers:
    """`Answers` with probabilities that sum to 1 in float64 (a float32 softmax sums to 1 + 1e-7).

    Two or more columns of scores are probabilities, one column is values; with `quantiles` there is
    a column for each, and so there is with a truth [N, T] of several targets.
    """
    exact = np.asarray(scores, dtype=np.float64)
    assert exact.ndim == 2, "scores are [N, C]"
    assert len(exact) == len(truth), "one row of scores for each true value"
    assert bool(np.isfinite(exact).all()), "a model's scores are finite"
    assert not quantiles or exact.shape[1] == len(quantiles), "a column for each quantile"
    are_several = np.ndim(truth) == 2
    assert not are_several or exact.shape == np.shape(truth), "a score for each target"
    if exact.shape[1] > 1 and not quantiles and not are_several:
        exact = exact / exact.sum(axis=1, keepdims=True)
    truth = np.asarray(truth)
    return Answers(
        truth, exact, positive, folds, decided, queries, quantiles, levels, costs, are_several
    )
