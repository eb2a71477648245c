"""Thresholds of the decision on each of several labels, fitted on validation rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, final

import numpy as np

from trainwright.contract.sections.training.training import Training
from trainwright.core.errors import Problem
from trainwright.data.base.table import Floats, Integers
from trainwright.data.columns.target_kind import LIKELY
from trainwright.evaluation.calibration.fit_calibration import CannotCalibrate
from trainwright.evaluation.calibration.fit_threshold import fit_threshold

OF_EACH_LABEL: Final = {"f1_macro": "f1", "hamming_loss": "accuracy"}
"""Metrics that are means over the labels: the best threshold of each is that of its own metric."""

OF_ALL_LABELS: Final = "f1_micro"
"""A ratio of sums over all cells."""

DECIDED_LABELS: Final = (*OF_EACH_LABEL, OF_ALL_LABELS)
"""Metrics of labels with best thresholds: a ranking has none, and those of `subset_accuracy` depend
on each other."""

_LEAST, _MOST_ROUNDS = 1e-9, 100


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
        if found <= best + _LEAST:
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
        possible = (above > below) & (between > _LEAST) & (between < 1 - _LEAST)
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
        ties = np.flatnonzero(values >= values.max() - _LEAST)
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
