"""Thresholds of the decision: between two classes, of least cost, and on each of several labels.

That of least cost is that of calibrated probabilities, or one fitted to validation rows where these
show that it costs less.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, final

import numpy as np

from trainwright.contract.sections.metric import NUMERIC_TASKS
from trainwright.contract.sections.training.training import Training
from trainwright.core.errors import Problem
from trainwright.data.base.inputs import Floats, Integers
from trainwright.data.columns.target import (
    LIKELY,
    Costs,
    Target,
    costs_of,
    least_expected,
    least_threshold,
)
from trainwright.evaluation.metrics.predictions import number_units, ratio_or_zero
from trainwright.predictor.calibration import USUAL_THRESHOLD

_LEAST = 1e-9

Counted = Callable[[Floats, Floats, Floats, Floats], Floats]
"""A metric of the counts of true and false positives, false and true negatives."""

_FOLDS = 5
_DEAL = 0x636F7374

OF_EACH_LABEL: Final = {"f1_macro": "f1", "hamming_loss": "accuracy"}
"""Metrics that are means over the labels: the best threshold of each is that of its own metric."""

OF_ALL_LABELS: Final = "f1_micro"
"""A ratio of sums over all cells."""

DECIDED_LABELS: Final = (*OF_EACH_LABEL, OF_ALL_LABELS)
"""Metrics of labels with best thresholds: a ranking has none, and those of `subset_accuracy` depend
on each other."""

_LEAST_OF_LABELS, _MOST_ROUNDS = 1e-9, 100


def fit_threshold(
    scores: Floats, truth: Integers, positive: int, metric: str, costs: Costs = ()
) -> float:
    """The threshold of probabilities [N, 2] with the best value of a metric of `DECIDED`, or with
    the least cost, on rows with true codes [N]: midway between two scores, of several the one
    nearest to 0.5, or to that of calibrated probabilities.

    Raises:
        CannotCalibrate: a class has no row.
    """
    check_classes(truth, 2)
    order = np.argsort(-scores[:, positive], kind="stable")
    ranked = scores[order, positive]
    hits = (truth[order] == positive).astype(np.float64)
    # Row k: the k likeliest rows are positive; only between different scores.
    right = np.concatenate([[0.0], np.cumsum(hits)])
    wrong = np.arange(len(hits) + 1) - right
    ends = np.concatenate([[1.0], ranked]), np.concatenate([ranked, [0.0]])
    between = (ends[0] + ends[1]) / 2
    counts = (right, wrong, hits.sum() - right, len(hits) - hits.sum() - wrong)
    values = _saved(counts, costs, positive) if costs else DECIDED[metric](*counts)
    usual = least_threshold(costs, positive) if costs else 0.5
    possible = (ends[0] > ends[1]) & (between > _LEAST) & (between < 1 - _LEAST)
    if not possible.any():
        return usual
    values = np.where(possible, values, -np.inf)
    best = np.flatnonzero(values >= values.max() - _LEAST)
    found = float(between[best[np.argmin(np.abs(between[best] - usual))]])
    # A threshold of 0.5 is that of no threshold; no score lies between the two.
    return float(np.nextafter(0.5, 1)) if costs and found == 0.5 else found


def _saved(counts: tuple[Floats, Floats, Floats, Floats], costs: Costs, positive: int) -> Floats:
    """Minus the mean cost of true and false positives, false and true negatives."""
    tp, fp, fn, tn = counts
    yes, no = costs[positive], costs[1 - positive]
    total = tp * yes[positive] + fp * no[positive] + fn * yes[1 - positive] + tn * no[1 - positive]
    return np.asarray(-total / (tp + fp + fn + tn))


def _accuracy(tp: Floats, fp: Floats, fn: Floats, tn: Floats) -> Floats:
    return np.asarray((tp + tn) / (tp + fp + fn + tn))


def _balanced(tp: Floats, fp: Floats, fn: Floats, tn: Floats) -> Floats:
    return np.asarray((ratio_or_zero(tp, tp + fn) + ratio_or_zero(tn, tn + fp)) / 2)


def _f1(tp: Floats, fp: Floats, fn: Floats, _tn: Floats) -> Floats:
    return ratio_or_zero(2 * tp, 2 * tp + fp + fn)


def _f1_macro(tp: Floats, fp: Floats, fn: Floats, tn: Floats) -> Floats:
    return np.asarray((_f1(tp, fp, fn, tn) + _f1(tn, fn, fp, tp)) / 2)


def _f1_weighted(tp: Floats, fp: Floats, fn: Floats, tn: Floats) -> Floats:
    share = (tp + fn) / (tp + fp + fn + tn)
    return np.asarray(share * _f1(tp, fp, fn, tn) + (1 - share) * _f1(tn, fn, fp, tp))


DECIDED: Mapping[str, Counted] = MappingProxyType(
    {
        "accuracy": _accuracy,
        "balanced_accuracy": _balanced,
        "f1": _f1,
        "f1_macro": _f1_macro,
        "f1_weighted": _f1_weighted,
    }
)
"""Metrics with a best threshold: a ranking has none, recall and precision are best at an end."""


def calibration_problems(training: Training, metric: str, target: Target) -> list[Problem]:
    """A calibration or a threshold is asked for where there is nothing to calibrate or decide."""
    problems: list[Problem] = []
    is_conformal = training.calibration == "conformal"
    if target.quantiles and not is_conformal and training.calibration != "none":
        problems.append(
            Problem(
                f"{training.calibration} calibrates probabilities, and quantiles are predicted",
                path="training.calibration",
                fix="write training.calibration: conformal",
            )
        )
    elif is_conformal and not target.quantiles:
        problems.append(_without_quantiles(target))
    elif training.calibration != "none" and not (target.quantiles or target.classes):
        problems.append(
            Problem(
                f"a {target.task} has no class probabilities that could be calibrated",
                path="training.calibration",
                expected="none, or the task classification",
                fix="remove training.calibration",
            )
        )
    return [*problems, *_threshold_problems(training, metric, target)]


def _threshold_problems(training: Training, metric: str, target: Target) -> list[Problem]:
    if training.threshold == 0.5 or target.task == "multilabel":  # `label_threshold_problems`
        return []
    if len(target.classes) != 2:
        return [
            Problem(
                "a threshold decides between two classes",
                path="training.threshold",
                found=f"{len(target.classes)} classes" if target.classes else target.task,
                expected="a target of two classes",
                fix="remove training.threshold",
            )
        ]
    if training.threshold == "auto" and metric not in DECIDED:
        return [
            Problem(
                f"{metric} has no best threshold",
                path="training.threshold",
                expected=f"metric.name one of: {', '.join(DECIDED)}",
                fix="write metric.name: f1, or a number for the threshold",
            )
        ]
    return []


def _without_quantiles(target: Target) -> Problem:
    is_number = target.task in NUMERIC_TASKS
    also = ", or add for example metric.quantiles: [0.05, 0.5, 0.95]" if is_number else ""
    return Problem(
        "conformal calibrates quantiles, and the model predicts none",
        path="training.calibration",
        found="conformal" if is_number else f"conformal beside task: {target.task}",
        expected="quantiles of a number: metric.quantiles",
        fix=f"remove training.calibration{also}",
    )


def fit_cost_threshold(
    scores: Floats, truth: Integers, units: Integers, costs: Costs, positive: int, seed: int
) -> float:
    """Threshold of probabilities [N, 2] of rows with true codes and units [N]; 0.5 says that none
    is fitted, and the least expected cost decides.

    A threshold of few rows is noisy, and probabilities have one of their own (Elkan 2001, equation
    2). So one is fitted only if, fitted in five folds of units without each, it costs less on that
    fold by more than one standard error of the paired difference (Breiman et al. 1984, section
    3.4.3).

    Raises:
        CannotCalibrate: a class has no row.
    """
    fitted = fit_threshold(scores, truth, positive, "cost", costs)
    count, unit_of_row = number_units(units)
    draws = np.random.default_rng([seed, _DEAL])
    fold = draws.permutation(np.arange(count) % _FOLDS)[unit_of_row]
    saved = np.zeros(count)
    usual = costs_of(truth, least_expected(scores, costs), costs)
    for number in range(_FOLDS):
        inside, outside = fold != number, fold == number
        if len(np.unique(truth[inside])) < 2:
            return USUAL_THRESHOLD
        one = fit_threshold(scores[inside], truth[inside], positive, "cost", costs)
        said = np.where(scores[outside, positive] >= one, positive, 1 - positive)
        each = usual[outside] - costs_of(truth[outside], said, costs)
        saved += np.bincount(unit_of_row[outside], each, count)
    error = float(saved.std(ddof=1)) / np.sqrt(count) if count > 1 else np.inf
    return fitted if saved.mean() > error else USUAL_THRESHOLD


def fit_label_thresholds(scores: Floats, truth: Integers, metric: str) -> tuple[float, ...]:
    """The threshold of each label with the best value of a metric of `DECIDED_LABELS`, on
    probabilities [N, L] of rows that have labels [N, L] or not; of several that are as good the one
    nearest to 1/2, which a label that all rows have, or none, keeps."""
    if metric == OF_ALL_LABELS:
        return _of_all(scores, truth)
    columns = zip(scores.T, truth.T, strict=True)
    return tuple(_of_one(own, has, OF_EACH_LABEL[metric]) for own, has in columns)


def _of_one(scores: Floats, truth: Integers, metric: str) -> float:
    try:
        return fit_threshold(np.stack([1 - scores, scores], axis=1), truth, 1, metric)
    except CannotCalibrate:
        return LIKELY


def _of_all(scores: Floats, truth: Integers) -> tuple[float, ...]:
    """Dinkelbach's algorithm (1967, Management Science 13, section 3): the best ratio r is the one
    at which the largest value of 2 TP - r (2 TP + FP + FN) is 0, and that is a sum over labels."""
    labels = [_Cuts(own, has) for own, has in zip(scores.T, truth.T, strict=True)]
    best = 0.0
    for _ in range(_MOST_ROUNDS):
        places = [one.best(best) for one in labels]
        pairs = zip(labels, places, strict=True)
        both = [(2 * one.right[at], one.given[at] + one.having) for one, at in pairs]
        above, below = (sum(part) for part in zip(*both, strict=True))
        found = float(above / below) if below else 0.0
        if found <= best + _LEAST_OF_LABELS:
            break
        best = found
    return tuple(one.between[at] for one, at in zip(labels, places, strict=True))


@final
class _Cuts:
    """Where the ranked rows of a label can be cut, between two different scores: the threshold, the
    rows that are given the label, and those of them that have it."""

    def __init__(self, scores: Floats, truth: Integers) -> None:
        order = np.argsort(-scores, kind="stable")
        ranked, hits = scores[order], truth[order].astype(np.float64)
        above, below = np.concatenate([[1.0], ranked]), np.concatenate([ranked, [0.0]])
        between = (above + below) / 2
        possible = (above > below) & (between > _LEAST_OF_LABELS) & (between < 1 - _LEAST_OF_LABELS)
        places = np.flatnonzero(possible)
        right = np.concatenate([[0.0], np.cumsum(hits)])
        self.having = float(hits.sum())
        self.between = [float(one) for one in between[places]] or [LIKELY]
        usual = np.array([float((ranked >= LIKELY).sum())])
        self.given = places.astype(np.float64) if len(places) else usual
        self.right = right[places] if len(places) else right[usual.astype(np.int64)]

    def best(self, ratio: float) -> int:
        """Place of the cut with the largest value at a ratio, of several the nearest to 1/2."""
        values = 2 * self.right - ratio * (self.given + self.having)
        ties = np.flatnonzero(values >= values.max() - _LEAST_OF_LABELS)
        return int(ties[np.argmin(np.abs(np.array(self.between)[ties] - LIKELY))])


def label_threshold_problems(training: Training, metric: str) -> Iterator[Problem]:
    """Thresholds are fitted for a metric of decisions."""
    if training.threshold == "auto" and metric not in DECIDED_LABELS:
        yield Problem(
            f"{metric} has no best threshold of each label",
            path="training.threshold",
            found="auto",
            expected=f"metric.name one of: {', '.join(DECIDED_LABELS)}",
            fix="write metric.name: f1_macro, or a number for the threshold of every label",
        )


def check_classes(truth: Integers, classes: int) -> None:
    """Check that every class has a row.

    Raises:
        CannotCalibrate: some have none.
    """
    if absent := int((np.bincount(truth, minlength=classes) == 0).sum()):
        raise CannotCalibrate(f"{absent} of the classes have no validation row")


@final
class CannotCalibrate(Exception):
    """The validation rows do not suffice, as the message says."""
