"""Several LightGBM models that grow side by side, a round of each at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, final

import lightgbm
import numpy as np

from trainwright.model.boosting.lightgbm_trees import BoostingJob, boosting_parameters
from trainwright.model.tree_growth import CurvePoint, Watching
from trainwright.model.trees.round_watcher import RoundWatcher

NO_GRADES = np.zeros(0)


def files_of_trees(count: int) -> list[str]:
    """The file of each of several models."""
    return ["model.txt", *(f"model_{at}.txt" for at in range(2, count + 1))]


def grow_side_by_side(
    growing: Sequence[GrowingTrees], most: int, watching: Watching
) -> tuple[CurvePoint, ...]:
    """Grow at most so many rounds of each, and give the curve of the mean of their values. A model
    ends by its own validation value; the growth ends with the last of them."""
    watcher = RoundWatcher(most, watching)
    while watcher.trees < most:
        for one in growing:
            one.grow()
        is_last = watcher.is_last(_mean([one.value for one in growing]), lambda: _train(growing))
        if is_last or all(one.is_done for one in growing):
            break
    return tuple(watcher.curve)


def _train(growing: Sequence[GrowingTrees]) -> float:
    return _mean([one.train_value() for one in growing])


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))


@final
class GrowingTrees:
    """The trees of one quantile or target while they grow, at most so many rounds; `value` is the
    validation value of the newest round, and of ended trees the best."""

    def __init__(
        self,
        job: BoostingJob,
        train: lightgbm.Dataset,
        validation: lightgbm.Dataset | None,
        most: int,
    ) -> None:
        self._booster = lightgbm.Booster(boosting_parameters(job), train)
        self._is_judged = validation is not None
        if validation is not None:
            self._booster.add_valid(validation, "validation")
        self._most = most
        self._patience = job.section.early_stopping_rounds
        self._rounds = self._best_round = self._best_trees = 0
        self._best = math.inf
        self.value = math.nan
        self.is_done = False

    def grow(self) -> None:
        """Grow another tree, unless the growth has ended."""
        if self.is_done:
            return
        self._booster.update()
        self._rounds += 1
        self.is_done = self._rounds >= self._most
        if not self._is_judged:
            return
        self.value = _value_of(self._booster.eval_valid())
        if self.value < self._best:
            self._best, self._best_round = self.value, self._rounds
            self._best_trees = self._booster.current_iteration()
        if self._rounds - self._best_round >= self._patience:
            self.is_done, self.value = True, self._best

    def train_value(self) -> float:
        """The value of the training rows."""
        return _value_of(self._booster.eval_train())

    def kept(self) -> lightgbm.Booster:
        """The model up to the best iteration, without the training rows."""
        most = self._best_trees or self._booster.current_iteration()
        return lightgbm.Booster(model_str=self._booster.model_to_string(num_iteration=most))


def _value_of(said: Any) -> float:
    """Value of the only metric: LightGBM gives (data, metric, value, whether more is better)."""
    return float(said[0][2])
