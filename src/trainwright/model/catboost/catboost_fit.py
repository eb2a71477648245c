"""Gradient-boosted trees by CatBoost (Prokhorenkova et al. 2018, arXiv:1706.09516)."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, final

import catboost
import numpy as np
from scipy.special import expit

from trainwright.contract.sections.model.trees import CatBoost
from trainwright.core.errors import Mistake, Problem
from trainwright.core.files import Json, read_json, write_json
from trainwright.core.threads import prediction_threads, usable_cores
from trainwright.data.base.inputs import Floats, Inputs, Part, as_columns
from trainwright.data.base.row_storage import bounds
from trainwright.model.catboost.catboost_json import check_catboost_model
from trainwright.model.library_family import LibraryJob
from trainwright.model.tree_growth import Watching, weights_of_rows
from trainwright.model.trees.round_watcher import BoostingRecord, RoundWatcher, read_boosting_record
from trainwright.model.trees.target_scales import scale_job

_LOSSES: Mapping[str, str] = {
    "squared_error": "RMSE",
    "absolute_error": "MAE",
    "mape": "MAPE",
    "poisson": "Poisson",
}
"""CatBoost's regression losses, which are its metrics too."""

_METRICS: Mapping[str, str] = {"rmse": "RMSE", "mae": "MAE", "mape": "MAPE"}
"""CatBoost's regression metrics by ours."""

_OF_SEVERAL: Mapping[str, Any] = {
    "one_hot_max_size": 255,
    "simple_ctr": ["Counter"],
    "combinations_ctr": ["Counter"],
}
"""Categories of several targets: splits by value up to CatBoost's limit, and frequencies of others.
Statistics of several targets are lost in its JSON, where all of a category have one name."""

_CHECKED_ROWS = 1000

_PARTS = ("ctr_data", "features_info", "oblivious_trees", "scale_and_bias")
"""What of a model predicts; the rest says when and how it was trained."""


@final
@dataclass(frozen=True, slots=True)
class CatBoostScorer:
    """Fitted trees, truncated at the best round, as the `model` in JSON that CatBoost reads. Scores
    are class probabilities or values; `is_log` says that the trees predict the logarithm."""

    trees: Any
    model: Json
    record: BoostingRecord
    is_log: bool = False
    kind: ClassVar[str] = "catboost"

    def score(self, inputs: Inputs) -> Floats:
        """Class probabilities [N, C], values [N, 1], quantiles [N, K], or of several targets values
        or probabilities [N, T]."""
        outputs, several = self.record.outputs, self.record.several
        if not len(inputs):
            return np.zeros((0, self.record.score_columns))
        columns = as_columns(inputs)
        raw = np.concatenate([self._raw(columns.between(*ends)) for ends in bounds(len(columns))])
        if several.targets:
            return expit(raw) if outputs == 2 else several.restored(raw)
        if outputs == 1:
            values = np.asarray(np.exp(raw) if self.is_log else raw)
            return several.restored(values.reshape(len(raw), -1))
        if outputs == 2:
            raw = np.stack([np.zeros(len(raw)), raw], axis=1)
        grown = np.exp(raw - raw.max(axis=1, keepdims=True))
        return np.asarray(grown / grown.sum(axis=1, keepdims=True))

    def _raw(self, inputs: Inputs) -> Floats:
        threads = prediction_threads(len(inputs))
        found = self.trees.predict(
            _pool(inputs), prediction_type="RawFormulaVal", thread_count=threads
        )
        return np.asarray(found, np.float64)

    def write(self, folder: Path) -> None:
        """Write `catboost.json`, in CatBoost's own format, and `boosting.json`."""
        write_json(folder / "catboost.json", self.model)
        self.record.write(folder)


def read_catboost(folder: Path) -> CatBoostScorer:
    """Read what `CatBoostScorer.write` wrote.

    Raises:
        KeyError, TypeError, ValueError: invalid content, found before CatBoost reads it.
    """
    record, path = read_boosting_record(folder), folder / "catboost.json"
    model = read_json(path)
    several = bool(record.quantiles or record.several.targets)
    check_catboost_model(model, record.score_columns, several=several)
    return CatBoostScorer(_trees_of(path), model, record, is_log=record.metric == "Poisson")


def _trees_of(path: Path) -> Any:
    trees = catboost.CatBoost()
    trees.load_model(str(path), format="json")
    return trees


def fit_catboost(
    section: CatBoost, job: LibraryJob, watching: Watching | None = None
) -> CatBoostScorer:
    """Grow trees until the validation metric has not improved for `early_stopping_rounds` rounds;
    without validation rows all `max_trees`.

    Raises:
        Mistake: CatBoost cannot learn from these rows, for example if every column is constant.
    """
    weights = job.class_weights(section.class_weights)
    section, job, scales = scale_job(section, job)
    start = _log_mean(job, weights) if section.objective == "poisson" else 0.0
    validation = _pool_of(job.validation, weights, start) if len(job.validation) else None
    parameters = catboost_parameters(section, job)
    metric = str(parameters["eval_metric"])
    unit = scales.unit_of(metric)
    watcher = RoundWatcher(section.early_stopping_rounds, watching or Watching(), unit)
    train = _pool_of(job.train, weights, start)
    trees = _grown(parameters, train, validation, _Callback(watcher, metric))
    trees.shrink(ntree_end=watcher.kept)
    if start:
        trees.set_scale_and_bias(1.0, start)
    curve = tuple(watcher.curve)
    outputs = 1 + job.are_labels if job.are_several else job.outputs
    record = BoostingRecord(outputs, metric, watcher.kept, curve, job.quantiles, scales)
    with tempfile.TemporaryDirectory(prefix="trainwright-") as name:
        path = Path(name) / "catboost.json"
        trees.save_model(str(path), format="json")
        whole = read_json(path)
        model = {**{part: whole[part] for part in _PARTS if part in whole}, "model_info": {}}
        write_json(path, model)
        # Read back: the scored model is that of the file.
        scorer = CatBoostScorer(_trees_of(path), model, record, is_log=metric == "Poisson")
    if job.are_several:
        some = as_columns(job.train.inputs).between(0, _CHECKED_ROWS)
        grown = replace(scorer, trees=trees).score(some)
        if not np.allclose(scorer.score(some), grown):
            raise Mistake(_lost_in_file())
    return scorer


def _lost_in_file() -> Problem:
    return Problem(
        "CatBoost's file of these trees does not predict what they do",
        path="model.kind",
        found="catboost, beside several targets",
        expected="a library whose file does",
        fix="model: {kind: boosting}",
    )


def _grown(parameters: Mapping[str, Any], train: Any, validation: Any, callback: _Callback) -> Any:
    trees = catboost.CatBoost(parameters)
    try:
        trees.fit(train, eval_set=validation, callbacks=[callback], use_best_model=False)
    except catboost.CatBoostError as error:
        raise Mistake(
            Problem(
                f"CatBoost cannot learn from these rows: {str(error).rpartition(': ')[2]}",
                path="model.kind",
                found="catboost",
                fix="model: {kind: boosting}",
            )
        ) from error
    if callback.error:
        raise callback.error
    return trees


def catboost_parameters(section: CatBoost, job: LibraryJob) -> dict[str, Any]:
    """CatBoost's parameters: with these, a direct call grows identical trees."""
    metric = catboost_metric(section, job)
    is_many = job.outputs > 2 and not job.are_several
    classes = {"classes_count": job.outputs} if is_many else {}
    constraints = {"monotone_constraints": job.monotone_signs()} if job.monotone else {}
    return {
        **classes,
        **constraints,
        **(_OF_SEVERAL if job.are_several and job.cardinalities else {}),
        "loss_function": _loss(section, job),
        "eval_metric": metric,
        "iterations": section.max_trees,
        "learning_rate": section.learning_rate,
        "depth": section.depth,
        "l2_leaf_reg": section.lambda_l2,
        "random_seed": job.seed % 2**31,
        "thread_count": job.threads or usable_cores(),
        "allow_writing_files": False,
        "logging_level": "Silent",
    }


def catboost_metric(section: CatBoost, job: LibraryJob) -> str:
    """CatBoost's name of the metric that decides the number of trees."""
    loss = _loss(section, job)
    if job.are_several or job.outputs > 1 or job.quantiles or loss == "Poisson":
        return loss
    return _METRICS.get(job.metric, loss)


def _loss(section: CatBoost, job: LibraryJob) -> str:
    if job.are_several:
        return "MultiLogloss" if job.are_labels else "MultiRMSE"
    if job.outputs > 1:
        return "Logloss" if job.outputs == 2 else "MultiClass"
    if job.quantiles:
        return f"MultiQuantile:alpha={','.join(map(str, job.quantiles))}"
    if section.objective == "quantile":
        return f"Quantile:alpha={job.quantile}"
    return _LOSSES[section.objective]


@final
class _Callback:
    """Hands each round to the watcher. CatBoost would replace an exception by one of its own: the
    first ends the growth and is kept in `error`."""

    def __init__(self, watcher: RoundWatcher, metric: str) -> None:
        self.error: BaseException | None = None
        self._watcher = watcher
        self._metric = metric.partition(":")[0]

    def after_iteration(self, info: Any) -> bool:
        """Does growing go on?"""
        try:
            said = info.metrics.get("validation")
            value = self._last(said) if said else float("nan")
            return not self._watcher.is_last(value, lambda: self._last(info.metrics["learn"]))
        except BaseException as error:
            self.error = error
            return False

    def _last(self, said: Mapping[str, list[float]]) -> float:
        """The metric's last value. CatBoost writes the parameter in its name with three digits."""
        return next(
            values[-1] for name, values in said.items() if name.partition(":")[0] == self._metric
        )


def _log_mean(job: LibraryJob, weights: Floats | None) -> float:
    """The logarithm of the mean count, from which CatBoost does not begin by itself: trees would
    have to come from 1, and never reach counts of a million."""
    part = job.train
    mean = np.average(part.target, weights=weights_of_rows(weights, part.target, part.weights))
    return float(np.log(mean)) if mean > 0 else 0.0


def _pool_of(part: Part, weights: Floats | None, start: float) -> Any:
    """Rows with their targets; `start` is what is predicted before the first tree."""
    counted = weights_of_rows(weights, part.target, part.weights)
    given = {"baseline": np.full(len(part), start)} if start else {}
    return _pool(part.inputs, label=part.target, weight=counted, **given)


def _pool(inputs: Inputs, **given: Any) -> Any:
    """Numbers, then categories as texts of their codes."""
    columns = as_columns(inputs).dense()
    codes = columns.categories.astype("S20").astype(object)
    features = catboost.FeaturesData(
        num_feature_data=np.ascontiguousarray(columns.numeric) if columns.numeric.size else None,
        cat_feature_data=codes if codes.size else None,
    )
    return catboost.Pool(features, **given)
