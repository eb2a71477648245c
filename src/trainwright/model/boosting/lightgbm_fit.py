"""Gradient-boosted trees by LightGBM (Ke et al. 2017)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, final

import lightgbm
import numpy as np
from lightgbm.callback import CallbackEnv

from trainwright.contract.sections.model.trees import Boosting
from trainwright.core.files import Json, read_json, write_json, write_text
from trainwright.core.threads import prediction_threads, usable_cores
from trainwright.data.base.inputs import Floats, Inputs, as_columns
from trainwright.data.base.row_storage import bounds
from trainwright.model.boosting.boosting_callbacks import (
    RedrawnNumbers,
    Replay,
    SomeRows,
    TreeWatcher,
    contradiction,
)
from trainwright.model.boosting.lightgbm_dataset import (
    BoostingRows,
    booster_of,
    build_dataset,
    matrix_of,
    ranking_losses,
    ranking_metric,
    ranking_objective,
)
from trainwright.model.library_family import NO_RANKING, RankingJob
from trainwright.model.tree_growth import (
    NOTHING_GROWN,
    OF_QUERIES,
    CurvePoint,
    Grown,
    KeepsNothing,
    Left,
    OtherTrees,
    Watching,
    weights_by_class,
)

_OBJECTIVES: Mapping[str, str] = {
    "auto": "regression_l2",
    "squared_error": "regression_l2",
    "absolute_error": "regression_l1",
    "mape": "mape",
    "quantile": "quantile",
    "poisson": "poisson",
}
"""LightGBM's regression objectives."""

_LOSSES: Mapping[str, str] = {
    "regression_l2": "l2",
    "regression_l1": "l1",
    "mape": "mape",
    "quantile": "quantile",
    "poisson": "poisson",
    "binary": "binary_logloss",
    "multiclass": "multi_logloss",
}
"""LightGBM's metric for each objective."""

_METRICS: Mapping[str, str] = {"rmse": "rmse", "mae": "l1", "mape": "mape", "pinball": "quantile"}
"""LightGBM's regression metrics by ours. For classification the loss is watched: an AUC of few rows
moves by chance, and kept too few trees."""


@dataclass(frozen=True, slots=True)
class BoostingJob:
    """Inputs of a fit.

    `outputs` is the number of classes, or 1 for regression. `watch` is the metric whose best
    validation value decides the number of trees: `loss`, or a regression metric that LightGBM
    computes; any other metric is replaced by the loss. `quantile` is that of the objective and the
    metric. `threads` 0 are all usable cores. `monotone` and `ranking` are as in `LibraryJob`;
    what a ranking watches is its own metric. Targets are `centre` plus `unit` times the learned.
    """

    section: Boosting
    train: BoostingRows
    validation: BoostingRows
    outputs: int
    seed: int
    watch: str = "loss"
    threads: int = 0
    quantile: float = 0.5
    monotone: Mapping[int, int] = field(default_factory=dict)
    ranking: RankingJob = NO_RANKING
    centre: float = 0.0
    unit: float = 1.0


@final
@dataclass(frozen=True, slots=True)
class Boosted:
    """Fitted trees, truncated at the best iteration. Scores are class probabilities or values."""

    booster: lightgbm.Booster
    outputs: int
    metric: str
    curve: tuple[CurvePoint, ...] = ()
    kind: ClassVar[str] = "lightgbm"

    @property
    def trees(self) -> int:
        """Boosting rounds kept; with several classes each round has one tree per class."""
        return int(self.booster.current_iteration())

    @property
    def splits(self) -> int:
        """Number of splits in all trees; without any, every row gets the same prediction."""
        return int(self.booster.feature_importance("split").sum())

    def score(self, inputs: Inputs) -> Floats:
        """Class probabilities [N, C], or values [N, 1]."""
        if not len(inputs):
            return np.zeros((0, self.outputs))
        columns = as_columns(inputs)
        raw = np.concatenate(
            [self._predict(matrix_of(columns.between(*ends))) for ends in bounds(len(columns))]
        )
        if self.outputs == 1:
            return raw[:, None]
        return np.stack([1 - raw, raw], axis=1) if self.outputs == 2 else raw

    def contributions(self, inputs: Inputs) -> Floats:
        """As `AttributingScorer`, by LightGBM's `pred_contrib`: TreeSHAP over the paths of the
        trees (Lundberg et al. 2020)."""
        columns = as_columns(inputs)
        width = columns.numeric.shape[1] + columns.terms.width + columns.categories.shape[1] + 1
        raw_outputs = self.outputs if self.outputs > 2 else 1
        if not len(columns):
            return np.zeros((0, raw_outputs, width))
        found: Any = self.booster.predict(
            matrix_of(columns), pred_contrib=True, num_threads=usable_cores()
        )
        if columns.terms.width:
            each = found if isinstance(found, list) else [found]
            return np.stack([one.toarray() for one in each], axis=1)
        return np.asarray(found, np.float64).reshape(len(columns), raw_outputs, width)

    def _predict(self, matrix: Any) -> Floats:
        threads = prediction_threads(matrix.shape[0])
        return np.asarray(self.booster.predict(matrix, num_threads=threads), np.float64)

    def write(self, folder: Path) -> None:
        """Write `model.txt`, in LightGBM's own text format, and `boosting.json`: the same bytes
        whatever the number of threads was, which moves the last bits of a value."""
        text = re.sub(
            r"(?m)^\[num_threads: \d+\]$", "[num_threads: 0]", self.booster.model_to_string()
        )
        write_text(folder / "model.txt", text)
        curve = [
            [point.trees, *(float(f"{value:.7g}") for value in (point.train, point.validation))]
            for point in self.curve
        ]
        about: Json = {
            "outputs": self.outputs,
            "metric": self.metric,
            "curve": curve,
            "kept": self.trees,
        }
        write_json(folder / "boosting.json", about)


def read_boosted(folder: Path) -> Boosted:
    """Read what `Boosted.write` wrote."""
    about = read_json(folder / "boosting.json")
    text = (folder / "model.txt").read_text(encoding="utf-8")
    outputs = int(about["outputs"])
    from trainwright.model.boosting.lightgbm_text import check_model_text

    check_model_text(text, outputs)
    return Boosted(
        lightgbm.Booster(model_str=text),
        outputs,
        str(about["metric"]),
        tuple(CurvePoint(int(trees), train, value) for trees, train, value in about["curve"]),
    )


def boosting_parameters(job: BoostingJob) -> dict[str, Any]:
    """LightGBM's parameters: with these and `matrix_of`, a direct call grows identical trees."""
    section = job.section
    least = 20 if section.min_data_in_leaf == "auto" else section.min_data_in_leaf
    return {
        **_objective(job),
        **_constraints(job),
        "metric": "None" if job.ranking else watched_metric(job),
        "learning_rate": section.learning_rate,
        "num_leaves": section.num_leaves,
        "min_data_in_leaf": least,
        # LightGBM's own from 20 rows on, with which it hardly splits a small table by a category.
        "min_data_per_group": min(100, 5 * least),
        "cat_smooth": min(10.0, least / 2),
        "cat_l2": min(10.0, least / 2),
        "feature_fraction": section.feature_fraction,
        "bagging_fraction": section.bagging_fraction,
        "bagging_freq": 1 if section.bagging_fraction < 1 else 0,
        "lambda_l2": section.lambda_l2,
        "seed": job.seed % 2**31,
        # For a matrix LightGBM derives it from the seed, but not for rows in files.
        "data_random_seed": job.seed % 2**31,
        "deterministic": True,
        # By default LightGBM times both ways and takes the faster: another run could sum in another
        # order.
        "force_row_wise": True,
        "num_threads": _threads(job),
        "verbosity": -1,
    }


def _constraints(job: BoostingJob) -> dict[str, Any]:
    if not job.monotone:
        return {}
    columns = as_columns(job.train.inputs)
    width = columns.numeric.shape[1] + columns.terms.width + columns.categories.shape[1]
    return {"monotone_constraints": [job.monotone.get(at, 0) for at in range(width)]}


def _threads(job: BoostingJob) -> int:
    return job.threads or usable_cores()


def _objective(job: BoostingJob) -> dict[str, Any]:
    if job.outputs == 2:
        return {"objective": "binary"}
    if job.outputs > 2:
        return {"objective": "multiclass", "num_class": job.outputs}
    if job.ranking and job.section.objective in OF_QUERIES:
        return ranking_objective(job.section.objective, job.ranking, _grades(job))
    # `alpha` also parametrises the metric; no other objective used here reads it.
    return {"objective": _OBJECTIVES[job.section.objective], "alpha": job.quantile}


def watched_metric(job: BoostingJob) -> str:
    """LightGBM's name of the metric that decides the number of trees; of a ranking, 1 - the
    contract's metric."""
    if job.ranking:
        return job.ranking.watched
    loss = _LOSSES[_objective(job)["objective"]]
    return _METRICS.get(job.watch, loss) if job.outputs == 1 else loss


def fit_boosting(
    job: BoostingJob, watching: Watching | None = None, before: Grown = NOTHING_GROWN
) -> Boosted:
    """Grow trees until the validation metric has not improved for `early_stopping_rounds` rounds.

    Without validation rows all `max_trees` are grown. Given the trees `before`, it continues to the
    same trees as an uninterrupted run, after verifying the last of their rounds; if they cannot be
    verified, all trees are grown again.

    Raises:
        OtherTrees: the earlier trees cannot be continued: the result would not be bit-identical.
    """
    usable = before if before.is_provable else NOTHING_GROWN
    watching = watching or Watching()
    if job.section.objective == "rank_xendcg":
        # Its random numbers go on from round to round, and cannot be set.
        watching, usable = replace(watching, keeper=KeepsNothing()), NOTHING_GROWN
    try:
        if usable.rounds:
            _prove_values(job, watching, usable)
        grown = _grow(job, watching, usable)
    except Left:
        grown = usable
    # Truncated and read back: the scored model is that of the file, without the training rows.
    booster = booster_of(grown)
    if booster.current_iteration() > grown.kept:
        text = booster.model_to_string(num_iteration=grown.kept)
        booster = lightgbm.Booster(model_str=text)
    booster = restore_unit(booster, job)
    return Boosted(booster, job.outputs, watched_metric(job), grown.curve)


def restore_unit(booster: lightgbm.Booster, job: BoostingJob) -> lightgbm.Booster:
    """The trees with leaves in the unit of the target, doubles as the predictions are."""
    if (job.centre, job.unit) == (0, 1):
        return booster
    leaves = re.findall(r"(?m)^num_leaves=(\d+)$", booster.model_to_string())
    for tree, count in enumerate(leaves):
        for leaf in range(int(count)):
            value = booster.get_leaf_output(tree, leaf) * job.unit
            booster.set_leaf_output(tree, leaf, value + job.centre * (tree == 0))
    return booster


def _prove_values(job: BoostingJob, watching: Watching, before: Grown) -> None:
    """Recompute the validation values of the earlier trees, and from them the best iteration and
    the curve.

    Raises:
        OtherTrees: they do not match these trees. Left: training was interrupted.
    """

    def between() -> None:
        if watching.is_interrupted():
            raise Left

    values = np.zeros(0)
    if job.ranking and len(job.validation.target):
        matrix, threads = matrix_of(job.validation.inputs), _threads(job)
        values = ranking_losses(booster_of(before), matrix, job.ranking, threads, between)
        _check_values(before, values)
        return
    replay = Replay(
        watched_metric(job), _objective(job)["objective"], job.quantile, _threads(job), between
    )
    if len(job.validation.target):
        values = replay.values(booster_of(before), _slices(job))
    _check_values(before, values)


def _check_values(before: Grown, values: Floats) -> None:
    if wrong := contradiction(before, values):
        raise OtherTrees(wrong)


def _slices(job: BoostingJob) -> Iterator[SomeRows]:
    """Validation rows in slices, with targets and weights as in LightGBM."""
    rows = job.validation
    columns, weights = as_columns(rows.inputs), weights_of_classes(job)
    for low, high in bounds(len(columns)):
        target = rows.target[low:high]
        counted = np.ones(len(target)) if weights is None else weights[target]
        yield SomeRows(
            matrix_of(columns.between(low, high)),
            target.astype(np.float32).astype(np.float64),
            counted.astype(np.float32).astype(np.float64),
        )


def _grow(job: BoostingJob, watching: Watching, before: Grown) -> Grown:
    """All trees, including the earlier ones, whose last round is grown again to verify them."""
    weights, parameters = weights_of_classes(job), boosting_parameters(job)
    grades = _grades(job)
    train = build_dataset(job.train, weights, grades)
    validation = (
        [build_dataset(job.validation, weights, grades, train)]
        if len(job.validation.target)
        else []
    )
    own = _own_metric(job.ranking, train)
    watcher = TreeWatcher(
        job.section.early_stopping_rounds, job.section.max_trees, watching, before, own
    )
    callbacks: list[Callable[[CallbackEnv], None]] = [watcher]
    first: lightgbm.Booster | None = None
    if before.rounds:
        per_round = job.outputs if job.outputs > 2 else 1
        callbacks.append(RedrawnNumbers(before.rounds - 1, per_round, parameters, watching))
        text = booster_of(before).model_to_string(num_iteration=before.trees - 1)
        # Without the parameters that follow the trees: LightGBM would adopt them.
        first = lightgbm.Booster(model_str=text.partition("\nparameters:\n")[0])
    booster = lightgbm.train(
        parameters,
        train,
        num_boost_round=job.section.max_trees,
        valid_sets=validation,
        valid_names=["validation"] if validation else [],
        feval=own,
        init_model=first,
        callbacks=callbacks,
    )
    if before.is_done:
        return before
    return replace(watcher.state, text=booster.model_to_string())


def _own_metric(ranking: RankingJob, train: lightgbm.Dataset) -> Callable[..., Any] | None:
    if not ranking:
        return None
    return ranking_metric(ranking, train)


def weights_of_classes(job: BoostingJob) -> Floats | None:
    """Weight of a row of each class, [C]; None if all are equal."""
    train = job.train
    return weights_by_class(job.section.class_weights, train.target, job.outputs, train.weights)


def _grades(job: BoostingJob) -> Floats:
    """The relevances of training and validation rows, ascending, as `lambdarank` numbers them;
    empty for other losses."""
    if job.section.objective != "lambdarank":
        return np.zeros(0)
    return np.unique(np.concatenate([job.train.target, job.validation.target]))
