"""Ranking metrics, vectorised over row weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt

from trainwright.contract.sections.metric import Metric
from trainwright.data.base.inputs import Floats, Integers
from trainwright.evaluation.metrics.metric_values import present_classes
from trainwright.evaluation.metrics.predictions import (
    Answers,
    GroupSums,
    RowGroups,
    ratio,
    ratio_or_zero,
)

FEW_POSITIVES = 500
"""With at most this many positives, only the thresholds next to them matter: all are kept."""

_WINDOW = 0.05
"""Thresholds this close to the minimum recall are kept first,"""

_WINDOW_ERRORS = 8.0
"""or this many standard errors of the recall, if less: with many rows no resample goes further."""

OfCounts = Callable[[Floats, Floats], Floats]
"""Maps weights of the positives and of all rows above each threshold, [R, D] each, to values
[R]."""


@final
class Ranked:
    """Rows by descending score, and the end of each run of ties."""

    def __init__(
        self, truth: npt.NDArray[np.bool_], scores: Floats, rows: Integers | None = None
    ) -> None:
        """`rows` are the places of these rows among all that are weighed."""
        order = np.argsort(-scores, kind="stable").astype(np.int64)
        self.order: Integers = order if rows is None else rows[order]
        self.positive = truth[order].astype(np.float64)
        self.positives = int(truth.sum())
        falls = np.flatnonzero(np.diff(scores[order]))
        self.ends: Integers = np.append(falls, len(order) - 1).astype(np.int64)

    def counts(self, weights: Floats) -> tuple[Floats, Floats]:
        """Cumulative weights of the positives and of all rows at each distinct score, [R, D]
        each."""
        ranked = np.take(weights, self.order, axis=1)
        total = np.cumsum(ranked, axis=1)
        np.multiply(ranked, self.positive, out=ranked)
        found = np.cumsum(ranked, axis=1, out=ranked)
        if len(self.ends) == len(self.order):
            return found, total
        return np.take(found, self.ends, axis=1), np.take(total, self.ends, axis=1)

    def counts_at(self, ends: Integers, groups: RowGroups) -> tuple[Floats, Floats]:
        """Cumulative counts by group, at `ends` only, [G, D] each."""
        between = self._spans(ends, len(ends) + 1)
        cell = groups.of_row[self.order] * (len(ends) + 1) + between
        shape = (groups.count, len(ends) + 1)
        size = shape[0] * shape[1]
        found = np.bincount(cell, self.positive, size).reshape(shape)
        total = np.bincount(cell, minlength=size).reshape(shape)
        return found[:, :-1].cumsum(axis=1), total[:, :-1].cumsum(axis=1).astype(np.float64)

    def few_ends(self) -> Integers:
        """Thresholds next to the (few) positives: no others change a value."""
        spans = np.searchsorted(self.ends, np.flatnonzero(self.positive))
        kept = [np.maximum(spans - 1, 0), spans, np.array([len(self.ends) - 1])]
        return np.asarray(self.ends[np.unique(np.concatenate(kept))])

    def ends_about(self, recall: float, groups: RowGroups) -> Integers:
        """About 300 thresholds, most of them near this recall."""
        reached = self.positive.cumsum()[self.ends] / self.positives
        window = min(_WINDOW, _WINDOW_ERRORS * self._recall_error(reached, recall, groups))
        near = np.linspace(max(0.0, recall - window), min(1.0, recall + window), 192)
        wanted = np.searchsorted(reached, np.concatenate([near, np.linspace(0, 1, 129)]))
        return np.asarray(self.ends[np.unique(np.minimum(wanted, len(self.ends) - 1))])

    def _recall_error(self, reached: Floats, recall: float, groups: RowGroups) -> float:
        """Standard error of the recall at the threshold that reaches it."""
        end = self.ends[min(int(np.searchsorted(reached, recall)), len(self.ends) - 1)]
        apart = np.where(np.arange(len(self.order)) <= end, 1 - recall, -recall) * self.positive
        of_groups = groups.take(self.order).sums(apart)
        return math.sqrt(groups.count * float(of_groups.var())) / self.positives

    def at_ends(self) -> tuple[Floats, Floats, Integers]:
        """Cumulative positives and rows at each distinct score [D], and the score index of each row
        [N]."""
        span = self._spans(self.ends, len(self.ends))
        return self.positive.cumsum()[self.ends], (self.ends + 1).astype(np.float64), span

    def _spans(self, ends: Integers, count: int) -> Integers:
        """Number of these ends before each row [N]; at most `count` values occur."""
        bounds = np.append(ends, len(self.order) - 1)[:count]
        return np.repeat(np.arange(count), np.diff(bounds, prepend=-1))


OfRanked = Callable[[Ranked], Floats]
"""Derivative of the value by the weight of each row in descending order [N]."""


def _mean_of(parts: Sequence[GroupSums]) -> GroupSums:
    """The mean over classes."""
    counts = [len(part.blocks) for part in parts]
    starts = [sum(counts[:at]) for at in range(len(counts))]

    def mean(*sums: Floats) -> Floats:
        each = [
            part.use(*sums[start : start + count])
            for part, start, count in zip(parts, starts, counts, strict=True)
        ]
        return np.asarray(np.mean(each, axis=0))

    return GroupSums(tuple(block for part in parts for block in part.blocks), mean)


@final
@dataclass(frozen=True, slots=True)
class OneAgainstRest:
    """One-vs-rest mean of a binary metric over classes, or that of a single class."""

    each: Sequence[Ranked]
    use: OfCounts
    slope: OfRanked

    def __call__(self, weights: Floats) -> Floats:
        """The values [R] of these weights [R, N]."""
        values = np.stack([self.use(*ranked.counts(weights)) for ranked in self.each])
        return np.asarray(values.mean(axis=0))

    @property
    def has_closed_form(self) -> bool:
        """Are there enough positives for the first-order form?"""
        return all(ranked.positives > FEW_POSITIVES for ranked in self.each)

    def grouped(self, groups: RowGroups) -> GroupSums:
        """The same as a function of how often each group is drawn [R, G]."""
        return _mean_of([self._grouped(ranked, groups) for ranked in self.each])

    def _grouped(self, ranked: Ranked, groups: RowGroups) -> GroupSums:
        if ranked.positives <= FEW_POSITIVES:
            return GroupSums(ranked.counts_at(ranked.few_ends(), groups), self.use)
        value = self.use(*ranked.counts(np.ones((1, len(ranked.order)))))
        slopes = groups.take(ranked.order).sums(self.slope(ranked))
        return GroupSums((slopes,), lambda sums: value + sums)


@final
@dataclass(frozen=True, slots=True)
class WithinFolds:
    """Area under the ROC curve of rows that the models of folds scored, from the pairs of rows of
    one fold: the areas of the folds, weighted by their pairs (Forman and Scholz 2010, Apples-to-
    Apples in Cross-Validation Studies). Of several classes the mean over each against the others.
    """

    each: Sequence[Sequence[Ranked]]
    """Of each class its ranking in each fold."""

    def __call__(self, weights: Floats) -> Floats:
        """The values [R] of these weights [R, N]."""
        values = [_area_within(one.counts(weights) for one in folds) for folds in self.each]
        return np.asarray(np.mean(values, axis=0))

    @property
    def has_closed_form(self) -> bool:
        """Whether there are positives enough for the first-order form."""
        return all(map(_are_many, self.each))

    def grouped(self, groups: RowGroups) -> GroupSums:
        """The same as a function of how often each group is drawn [R, G]."""
        return _mean_of([_grouped_within(folds, groups) for folds in self.each])


@final
@dataclass(frozen=True, slots=True)
class PrecisionAtRecall:
    """The best precision of any threshold that finds at least this share of the positives."""

    ranked: Ranked
    recall: float

    def __call__(self, weights: Floats) -> Floats:
        """The values [R] of these weights [R, N]."""
        return self.use(*self.ranked.counts(weights))

    def use(self, found: Floats, total: Floats) -> Floats:
        """The value of these weights above each threshold."""
        positives = found[:, -1:]
        precision = ratio_or_zero(found, total)
        reached = ratio_or_zero(found, np.broadcast_to(positives, found.shape)) >= self.recall
        best = np.where(reached, precision, 0.0).max(axis=1)
        return np.where(positives[:, 0] > 0, best, np.nan)

    def grouped(self, groups: RowGroups) -> GroupSums:
        """The same as a function of how often each group is drawn [R, G]."""
        ranked = self.ranked
        few = ranked.positives <= FEW_POSITIVES
        ends = ranked.few_ends() if few else ranked.ends_about(self.recall, groups)
        counts = ranked.counts_at(ends, groups)
        whole = [each.sum(axis=0, keepdims=True) for each in counts]
        # Contribution of the omitted thresholds to the value on the unweighted rows.
        apart = self(np.ones((1, len(ranked.order)))) - self.use(whole[0], whole[1])
        return GroupSums(counts, lambda found, total: self.use(found, total) + apart)


def roc_auc(answers: Answers, _: Metric) -> OneAgainstRest | WithinFolds:
    """Area under the ROC curve; where models of folds gave the scores, within the folds."""
    if answers.folds is not None:
        return WithinFolds(_each_in_folds(answers))
    return OneAgainstRest(_each(answers), _auc_of, _auc_slope)


def average_precision(answers: Answers, _: Metric) -> OneAgainstRest:
    """Average precision; where models of folds gave the scores, of their ranks within the folds."""
    return OneAgainstRest(
        _each(answers.ranked_in_folds()), _average_precision_of, _average_precision_slope
    )


def precision_at_recall(answers: Answers, section: Metric) -> PrecisionAtRecall:
    """Best precision at the section's recall; where models of folds gave the scores, of their ranks
    within the folds."""
    return PrecisionAtRecall(_each(answers.ranked_in_folds())[0], section.recall)


def _each(answers: Answers) -> list[Ranked]:
    """Of two classes the positive one, of several each that occurs."""
    return answers.once("ranked", lambda: _ranked(answers))


def _each_in_folds(answers: Answers) -> list[list[Ranked]]:
    """As `_each`, in each fold."""
    codes = [answers.positive] if answers.classes == 2 else present_classes(answers)
    rows_of_folds = answers.rows_of_folds()
    return [
        [
            Ranked(answers.truth[rows] == code, answers.scores[rows, code], rows)
            for rows in rows_of_folds
        ]
        for code in codes
    ]


def ranked_by_class(answers: Answers) -> dict[int, Ranked]:
    """Of two classes the positive one, of several each that occurs, by their codes."""
    codes = [answers.positive] if answers.classes == 2 else present_classes(answers)
    return dict(zip(codes, _each(answers), strict=True))


def _ranked(answers: Answers) -> list[Ranked]:
    if answers.classes == 2:
        return [Ranked(answers.is_positive(), answers.positive_scores())]
    return [
        Ranked(np.asarray(answers.truth == code), answers.scores[:, code])
        for code in present_classes(answers)
    ]


def _auc_of(found: Floats, total: Floats) -> Floats:
    """Area under the ROC curve by trapezoids, which count ties as half."""
    return ratio(*_twice_area(found, total))


def _twice_area(found: Floats, total: Floats) -> tuple[Floats, Floats]:
    """Twice the correctly ordered pairs of a positive and a negative, and twice all pairs."""
    missed = total - found
    twice = found[:, 0] * missed[:, 0]
    widths = missed[:, 1:] - missed[:, :-1]
    twice += np.einsum("rd,rd->r", widths, found[:, 1:])
    twice += np.einsum("rd,rd->r", widths, found[:, :-1])
    return twice, 2 * found[:, -1] * missed[:, -1]


def _auc_slope(ranked: Ranked) -> Floats:
    """DeLong's components (DeLong et al. 1988, equations 4 and 5): of a positive the share of the
    negatives below it, of a negative the share of the positives above it, less the area."""
    found, total, span = ranked.at_ends()
    missed = total - found
    positives, negatives = found[-1], missed[-1]
    if not (positives and negatives):
        return np.full(len(span), np.nan)
    above = (found + np.append(0.0, found[:-1])) / 2 / positives
    below = 1 - (missed + np.append(0.0, missed[:-1])) / 2 / negatives
    area = float(_auc_of(found[None], total[None])[0])
    return np.asarray(
        np.where(
            ranked.positive > 0, (below[span] - area) / positives, (above[span] - area) / negatives
        )
    )


def _are_many(folds: Sequence[Ranked]) -> bool:
    """Whether all folds together have positives enough for the first-order form."""
    return sum(one.positives for one in folds) > FEW_POSITIVES


def _area_within(counts: Iterable[tuple[Floats, Floats]]) -> Floats:
    """The area [R] of pairs within folds, from the counts of each."""
    areas, pairs = zip(*(_twice_area(*one) for one in counts), strict=True)
    return ratio(np.sum(areas, axis=0), np.sum(pairs, axis=0))


def _grouped_within(folds: Sequence[Ranked], groups: RowGroups) -> GroupSums:
    if _are_many(folds):
        slopes = _slope_within(folds, groups)
        ones = np.ones((1, len(groups.of_row)))
        value = _area_within(one.counts(ones) for one in folds)
        return GroupSums((slopes,), lambda sums: value + sums)
    counts = [one.counts_at(one.few_ends(), groups) for one in folds]

    def area(*sums: Floats) -> Floats:
        return _area_within(zip(sums[::2], sums[1::2], strict=True))

    return GroupSums(tuple(block for pair in counts for block in pair), area)


def _slope_within(folds: Sequence[Ranked], groups: RowGroups) -> Floats:
    """The derivative [G] of A = sum of a_f p_f / sum of p_f, where fold f has the area a_f and
    p_f = P_f N_f pairs: for a row of fold f, (p_f da_f + (a_f - A) dp_f) / sum of p_f. Its da_f is
    DeLong's component; its dp_f is N_f if it is positive, else P_f.
    """
    ends = [one.at_ends() for one in folds]
    areas, pairs = np.concatenate(
        [_twice_area(found[None], total[None]) for found, total, _ in ends], axis=1
    )
    if not pairs.any():
        return np.full(groups.count, np.nan)
    whole = float(areas.sum() / pairs.sum())
    slopes = np.zeros(groups.count)
    for one, area, most in zip(folds, areas, pairs, strict=True):
        if most:
            more = np.where(one.positive > 0, len(one.order) - one.positives, one.positives)
            rows = _auc_slope(one) * most / 2 + (area / most - whole) * more
            slopes += groups.take(one.order).sums(rows / (pairs.sum() / 2))
    return slopes


def _average_precision_of(found: Floats, total: Floats) -> Floats:
    """Sum over thresholds of the gain in recall times the precision."""
    precision = ratio_or_zero(found, total)
    area = found[:, 0] * precision[:, 0]
    area += np.einsum("rd,rd->r", found[:, 1:] - found[:, :-1], precision[:, 1:])
    return ratio(area, found[:, -1])


def _average_precision_slope(ranked: Ranked) -> Floats:
    """d/dw_j of sum_d f_d p_d / F, where f_d positives stand at threshold d, p_d = F_d / A_d is the
    precision down to it, and F all positives: y_j (p_d(j) - AP) / F for its own place, and
    sum over d >= d(j) of f_d (y_j - p_d) / (A_d F) for the precision of those below."""
    found, total, span = ranked.at_ends()
    positives = found[-1]
    precision = found / total
    gained = np.diff(found, prepend=0.0)
    area = float((gained * precision).sum() / positives)

    def below(values: Floats) -> Floats:
        return values[::-1].cumsum()[::-1]

    of_positives = below(gained / total)[span]
    of_all = below(gained * precision / total)[span]
    own = ranked.positive * (precision[span] - area)
    return np.asarray((own + ranked.positive * of_positives - of_all) / positives)
