"""Metrics of several targets, by scikit-learn and over row weights.

Of numbers each metric is the plain mean of its values over the targets, in the targets' own units:
`r2` does not depend on these, `rmse` and `mae` are ruled by the target with the largest errors. A
target without a value (r2 of a constant) leaves the mean without one.

Of labels `f1_macro`, `average_precision` and `roc_auc` are plain means over the labels. A label
that no row has or is given has an F1 of 0, as in scikit-learn with `zero_division=0`; those without
both kinds of rows are no part of `roc_auc`, those without a positive row none of
`average_precision`, where scikit-learn counts a 0 and warns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol, final, runtime_checkable

import numpy as np

from trainwright.data.base.inputs import Floats
from trainwright.evaluation.metrics.predictions import Answers, ratio, ratio_or_zero

OF_A_NUMBER = ("mae", "rmse", "r2", "mape")
"""Measured of each numeric target by itself."""

OF_A_LABEL = ("f1", "precision", "recall", "average_precision", "roc_auc")
"""Measured of each label by itself."""

_OF_DEFINED = frozenset({"average_precision", "roc_auc"})
Weighted = Callable[[Floats], Floats]

Summed = tuple[Floats, Callable[[Floats, Floats], Floats]]
"""Columns [N, K] or [N] that are summed, and what makes values of their sums: those of `Sums`."""


def metrics_of_each(answers: Answers) -> tuple[str, ...]:
    """Metrics of each target by itself."""
    return OF_A_LABEL if answers.are_labels else OF_A_NUMBER


def measure_several(name: str, answers: Answers, measure_one: Callable[[Answers], float]) -> float:
    """Value of a metric of several targets, nan if undefined; `measure_one` measures one target."""
    if name in _POINTS:
        return _POINTS[name](answers)
    values = [measure_one(one) for one in answers.each()]
    if name in _OF_DEFINED:
        values = [one for one in values if not math.isnan(one)]
    return float(np.mean(values)) if values else math.nan


def weigh_several(
    name: str, answers: Answers, weigh_one: Callable[[Answers], Weighted]
) -> Summed | Weighted:
    """The metric as a function of row weights, or of weighted sums; `weigh_one` prepares it for one
    target."""
    if name in _WEIGHTED:
        return _WEIGHTED[name](answers)
    if name in _OF_DEFINED:
        return _MeanOfDefined([weigh_one(one) for one in answers.each()])
    each: list[object] = [weigh_one(one) for one in answers.each()]
    return _mean_of_sums([one for one in each if isinstance(one, _OfSums)])


@final
class _MeanOfDefined:
    """The mean of several metrics, of those that are defined."""

    def __init__(self, each: Sequence[Weighted]) -> None:
        self._each = each

    def __call__(self, weights: Floats) -> Floats:
        values = np.stack([one(weights) for one in self._each])
        defined = ~np.isnan(values)
        return ratio(np.where(defined, values, 0.0).sum(axis=0), defined.sum(axis=0).astype(float))


@runtime_checkable
class _OfSums(Protocol):
    """A metric of weighted sums, `Sums`."""

    @property
    def columns(self) -> Floats: ...

    @property
    def use(self) -> Callable[[Floats, Floats], Floats]: ...


def _mean_of_sums(each: Sequence[_OfSums]) -> Summed:
    """The mean of metrics of weighted sums, as one of all their columns."""
    assert each, "metrics of numbers are those of sums"
    columns = [one.columns.reshape(len(one.columns), -1) for one in each]
    ends = np.cumsum([one.shape[1] for one in columns])
    starts = ends - [one.shape[1] for one in columns]

    def use(sums: Floats, total: Floats) -> Floats:
        values = []
        for one, start, end in zip(each, starts, ends, strict=True):
            own = sums[:, start] if one.columns.ndim == 1 else sums[:, start:end]
            values.append(one.use(own, total))
        return np.asarray(np.mean(values, axis=0))

    return np.concatenate(columns, axis=1), use


def _hamming_loss(answers: Answers) -> float:
    from sklearn.metrics import hamming_loss

    return float(hamming_loss(answers.truth, answers.chosen()))


def _subset_accuracy(answers: Answers) -> float:
    from sklearn.metrics import accuracy_score

    return float(accuracy_score(answers.truth, answers.chosen()))


def _f1(average: str) -> Callable[[Answers], float]:
    def compute(answers: Answers) -> float:
        from sklearn.metrics import f1_score

        chosen = answers.chosen()
        return float(f1_score(answers.truth, chosen, average=average, zero_division=0.0))

    return compute


_POINTS: Mapping[str, Callable[[Answers], float]] = MappingProxyType(
    {
        "hamming_loss": _hamming_loss,
        "subset_accuracy": _subset_accuracy,
        "f1_micro": _f1("micro"),
        "f1_macro": _f1("macro"),
    }
)


def _weighted_f1(use: Callable[[Floats, Floats], Floats]) -> Callable[[Answers], Summed]:
    """`use` takes the labels that are rightly given [R, L], and those that rows have plus those
    that they are given [R, L]."""

    def prepare(answers: Answers) -> Summed:
        true, chosen = answers.truth, answers.chosen()
        labels = true.shape[1]
        columns = np.concatenate([true * chosen, true + chosen], axis=1).astype(np.float64)
        return columns, lambda sums, _: use(sums[:, :labels], sums[:, labels:])

    return prepare


_WEIGHTED: Mapping[str, Callable[[Answers], Summed]] = MappingProxyType(
    {
        "hamming_loss": lambda answers: (
            (answers.truth != answers.chosen()).mean(axis=1),
            ratio,
        ),
        "subset_accuracy": lambda answers: (
            (answers.truth == answers.chosen()).all(axis=1).astype(np.float64),
            ratio,
        ),
        "f1_micro": _weighted_f1(
            lambda right, both: ratio_or_zero(2 * right.sum(axis=1), both.sum(axis=1))
        ),
        "f1_macro": _weighted_f1(lambda right, both: ratio_or_zero(2 * right, both).mean(axis=1)),
    }
)
