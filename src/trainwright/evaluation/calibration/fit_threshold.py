"""Threshold of the decision between two classes, fitted on validation rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from trainwright.contract.sections.metric import NUMERIC_TASKS
from trainwright.contract.sections.training.training import Training
from trainwright.core.errors import Problem
from trainwright.data.base.table import Floats, Integers
from trainwright.data.columns.target_kind import Costs, Target
from trainwright.evaluation.metrics.ratios import ratio_or_zero

_LEAST = 1e-9


def fit_threshold(
    scores: Floats, truth: Integers, positive: int, metric: str, costs: Costs = ()
) -> float:
    """The threshold of probabilities [N, 2] with the best value of a metric of `DECIDED`, or with
    the least cost, on rows with true codes [N]: midway between two scores, of several the one
    nearest to 0.5, or to that of calibrated probabilities.

    Raises:
        CannotCalibrate: a class has no row.
    """
    from trainwright.data.columns.error_costs import least_threshold
    from trainwright.evaluation.calibration.fit_calibration import check_classes

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


Counted = Callable[[Floats, Floats, Floats, Floats], Floats]
"""A metric of the counts of true and false positives, false and true negatives."""


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
                found=training.calibration,
                expected="conformal",
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
                found=training.calibration,
                expected="none, or the task classification",
                fix="remove training.calibration",
            )
        )
    return [*problems, *_threshold_problems(training, metric, target)]


def _threshold_problems(training: Training, metric: str, target: Target) -> list[Problem]:
    if training.threshold == 0.5:
        return []
    if target.task == "multilabel":
        return []  # `label_threshold_problems`
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
                found="auto",
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
