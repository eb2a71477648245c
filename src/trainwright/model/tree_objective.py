"""Losses of boosted trees: what `auto` stands for, and which contradict the task or the target."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from trainwright.contract.sections.metric import METRICS_OF_COUNTS
from trainwright.contract.sections.model.traits import Monotone
from trainwright.core.errors import Problem
from trainwright.core.files import Json
from trainwright.core.formatting import show_number
from trainwright.data.base.table import NO_WEIGHTS, Floats
from trainwright.model.family import LearningTask

_OBJECTIVES: Mapping[str, str] = MappingProxyType(
    {
        "mae": "absolute_error",
        "mape": "mape",
        "pinball": "quantile",
        "poisson_deviance": "poisson",
        "rmsle": "poisson",
    }
)
"""Loss of the trees for a metric of numbers."""

_WITHOUT_DIRECTION: Final = frozenset({"absolute_error", "mape", "quantile"})

_USUAL: Final = "squared_error"

OF_QUERIES: Final = frozenset({"lambdarank", "rank_xendcg"})
"""Losses of the order of the rows of a query."""


def choose_objective(task: LearningTask, known: Collection[str]) -> Mapping[str, tuple[Json, str]]:
    """The loss follows the metric, where it is among the `known` losses of the library."""
    if task.task in ("classification", "multilabel"):
        return {"objective": ("log_loss", "classes are predicted")}
    if task.task == "ranking":
        return {"objective": ("lambdarank", "rows are ranked within queries")}
    if task.quantiles:
        return {"objective": ("quantile", "quantiles are predicted")}
    objective = _OBJECTIVES.get(task.metric, _USUAL)
    if objective not in known:
        reason = f"the nearest loss to the metric {task.metric} that the library has"
        return {"objective": ("absolute_error", reason)}
    return {"objective": (objective, f"the metric is {task.metric}")}


def objective_problems(objective: str, task: LearningTask) -> Iterator[Problem]:
    """The loss must match the task."""
    of_classes = task.task in ("classification", "multilabel")
    if objective in OF_QUERIES and task.task != "ranking":
        yield Problem(
            f"{objective} is a loss of a ranking, and the task is {task.task}",
            path="model.objective",
            found=objective,
            expected="a loss of the task",
            fix="remove it, or write task: ranking",
        )
    elif (objective == "log_loss") != of_classes:
        yield Problem(
            f"{objective} is no loss of a {task.task}",
            path="model.objective",
            found=objective,
            expected="log_loss" if of_classes else "a loss of numbers, for example squared_error",
            fix="remove it",
        )
    elif task.quantiles and objective != "quantile":
        yield Problem(
            f"{objective} learns no quantiles",
            path="model.objective",
            found=objective,
            expected="quantile",
            fix="remove it",
        )
    elif task.metric in METRICS_OF_COUNTS and objective != "poisson":
        yield Problem(
            f"{objective} may predict rates below 0, which have no {task.metric}",
            path="model.objective",
            found=objective,
            expected="poisson",
            fix="remove it",
        )


def several_problems(
    objective: str, task: LearningTask, known: tuple[str, ...]
) -> Iterator[Problem]:
    """Losses that trees of several numbers do not have."""
    if task.task == "regression" and task.targets > 1 and objective not in known:
        yield Problem(
            f"{objective} is no loss of several targets here",
            path="model.objective",
            found=objective,
            expected=f"{' or '.join(known)}, or boosting, whose targets have trees of their own",
            fix="remove model.objective, or write model: {kind: boosting}",
        )


def class_weight_problems(
    class_weights: str, task: LearningTask, *, of_labels: bool = True
) -> Iterator[Problem]:
    """Numbers have no classes; some families weigh only rows, not the cells of labels."""
    if class_weights == "none" or task.task == "classification":
        return
    if task.task != "multilabel":
        yield Problem(
            f"class_weights are for classes, and the task is {task.task}",
            path="model.class_weights",
            found=class_weights,
            fix="remove class_weights",
        )
    elif not of_labels:
        yield Problem(
            "one model serves all labels here, and a weight of a row would be that of each label",
            path="model.class_weights",
            found=class_weights,
            expected="none, or a model of its own for each label (boosting, linear)",
            fix="write model: {kind: boosting, class_weights: balanced}, or remove class_weights",
        )


def monotone_problems(monotone: Monotone, objective: str, task: LearningTask) -> Iterator[Problem]:
    """A direction needs a number, or two classes, and leaves that are means: those of absolute
    errors are fitted anew without the constraint."""
    if monotone and task.classes > 2:
        yield Problem(
            f"{task.classes} classes have no direction",
            path="model.monotone",
            found=", ".join(monotone),
            expected="a number, or two classes",
            fix="remove monotone",
        )
    if monotone and objective in _WITHOUT_DIRECTION:
        yield Problem(
            f"the objective {objective} breaks monotone constraints",
            path="model.objective",
            found=objective,
            expected="squared_error, poisson or log_loss",
            fix="write objective: squared_error, or remove monotone",
        )


def count_problems(objective: str, target: npt.NDArray[Any]) -> Iterator[Problem]:
    """Counts must not be negative, nor all 0."""
    if objective == "poisson" and (target.min() < 0 or not target.any()):
        yield Problem(
            "poisson is for counts",
            path="model.objective",
            found=f"targets from {show_number(target.min())} to {show_number(target.max())}",
            expected="no target below 0, and some above",
            fix="use objective: squared_error",
        )


def weights_by_class(
    class_weights: str,
    target: npt.NDArray[Any],
    outputs: int,
    row_weights: Floats = NO_WEIGHTS,
) -> Floats | None:
    """Weight of a row of each class, [C]: rows / (classes x rows of its class); None if all are
    equal. With `row_weights` [N] their sums stand in place of numbers of rows."""
    if class_weights == "none":
        return None
    if len(row_weights):
        sums = np.bincount(target, row_weights, minlength=outputs)
        return np.asarray(row_weights.sum() / (outputs * sums), np.float64)
    counts = np.bincount(target, minlength=outputs)
    return np.asarray(len(target) / (outputs * np.maximum(counts, 1)), np.float64)


def weights_of_rows(
    by_class: Floats | None, target: npt.NDArray[Any], row_weights: Floats
) -> Floats | None:
    """Weight of each row [N]: that of its class, [C], times its own; None if all are equal."""
    of_class = None if by_class is None else by_class[target]
    if not len(row_weights):
        return of_class
    return row_weights if of_class is None else of_class * row_weights
