"""Rows on which a metric has no value."""

from __future__ import annotations

import numpy as np

from trainwright.data.base.inputs import Part
from trainwright.data.columns.target import Target
from trainwright.evaluation.intervals.resampled_metrics import OF_POSITIVES

MOST_ZEROS = 0.1
"""Share of targets of 0 from which on a mean percentage error is that of the other rows only."""

_OF_SERIES = ("mase", "scaled_pinball")
_OF_TWO_VALUES = ("roc_auc", "quadratic_kappa", "r2")


def why_undefined(metric: str, part: Part, target: Target) -> str:
    """Why a metric has no value on the rows of a part, or none that says much; empty: it has one,
    or the part has no rows."""
    if not len(part):
        return ""
    if metric in _OF_SERIES:
        moved = (part.inputs.levels.error_scale > 0).any()
        return "" if moved else "none of their series changes in its training rows"
    truth = part.target.T if part.target.ndim == 2 else part.target[None]
    if metric == "mape":
        zeros = float((truth == 0).mean(axis=1).max())
        return f"{zeros:.0%} of their targets are 0" if zeros > MOST_ZEROS else ""
    if metric in _OF_TWO_VALUES:
        constant = truth.min(axis=1) == truth.max(axis=1)
        # A mean over labels is that of the labels with both; r2 of one constant has no mean.
        if not (constant.any() if metric == "r2" else constant.all()):
            return ""
        name = target.classes[int(truth[0, 0])] if target.classes else f"{truth[0, 0]:g}"
        return "a target is the same in all of them" if len(truth) > 1 else f"all are {name!r}"
    if metric in OF_POSITIVES and len(target.classes) == 2 and len(truth) == 1:
        positive = target.positive_code
        return "" if (truth == positive).any() else f"none is {target.classes[positive]!r}"
    return ""


def note_undefined(metric: str, part: Part) -> tuple[str, ...]:
    """Warning with the number of rows that do not count in a metric."""
    uncounted, why = np.zeros(0, np.bool_), "have the target 0, of which no error is a share"
    if metric == "mape":
        uncounted = part.target == 0
    elif metric in _OF_SERIES:
        uncounted = ~(part.inputs.levels.error_scale > 0)
        why = "are of series that do not change in their training rows, which give no scale"
    count = int(uncounted.sum())
    return (f"{metric}: {count:,} of {part.target.size:,} values {why}: not counted",) * (count > 0)
