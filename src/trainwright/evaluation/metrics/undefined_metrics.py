"""Rows on which a metric has no value."""

from __future__ import annotations

from trainwright.data.base.inputs import Part
from trainwright.data.columns.target import Target

MOST_ZEROS = 0.1
"""Share of targets of 0 from which on a mean percentage error is that of the other rows only."""

_OF_SERIES = ("mase", "scaled_pinball")
_OF_TWO_VALUES = ("roc_auc", "quadratic_kappa", "r2")
_OF_POSITIVES = ("f1", "precision", "recall", "precision_at_recall", "average_precision")


def why_undefined(metric: str, part: Part, target: Target) -> str:
    """Why a metric has no value on the rows of a part, or none that says much; empty: it has one,
    or the part has no rows."""
    truth = part.target.T if part.target.ndim == 2 else part.target[None]
    if not len(part):
        return ""
    if metric in _OF_SERIES:
        moved = (part.inputs.levels.error_scale > 0).any()
        return "" if moved else "none of their series changes in its training rows"
    if metric == "mape":
        zeros = float((truth == 0).mean(axis=1).max())
        return f"{zeros:.0%} of their targets are 0" if zeros > MOST_ZEROS else ""
    constant = truth.min(axis=1) == truth.max(axis=1)
    if metric in _OF_TWO_VALUES and (constant.all() if target.classes else constant.any()):
        name = target.classes[int(truth[0, 0])] if target.classes else f"{truth[0, 0]:g}"
        return "a target is the same in all of them" if len(truth) > 1 else f"all are {name!r}"
    if metric in _OF_POSITIVES and len(target.classes) == 2 and len(truth) == 1:
        positive = target.positive_code
        return "" if (truth == positive).any() else f"none is {target.classes[positive]!r}"
    return ""


def note_undefined(metric: str, part: Part) -> tuple[str, ...]:
    """Warning with the number of rows that do not count in a metric."""
    count, why = 0, ""
    if metric == "mape":
        count, why = (
            int((part.target == 0).sum()),
            "have the target 0, of which no error is a share",
        )
    elif metric in _OF_SERIES:
        count = int((~(part.inputs.levels.error_scale > 0)).sum())
        why = "are of series that do not change in their training rows, which give no scale"
    return (f"{metric}: {count:,} of {part.target.size:,} values {why}: not counted",) * (count > 0)
