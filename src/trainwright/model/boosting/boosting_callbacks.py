"""LightGBM callbacks: monitoring, early stopping, and the continuation of kept trees.

A training goes on from kept trees (`init_model`) with the scores that they produce, bit-identical
to those of the run that grew them: LightGBM adds the same leaf values in the same order. It does
not restore the RNG of `bagging_fraction` and `feature_fraction`, which would start anew. So the
random numbers are redrawn first, and the last kept round is grown a second time, which must give
the same trees.

Best iteration and validation curve are not trusted as stored, but recomputed from the rows
(`Replay`), with LightGBM's losses (4.7, src/metric: regression_metric.hpp, binary_metric.hpp,
multiclass_metric.hpp) on float32 targets as there. Training values are trusted: they decide
nothing, and would cost a prediction of all training rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NoReturn, TypeAlias, final

import lightgbm
import numpy as np
from lightgbm.callback import CallbackEnv, EarlyStopException

from trainwright.core.faultpoints import reached
from trainwright.data.base.inputs import Floats
from trainwright.model.boosting.lightgbm_dataset import booster_of, round_text
from trainwright.model.tree_growth import (
    FEWEST_TREES,
    NOTHING_GROWN,
    CurvePoint,
    Grown,
    Left,
    OtherTrees,
    Watching,
    next_point,
)

VALUE_TOLERANCE = 1e-9
"""With another number of threads LightGBM sums a value in another order; the trees are the same."""

_LEAST = float(np.float32(1e-15))
_NO_GAIN_IS_ENOUGH = 1e300

Results: TypeAlias = list[Any]
"""LightGBM's evaluation results: data set, metric, value, whether higher is better."""


@final
@dataclass(frozen=True, slots=True)
class SomeRows:
    """Rows as LightGBM predicts them, with the target [N] and the weight [N] of each."""

    matrix: Any
    target: Floats
    weights: Floats


Slices: TypeAlias = Iterable[SomeRows]


@final
@dataclass(frozen=True, slots=True)
class Replay:
    """Rows and metric of a training. `between` is called after each tree and may raise to end
    it."""

    metric: str
    objective: str
    quantile: float
    threads: int
    between: Callable[[], None]

    def values(self, trees: lightgbm.Booster, slices: Slices) -> Floats:
        """Value of the watched metric after each tree [trees]."""
        sums, total = np.zeros(trees.current_iteration()), 0.0
        for rows in slices:
            raw = np.zeros(())
            for number in range(len(sums)):
                self.between()
                added = trees.predict(
                    rows.matrix,
                    raw_score=True,
                    start_iteration=number,
                    num_iteration=1,
                    num_threads=self.threads,
                )
                raw = raw + np.asarray(added, np.float64)
                sums[number] += float((self._losses(raw, rows.target) * rows.weights).sum())
            total += float(rows.weights.sum())
        means = sums / total
        return np.asarray(np.sqrt(means) if self.metric == "rmse" else means)

    def _losses(self, raw: Floats, target: Floats) -> Floats:
        given = np.exp(raw) if self.objective == "poisson" else raw
        if self.metric == "quantile":
            apart = target - given
            return np.where(apart < 0, self.quantile - 1, self.quantile) * apart
        return np.asarray(_LOSSES[self.metric](given, target))


def _binary(raw: Floats, target: Floats) -> Floats:
    chance = 1 / (1 + np.exp(-raw))
    return -np.log(np.maximum(np.where(target > 0, chance, 1 - chance), _LEAST))


def _several(raw: Floats, target: Floats) -> Floats:
    grown = np.exp(raw - raw.max(axis=1, keepdims=True))
    right = grown[np.arange(len(raw)), target.astype(np.int64)] / grown.sum(axis=1)
    return np.asarray(-np.log(np.maximum(right, _LEAST)))


def _poisson(given: Floats, target: Floats) -> Floats:
    least = np.maximum(given, 1e-10)
    return least - target * np.log(least)


_LOSSES: Mapping[str, Callable[[Floats, Floats], Floats]] = {
    "l2": lambda given, target: (target - given) ** 2,
    "rmse": lambda given, target: (target - given) ** 2,
    "l1": lambda given, target: np.abs(target - given),
    "mape": lambda given, target: np.abs(target - given) / np.maximum(1.0, np.abs(target)),
    "poisson": _poisson,
    "binary_logloss": _binary,
    "multi_logloss": _several,
}


def contradiction(grown: Grown, values: Floats) -> str:
    """First part of the kept state that contradicts its trees, empty if none does. `values` [trees]
    are those after each tree, none without validation rows."""
    if not len(values):
        has_state = grown.best_trees or grown.best_round or grown.curve or grown.next_point != 1.0
        return "a best tree without validation rows" if has_state else ""
    if not _close(grown.value, values[grown.trees - 1], values):
        return "the validation value of the last kept tree"
    if not _is_best(grown, values):
        return f"the best of {grown.trees:,} kept trees"
    points, following = curve_trees(grown.trees, closed=grown.is_done)
    if [point.trees for point in grown.curve] != points or grown.next_point != following:
        return "the curve of the kept trees"
    for point in grown.curve:
        if not _close(point.validation, values[point.trees - 1], values):
            return f"the validation value of kept tree {point.trees:,}"
    return ""


def curve_trees(trees: int, *, closed: bool) -> tuple[list[int], float]:
    """Trees at which a curve of this length has its points, and the next one due; once training is
    `closed`, the last tree has a point."""
    points: list[int] = []
    due = 1.0
    while due <= trees:
        points.append(math.ceil(due))
        due = next_point(points[-1])
    if closed and points[-1:] != [trees]:
        points.append(trees)
        due = next_point(trees)
    return points, due


def _is_best(grown: Grown, values: Floats) -> bool:
    """Is no other tree better? Rounds without a split, which leave no record, make the best tree
    ambiguous among equal values."""
    best, without = grown.best_trees, grown.rounds - grown.trees
    if not (best >= 1 and 0 <= grown.best_round - best <= without):
        return False
    least = float(values.min())
    is_least = least >= values[best - 1] or _close(least, values[best - 1], values)
    return is_least and _close(grown.best_value, values[best - 1], values)


def _close(kept: float, value: float, values: Floats) -> bool:
    return math.isclose(
        kept, value, rel_tol=VALUE_TOLERANCE, abs_tol=1e-12 * float(np.abs(values).max())
    )


@final
@dataclass(eq=False)  # no slots, and hashed by identity: LightGBM sorts and marks its callbacks
class RedrawnNumbers:
    """Redraws the random numbers of `rounds` earlier rounds.

    Rows are drawn by rounds in which no gain suffices for a split: they change nothing else and
    cost about a tenth of a round. Columns are drawn whenever LightGBM resets a parameter, once
    during setup and once per tree of a round; setting another seed and then the original one
    restarts their sequence.
    """

    rounds: int
    trees_a_round: int
    parameters: dict[str, Any]
    watching: Watching
    before_iteration: ClassVar[bool] = True

    def __call__(self, env: CallbackEnv) -> None:
        """Before the first round."""
        if env.iteration != env.begin_iteration:
            return
        booster = env.model
        assert isinstance(booster, lightgbm.Booster)
        if self.parameters["bagging_freq"]:
            booster.reset_parameter({"min_gain_to_split": _NO_GAIN_IS_ENOUGH})
            for _ in range(self.rounds):
                if self.watching.is_interrupted():
                    raise Left
                booster.update()
            booster.reset_parameter({"min_gain_to_split": 0.0})
        if self.parameters["feature_fraction"] < 1:
            seeds = {name: self.parameters[name] for name in ("seed", "data_random_seed")}
            booster.reset_parameter({**seeds, "seed": seeds["seed"] ^ 1})
            for _ in range(self.rounds * self.trees_a_round + 1):
                booster.reset_parameter(seeds)


@final
@dataclass(eq=False)  # as above
class TreeWatcher:
    """Records the curve and the best tree, reports progress, keeps trees, ends training.

    When continuing from `before`, the first round is the last of those trees; if their training was
    complete, it is the only one. `own_metric` is what it watches, if not a metric of LightGBM.
    """

    patience: int
    most_rounds: int
    watching: Watching
    before: Grown = NOTHING_GROWN
    own_metric: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        self.state = self.before
        self._is_proven = not self.before.rounds

    def __call__(self, env: CallbackEnv) -> None:
        """After each round."""
        booster, results = env.model, list(env.evaluation_result_list or [])
        assert isinstance(booster, lightgbm.Booster)
        if not self._is_proven:
            self._prove(booster, _value(results))
            if self.before.is_done:
                self._stop(results)
            return
        trees = booster.current_iteration()
        has_grown = trees > self.state.trees
        self._take(trees, results)
        reached("tree")
        if results:
            self.watching.tell(trees, self.state.value)
            if trees >= self.state.next_point:
                self._add_point(booster)
        watching = self.watching
        if self._is_last() or (not watching.is_interrupted() and watching.should_stop()):
            if results and self.state.curve[-1].trees != trees:
                self._add_point(booster)
            self.state = replace(self.state, is_done=True)
            self._keep(booster)
            self._stop(results)
        # Asked again: what `should_stop` asks may have interrupted it.
        is_interrupted = watching.is_interrupted()
        may_go_on_from_it = has_grown and trees >= FEWEST_TREES
        if may_go_on_from_it and (is_interrupted or watching.keeper.is_due()):
            self._keep(booster)
        if is_interrupted:
            self._stop(results)

    def _prove(self, booster: lightgbm.Booster, value: float) -> None:
        before, at = self.before, self.before.trees - 1
        is_same = (
            booster.current_iteration() == before.trees
            and round_text(booster, at) == round_text(booster_of(before), at)
            and (
                (math.isnan(value) and math.isnan(before.value))
                or math.isclose(value, before.value, rel_tol=VALUE_TOLERANCE)
            )
        )
        if not is_same:
            raise OtherTrees(f"the last of {before.trees:,} kept trees")
        self._is_proven = True

    def _take(self, trees: int, results: Results) -> None:
        before, rounds, value = self.state, self.state.rounds + 1, _value(results)
        self.state = replace(before, trees=trees, rounds=rounds, value=value)
        if results:
            better = value > before.best_value if results[0][3] else value < before.best_value
            if better or not before.best_trees:
                self.state = replace(
                    self.state, best_trees=trees, best_round=rounds, best_value=value
                )

    def _is_last(self) -> bool:
        state = self.state
        if state.best_trees and state.rounds - state.best_round >= self.patience:
            return True
        return state.rounds >= self.most_rounds

    def _add_point(self, booster: lightgbm.Booster) -> None:
        state = self.state
        train = float(booster.eval_train(self.own_metric)[0][2])
        self.state = replace(
            state,
            next_point=next_point(state.trees),
            curve=(*state.curve, CurvePoint(state.trees, train, state.value)),
        )

    def _keep(self, booster: lightgbm.Booster) -> None:
        def grown() -> Grown:
            return replace(self.state, text=booster.model_to_string(num_iteration=-1))

        self.watching.keeper.keep(grown)

    def _stop(self, results: Results) -> NoReturn:
        raise EarlyStopException(self.state.best_trees - 1, results)


def _value(results: Results) -> float:
    return float(results[0][2]) if results else math.nan
