"""Gradient-boosted trees by XGBoost (Chen and Guestrin 2016, arXiv:1603.02754)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, final

import numpy as np
import xgboost
from xgboost.callback import TrainingCallback

from trainwright.contract.sections.model.trees import XGBoost
from trainwright.core.files import parse_json, write_text
from trainwright.core.threads import usable_cores
from trainwright.data.base.inputs import Floats, Inputs, Part, as_columns
from trainwright.data.base.row_storage import bounds
from trainwright.model.library_family import (
    LibraryJob,
    QueryRows,
    RankingJob,
    RowShare,
    numeric_width,
    tree_matrix,
)
from trainwright.model.tree_growth import Watching, weights_of_rows
from trainwright.model.trees.round_watcher import BoostingRecord, RoundWatcher, read_boosting_record
from trainwright.model.trees.target_scales import scale_job
from trainwright.model.xgboost.xgboost_json import check_xgboost_model
from trainwright.model.xgboost.xgboost_ranks import follow_first, gather_scores, join_ranks

_OBJECTIVES: Mapping[str, str] = {
    "squared_error": "reg:squarederror",
    "absolute_error": "reg:absoluteerror",
    "quantile": "reg:quantileerror",
    "poisson": "count:poisson",
    "lambdarank": "rank:ndcg",
}
"""XGBoost's regression objectives."""

_LOSSES: Mapping[str, str] = {
    "reg:squarederror": "rmse",
    "reg:absoluteerror": "mae",
    "reg:quantileerror": "quantile",
    "count:poisson": "poisson-nloglik",
    "binary:logistic": "logloss",
    "multi:softprob": "mlogloss",
}
"""XGBoost's metric for each objective."""

_METRICS: Mapping[str, str] = {"rmse": "rmse", "mae": "mae", "mape": "mape"}
"""XGBoost's regression metrics by ours."""


OwnMetric = Callable[[Floats, xgboost.DMatrix], tuple[str, float]]


@final
@dataclass(frozen=True, slots=True)
class XGBoostScorer:
    """Fitted trees, truncated at the best round. Scores are class probabilities or values."""

    booster: xgboost.Booster
    record: BoostingRecord
    kind: ClassVar[str] = "xgboost"

    def score(self, inputs: Inputs) -> Floats:
        """Class probabilities [N, C], values [N, 1], quantiles [N, K], or of several targets values
        or probabilities [N, T]."""
        outputs, several = self.record.outputs, self.record.several
        if not len(inputs):
            return np.zeros((0, self.record.score_columns))
        columns = as_columns(inputs)
        parts = (_matrix(columns.between(*ends)) for ends in bounds(len(columns)))
        raw = np.concatenate([np.asarray(self.booster.predict(one), np.float64) for one in parts])
        if outputs == 1 or several.targets:
            return several.restored(raw.reshape(len(raw), -1))
        if outputs == 2:
            return np.stack([1 - raw, raw], axis=1)
        # Single precision sums to 1 within its own rounding.
        return np.asarray(raw / raw.sum(axis=1, keepdims=True))

    def contributions(self, inputs: Inputs) -> Floats:
        """As `AttributingScorer`, by XGBoost's `pred_contribs`, in single precision; of quantiles
        those of the median."""
        found = self.booster.predict(_matrix(inputs), pred_contribs=True, strict_shape=True)
        values = np.asarray(found, np.float64)
        if self.record.several.centres:
            values *= np.array(self.record.several.scales)[:, None]
            values[:, :, -1] += self.record.several.centres
        if self.record.quantiles:
            median = self.record.quantiles.index(0.5)
            return values[:, median : median + 1]
        return values

    def write(self, folder: Path) -> None:
        """Write `xgboost.json`, in XGBoost's own format, and `boosting.json`."""
        write_text(folder / "xgboost.json", bytes(self.booster.save_raw("json")).decode())
        self.record.write(folder)


def read_xgboost(folder: Path) -> XGBoostScorer:
    """Read what `XGBoostScorer.write` wrote.

    Raises:
        KeyError, TypeError, ValueError: invalid content, found before XGBoost reads it.
    """
    record = read_boosting_record(folder)
    text = (folder / "xgboost.json").read_bytes()
    several = record.several.targets
    check_xgboost_model(parse_json(text), record.outputs, len(record.quantiles), several)
    return XGBoostScorer(_booster_of(text), record)


def _booster_of(text: bytes) -> xgboost.Booster:
    booster = xgboost.Booster({"nthread": usable_cores()})
    booster.load_model(bytearray(text))
    return booster


def fit_xgboost(
    section: XGBoost, job: LibraryJob, watching: Watching | None = None
) -> XGBoostScorer:
    """Grow trees until the validation metric has not improved for `early_stopping_rounds` rounds;
    without validation rows all `max_trees`. Weights, scales and queries are those of all rows,
    whatever the share of this process.

    Raises:
        PeerLost: a process that trains on other rows has died.
    """
    weights = job.class_weights(section.class_weights)
    ranking, share = job.ranking, job.share
    section, job, scales = scale_job(section, job)
    metric = xgboost_metric(section, job)
    unit = scales.unit_of(metric)
    watcher = RoundWatcher(section.early_stopping_rounds, watching or Watching(), unit)
    with join_ranks(share):
        train = _labelled(job.train, weights, ranking.train, share)
        rows = job.validation
        watched = [_labelled(rows, weights, ranking.validation, share)] if len(rows) else []
        own = _own_metric(ranking, train, share) if ranking else None
        booster = xgboost.train(
            xgboost_parameters(section, job),
            train,
            num_boost_round=section.max_trees,
            evals=[(rows, "validation") for rows in watched],
            custom_metric=own,
            callbacks=[_Callback(watcher, metric, train, own, share)],
            verbose_eval=False,
        )
    # Read back: the scored model is that of the file, without the training rows.
    text = bytes(booster[: watcher.kept].save_raw("json"))
    curve = tuple(watcher.curve)
    outputs = 1 + job.are_labels if job.are_several else job.outputs
    record = BoostingRecord(outputs, metric, watcher.kept, curve, job.quantiles, scales)
    return XGBoostScorer(_booster_of(text), record)


def xgboost_parameters(section: XGBoost, job: LibraryJob) -> dict[str, Any]:
    """XGBoost's parameters: with these and `tree_matrix`, a direct call grows identical trees."""
    return {
        **_objective(section, job),
        **({"monotone_constraints": tuple(job.monotone_signs())} if job.monotone else {}),
        **(
            {"disable_default_eval_metric": True}
            if job.ranking
            else {"eval_metric": xgboost_metric(section, job)}
        ),
        "tree_method": "hist",
        "learning_rate": section.learning_rate,
        "max_depth": section.max_depth,
        "min_child_weight": section.min_child_weight,
        "colsample_bytree": section.feature_fraction,
        "subsample": section.bagging_fraction,
        "reg_lambda": section.lambda_l2,
        "seed": job.seed % 2**31,
        "nthread": job.threads or usable_cores(),
        "verbosity": 0,
    }


def xgboost_metric(section: XGBoost, job: LibraryJob) -> str:
    """XGBoost's name of the metric that decides the number of trees; of a ranking, 1 - the
    contract's metric."""
    if job.ranking:
        return job.ranking.watched
    loss = _LOSSES[_objective(section, job)["objective"]]
    is_number = job.outputs == 1 and not job.quantiles and not job.are_several
    return _METRICS.get(job.metric, loss) if is_number else loss


def _objective(section: XGBoost, job: LibraryJob) -> dict[str, Any]:
    if job.are_labels or (job.outputs == 2 and not job.are_several):
        return {"objective": "binary:logistic"}
    if job.outputs > 2 and not job.are_several:
        return {"objective": "multi:softprob", "num_class": job.outputs}
    found: dict[str, Any] = {"objective": _OBJECTIVES[section.objective]}
    if section.objective == "lambdarank":
        exponential = bool(job.ranking.gain(np.full(1, 2.0))[0] == 3.0)
        return {**found, "ndcg_exp_gain": exponential}
    wanted = list(job.quantiles) or job.quantile
    return {**found, "quantile_alpha": wanted} if section.objective == "quantile" else found


@final
class _Callback(TrainingCallback):
    """Hands each round to the watcher."""

    def __init__(
        self,
        watcher: RoundWatcher,
        metric: str,
        train: xgboost.DMatrix,
        own: OwnMetric | None,
        share: RowShare,
    ) -> None:
        super().__init__()
        self._share = share
        self._watcher = watcher
        self._own = own
        self._metric = metric
        self._train = train

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        """Is this round the last one?"""

        def train_value() -> float:
            if self._own is not None:
                return self._own(model.predict(self._train), self._train)[1]
            return float(model.eval(self._train, "train", epoch).rpartition(":")[2])

        said = evals_log.get("validation")
        value = float(said[self._metric][-1]) if said else math.nan
        is_last = self._watcher.is_last(value, train_value)
        return follow_first(self._share, decision=is_last)


def _own_metric(ranking: RankingJob, train: xgboost.DMatrix, share: RowShare) -> OwnMetric:
    """1 - the contract's metric, on all training or all validation rows."""

    def loss(scores: Floats, rows: xgboost.DMatrix) -> tuple[str, float]:
        of_training = rows is train
        queries = ranking.train if of_training else ranking.validation
        every = gather_scores(share, scores, queries.sizes)
        return ranking.watched, ranking.loss(every, of_training=of_training)

    return loss


def _labelled(
    part: Part, weights: Floats | None, queries: QueryRows, share: RowShare
) -> xgboost.DMatrix:
    """The rows of this share."""
    chosen = share.divide(len(part), queries.sizes)
    if len(queries.sizes):
        order = queries.order[chosen]
        codes = queries.codes[chosen]
        return _matrix(part.inputs.take(order), label=part.target[order], qid=codes)
    inputs = part.inputs
    if share.ranks > 1:
        inputs = as_columns(inputs).between(chosen.start, chosen.stop)
    counted = weights_of_rows(weights, part.target, part.weights)
    counted = None if counted is None else counted[chosen]
    return _matrix(inputs, label=part.target[chosen], weight=counted)


def _matrix(inputs: Inputs, **given: Any) -> xgboost.DMatrix:
    matrix = tree_matrix(inputs)
    numbers = numeric_width(inputs)
    kinds = ["q"] * numbers + ["c"] * (matrix.shape[1] - numbers)
    return xgboost.DMatrix(
        matrix, feature_types=kinds, enable_categorical=True, nthread=usable_cores(), **given
    )
