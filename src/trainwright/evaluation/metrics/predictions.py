"""Predictions paired with the truth, and the units that intervals resample.

Where there are too many units, random groups of them are resampled as wholes. The spread of the
sums of G random groups estimates that of single units with a relative standard error of 1 /
sqrt(2 G) (the random group method; Wolter 2007, Introduction to Variance Estimation, chapter 2).
Dependent rows stay together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, final

import numpy as np
import numpy.typing as npt

from trainwright.data.base.inputs import Floats, Integers
from trainwright.data.base.levels import NO_LEVELS, Levels
from trainwright.data.columns.target import LIKELY, Costs, costs_of, least_expected

Value = TypeVar("Value")

MOST_UNITS = 10_000
"""Unit limit for drawing single units."""

GROUPS = 2000
"""Number of groups: the relative standard error of an interval's width is 1.6%."""

_MOST_COLUMNS = 4096


def ratio(above: Floats, below: Floats) -> Floats:
    """`above / below`, nan where `below` is 0."""
    return np.divide(above, below, out=np.full_like(above, np.nan), where=below != 0)


def ratio_or_zero(above: Floats, below: Floats) -> Floats:
    """`above / below`, 0 where `below` is 0."""
    return np.divide(above, below, out=np.zeros_like(above), where=below != 0)


def number_units(units: Integers) -> tuple[int, Integers]:
    """Number of distinct units, and the ascending code [N] of each row's unit. Sorted units are not
    sorted again."""
    rises = units[1:] > units[:-1]
    if bool((rises | (units[1:] == units[:-1])).all()) and len(units):
        numbers = np.concatenate([[0], np.cumsum(rises)]).astype(np.int64)
        return int(numbers[-1]) + 1, numbers
    found, numbers = np.unique(units, return_inverse=True)
    return len(found), numbers.astype(np.int64)


def count_units(units: Integers) -> int:
    """Number of distinct units."""
    return number_units(units)[0]


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


@final
@dataclass(frozen=True, slots=True)
class RowGroups:
    """Group of each row [N]. Sums are cached, since metrics share them."""

    of_row: Integers
    count: int
    _kept: dict[int, tuple[Floats, Floats]] = field(default_factory=dict, repr=False, compare=False)

    def take(self, rows: Integers) -> RowGroups:
        """The groups of these rows."""
        return RowGroups(self.of_row[rows], self.count)

    def sums(self, columns: Floats) -> Floats:
        """Sums of columns [N, K] by group, [G, K]; of one column [N], [G]."""
        if id(columns) not in self._kept:
            self._kept[id(columns)] = (columns, self._sums(columns))
        return self._kept[id(columns)][1]

    def sizes(self) -> Floats:
        """Rows per group [G]."""
        if id(self.of_row) not in self._kept:
            sizes = np.bincount(self.of_row, minlength=self.count).astype(np.float64)
            self._kept[id(self.of_row)] = (sizes, sizes)
        return self._kept[id(self.of_row)][1]

    def _sums(self, columns: Floats) -> Floats:
        if columns.ndim == 1:
            return np.bincount(self.of_row, columns, self.count).astype(np.float64)
        each = [np.bincount(self.of_row, column, self.count) for column in columns.T]
        return np.stack(each, axis=1)


@final
@dataclass(frozen=True, slots=True)
class GroupSums:
    """A metric of weighted group sums: `use` maps those of each block, [G, K] or [G], to values
    [R]."""

    blocks: tuple[Floats, ...]
    use: Callable[..., Floats]

    def __call__(self, weights: Floats) -> Floats:
        """Values [R] for group weights [R, G]."""
        return self.use(*(weights @ block for block in self.blocks))


def weigh_groups(metrics: Sequence[GroupSums], weights: Floats) -> Iterator[Floats]:
    """Values [R] of each metric, batched into one matrix product: with few columns the product is
    bound by reading the weights [R, G]."""
    batch: list[GroupSums] = []
    columns = 0
    for metric in metrics:
        wide = sum(block.size // len(block) for block in metric.blocks)
        if batch and columns + wide > _MOST_COLUMNS:
            yield from _weigh_batch(batch, weights)
            batch, columns = [], 0
        batch.append(metric)
        columns += wide
    if batch:
        yield from _weigh_batch(batch, weights)


def _weigh_batch(metrics: Sequence[GroupSums], weights: Floats) -> Iterator[Floats]:
    blocks = {id(block): block for metric in metrics for block in metric.blocks}
    flat = [block.reshape(len(block), -1) for block in blocks.values()]
    sums = weights @ np.concatenate(flat, axis=1)
    ends = np.cumsum([block.shape[1] for block in flat])[:-1]
    parts = dict(zip(blocks, np.split(sums, ends, axis=1), strict=True))
    for metric in metrics:
        yield metric.use(*(_shaped(parts[id(block)], block) for block in metric.blocks))


def _shaped(sums: Floats, block: Floats) -> Floats:
    return sums[:, 0] if block.ndim == 1 else sums


def groups_of(unit_of_row: Integers, count: int, seed: int) -> RowGroups:
    """Random groups of equal numbers of units, up to one; `unit_of_row` [N] are the units, 0 to
    `count` - 1."""
    generator = np.random.default_rng([seed, 0x67726F75])
    group_of_unit = generator.permutation(count) % GROUPS
    return RowGroups(group_of_unit[unit_of_row].astype(np.int64), GROUPS)
