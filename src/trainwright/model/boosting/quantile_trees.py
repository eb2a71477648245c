"""One LightGBM model for each of several quantiles, grown side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, final

import lightgbm
import numpy as np

from trainwright.core.files import Json, read_json, write_json, write_text
from trainwright.data.base.table import Floats, Inputs
from trainwright.model.boosting.lightgbm_dataset import build_dataset
from trainwright.model.boosting.lightgbm_text import check_model_text
from trainwright.model.boosting.lightgbm_trees import (
    Boosted,
    BoostingJob,
    boosting_parameters,
)
from trainwright.model.round_watcher import RoundWatcher
from trainwright.model.tree_growth import CurvePoint, Watching

_METRIC = "quantile"
_NO_GRADES = np.zeros(0)


@final
@dataclass(frozen=True, slots=True)
class BoostedQuantiles:
    """Trees of each quantile, each truncated at its own best iteration. Scores are the quantiles
    [N, K], as they are: of a row a higher one may be below a lower one."""

    quantiles: tuple[float, ...]
    each: tuple[Boosted, ...]
    curve: tuple[CurvePoint, ...] = ()
    metric: str = _METRIC
    kind: ClassVar[str] = "lightgbm"

    @property
    def trees(self) -> int:
        """Trees of all quantiles."""
        return sum(one.trees for one in self.each)

    @property
    def splits(self) -> int:
        """Splits of all trees."""
        return sum(one.splits for one in self.each)

    def score(self, inputs: Inputs) -> Floats:
        """Quantiles [N, K]."""
        return np.concatenate([one.score(inputs) for one in self.each], axis=1)

    def contributions(self, inputs: Inputs) -> Floats:
        """As `AttributingScorer`, of the median."""
        return self.each[self.quantiles.index(0.5)].contributions(inputs)

    def write(self, folder: Path) -> None:
        """Write the trees of each quantile in LightGBM's own text format, those of the lowest as
        `model.txt`, and `boosting.json`."""
        for name, one in zip(_files(len(self.each)), self.each, strict=True):
            write_text(folder / name, one.booster.model_to_string())
        about: Json = {
            "outputs": 1,
            "quantiles": list(self.quantiles),
            "metric": self.metric,
            "curve": [[point.trees, point.train, point.validation] for point in self.curve],
            "kept": [one.trees for one in self.each],
        }
        write_json(folder / "boosting.json", about)


def _files(count: int) -> list[str]:
    return ["model.txt", *(f"model_{at}.txt" for at in range(2, count + 1))]


def names_quantiles(folder: Path) -> bool:
    """Does the folder hold trees of several quantiles?"""
    return "quantiles" in read_json(folder / "boosting.json")


def read_quantiles(folder: Path) -> BoostedQuantiles:
    """Read what `BoostedQuantiles.write` wrote.

    Raises:
        KeyError, TypeError, ValueError: invalid content, found before LightGBM reads it.
    """
    about = read_json(folder / "boosting.json")
    quantiles = tuple(map(float, about["quantiles"]))
    if 0.5 not in quantiles or not all(0 < one < 1 for one in quantiles):
        raise ValueError("boosting.json names quantiles that there are not")
    texts = [(folder / name).read_text(encoding="utf-8") for name in _files(len(quantiles))]
    for text in texts:
        check_model_text(text, 1)
    metric = str(about["metric"])
    each = tuple(Boosted(lightgbm.Booster(model_str=text), 1, metric) for text in texts)
    curve = tuple(CurvePoint(int(trees), train, value) for trees, train, value in about["curve"])
    return BoostedQuantiles(quantiles, each, curve, metric)


def fit_quantiles(
    job: BoostingJob, quantiles: Sequence[float], watching: Watching
) -> BoostedQuantiles:
    """Grow the trees of all quantiles round by round. The trees of a quantile end once its own
    validation value has not improved for `early_stopping_rounds` rounds, and are kept up to the
    best; they are those that LightGBM grows for it alone. What is watched is the mean over the
    quantiles; the growth ends with the last of them."""
    train = build_dataset(job.train, None, _NO_GRADES)
    validation = (
        build_dataset(job.validation, None, _NO_GRADES, train)
        if len(job.validation.target)
        else None
    )
    growing = [
        _Growing(replace(job, quantile=one, watch="pinball"), train, validation)
        for one in quantiles
    ]
    watcher = RoundWatcher(job.section.max_trees, watching)
    while watcher.trees < job.section.max_trees:
        for one in growing:
            one.grow()
        is_last = watcher.is_last(_mean([one.value for one in growing]), lambda: _train(growing))
        if is_last or all(one.is_done for one in growing):
            break
    each = tuple(Boosted(one.kept(), 1, _METRIC) for one in growing)
    return BoostedQuantiles(tuple(quantiles), each, tuple(watcher.curve))


def _train(growing: Sequence[_Growing]) -> float:
    return _mean([one.train_value() for one in growing])


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))


@final
class _Growing:
    """The trees of one quantile while they grow; `value` is the validation value of the newest
    round, and of ended trees the best."""

    def __init__(
        self, job: BoostingJob, train: lightgbm.Dataset, validation: lightgbm.Dataset | None
    ) -> None:
        self._booster = lightgbm.Booster(boosting_parameters(job), train)
        self._is_judged = validation is not None
        if validation is not None:
            self._booster.add_valid(validation, "validation")
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
