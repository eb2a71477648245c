"""Growth of trees in rounds, whatever the library: best round, curve, losses, class weights,
constraints."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Literal, Protocol, final

import numpy as np
import numpy.typing as npt

from trainwright.contract.sections.metric import METRICS_OF_COUNTS
from trainwright.contract.sections.model.traits import Monotone
from trainwright.core.errors import Problem
from trainwright.core.files import Json
from trainwright.core.formatting import show_number
from trainwright.data.base.inputs import NO_WEIGHTS, Floats
from trainwright.model.family import LearningTask
from trainwright.tracking.events import number_from_json, number_to_json

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

UNDIRECTED: Final = frozenset({"absolute_error", "mape", "quantile"})
"""Losses whose leaves are fitted anew, to quantiles, without regard to monotone constraints."""

_USUAL: Final = "squared_error"

OF_QUERIES: Final = frozenset({"lambdarank", "rank_xendcg"})
"""Losses of the order of the rows of a query."""

FEWEST_TREES = 2
"""Trees needed to continue: one that is grown again for verification, and one before it."""

CURVE_EVERY = 10

CURVE_SHARE = 0.2
"""Trees between two points of the training curve: a minimum, and a share of the trees so far,
because evaluating the training rows takes time."""


def choose_objective(
    task: LearningTask, known: Collection[str], monotone: Monotone
) -> Mapping[str, tuple[Json, str]]:
    """The loss follows the metric, where it is among the `known` losses of the library, those that
    hold `monotone` where that is asked for."""
    if task.task in ("classification", "multilabel"):
        return {"objective": ("log_loss", "classes are predicted")}
    if task.task == "ranking":
        return {"objective": ("lambdarank", "rows are ranked within queries")}
    if task.quantiles:
        return {"objective": ("quantile", "quantiles are predicted")}
    objective = _OBJECTIVES.get(task.metric, _USUAL)
    if objective not in known:
        nearest = "absolute_error" if "absolute_error" in known else _USUAL
        held = " that holds model.monotone" if monotone else " that the library has"
        return {"objective": (nearest, f"the nearest loss to the metric {task.metric}{held}")}
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


def monotone_problems(
    monotone: Monotone, task: LearningTask, objective: str = "", undirected: Collection[str] = ()
) -> Iterator[Problem]:
    """Several classes have no direction, and the library holds no `undirected` loss to one."""
    if monotone and task.classes > 2:
        yield Problem(
            f"{task.classes} classes have no direction: two have",
            path="model.monotone",
            found=", ".join(monotone),
            fix="remove monotone",
        )
    if monotone and objective in undirected:
        other = "metric.quantiles" if task.quantiles else "write model.objective: squared_error"
        yield Problem(
            f"the objective {objective} breaks monotone constraints",
            path="model.monotone",
            found=", ".join(monotone),
            fix=f"remove monotone or {other}",
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


def next_point(trees: int) -> float:
    """Number of trees at which the next point of the curve is due."""
    return trees + max(CURVE_EVERY, CURVE_SHARE * trees)


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """Values of the watched metric after `trees` trees."""

    trees: int
    train: float
    validation: float


def curve_history(metric: str, curve: Iterable[CurvePoint]) -> tuple[Mapping[str, float], ...]:
    """The validations on a curve, as `LibraryFit` has them."""
    return tuple(
        {"step": at.trees, f"train_{metric}": at.train, f"val_{metric}": at.validation}
        for at in curve
    )


@final
@dataclass(frozen=True, slots=True)
class RuleEnding:
    """Ending by a stop rule of the caller: its kind, as in `StopReason`, and why."""

    kind: Literal["finished", "early", "budget", "interrupted", "halted"]
    text: str

    @property
    def is_final(self) -> bool:
        """Is training complete, rather than to be resumed?"""
        return self.kind in ("finished", "early", "budget")


@final
@dataclass(frozen=True, slots=True)
class Grown:
    """All trees in their library's text format, and the state of early stopping and of the curve.

    `rounds` were made; each that found a split added to the `trees` (with several classes, one per
    class). `value` is the validation value of the last round; it and `best_value` are NaN without
    validation rows. `is_done`: training is complete; `ended_by` is the stop rule of the caller that
    ended it, if one did.
    """

    text: str = ""
    trees: int = 0
    rounds: int = 0
    best_trees: int = 0
    best_round: int = 0
    best_value: float = math.nan
    value: float = math.nan
    next_point: float = 1.0
    curve: tuple[CurvePoint, ...] = ()
    is_done: bool = False
    ended_by: RuleEnding | None = None

    @property
    def is_provable(self) -> bool:
        """Did the last round grow the last tree, so that growing it again verifies the trees? While
        training continues, only such states are kept."""
        return self.trees >= FEWEST_TREES and (not self.is_done or self.rounds == self.trees)

    @property
    def kept(self) -> int:
        """Trees of the final model: up to the best iteration, or all."""
        return self.best_trees or self.trees

    def to_json(self) -> Json:
        """Strict JSON."""
        return {
            "text": self.text,
            "trees": self.trees,
            "rounds": self.rounds,
            "best_trees": self.best_trees,
            "best_round": self.best_round,
            "best_value": number_to_json(self.best_value),
            "value": number_to_json(self.value),
            "next_point": self.next_point,
            "curve": [
                [point.trees, number_to_json(point.train), number_to_json(point.validation)]
                for point in self.curve
            ],
            "is_done": self.is_done,
            "ended_by": [self.ended_by.kind, self.ended_by.text] if self.ended_by else None,
        }


NOTHING_GROWN = Grown()


def grown_from_json(values: Json) -> Grown:
    """Inverse of `to_json`; the library that grew the trees checks their text.

    Raises:
        ValueError, TypeError, KeyError: invalid content.
    """
    numbers = ("trees", "rounds", "best_trees", "best_round")
    trees, rounds, best_trees, best_round = (_count(values[name], name) for name in numbers)
    if not (1 <= trees <= rounds and best_trees <= trees and best_round <= rounds):
        raise ValueError("its counts of trees and rounds contradict each other")
    grown = Grown(
        text=str(values["text"]),
        trees=trees,
        rounds=rounds,
        best_trees=best_trees,
        best_round=best_round,
        best_value=number_from_json(values["best_value"]),
        value=number_from_json(values["value"]),
        next_point=number_from_json(values["next_point"]),
        curve=tuple(
            CurvePoint(_count(at, "curve"), number_from_json(train), number_from_json(value))
            for at, train, value in values["curve"]
        ),
        is_done=values["is_done"],
        # Absent in files of earlier versions.
        ended_by=_rule_ending(values.get("ended_by")),
    )
    if not isinstance(values["is_done"], bool) or not math.isfinite(grown.next_point):
        raise ValueError("is_done or next_point is not what was written")
    if grown.ended_by and not grown.is_done:
        raise ValueError("a rule has ended it, and it is not done")
    return grown


def _rule_ending(value: Json) -> RuleEnding | None:
    if value is None:
        return None
    is_pair = isinstance(value, list) and len(value) == 2
    if not (is_pair and all(isinstance(part, str) for part in value)):
        raise ValueError("ended_by is not what was written")
    ending = RuleEnding(*value)
    if not ending.is_final:
        raise ValueError(f"ended_by {ending.kind!r:.20} is no ending")
    return ending


def _count(value: Json, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{name} is not a count")
    return value


class OtherTrees(Exception):
    """The kept trees or their values do not reproduce here; the message says which."""


class Left(Exception):
    """Training was interrupted before it reached its kept trees."""


class Keeper(Protocol):
    """Keeps the trees grown so far. It decides when, and must not change what it receives."""

    def is_due(self) -> bool:
        """Are trees to be kept now?"""
        ...

    def keep(self, grow: Callable[[], Grown]) -> None:
        """Keep the result of `grow`."""
        ...


@final
class KeepsNothing:
    """Keeps nothing: training that starts again if interrupted."""

    def is_due(self) -> bool:
        """Never."""
        return False

    def keep(self, grow: Callable[[], Grown]) -> None:
        """Do nothing."""


@dataclass(frozen=True, slots=True)
class Watching:
    """Monitoring of tree growth: progress reports, stopping, and keeping trees.

    `tell` receives the number of trees and the validation value. `should_stop` is called after each
    round: the trees grown until then are kept up to the best one. So is `is_interrupted`: training
    ends now, to be continued later.
    """

    tell: Callable[[int, float], None] = lambda _trees, _value: None
    should_stop: Callable[[], bool] = lambda: False
    is_interrupted: Callable[[], bool] = lambda: False
    keeper: Keeper = field(default_factory=KeepsNothing)
