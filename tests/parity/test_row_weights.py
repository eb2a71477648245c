"""Weights of rows against each library called by hand with them, and against repeated rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import catboost
import lightgbm
import numpy as np
import polars as pl
import pytest
import xgboost
from sklearn import ensemble
from sklearn.linear_model import LogisticRegression, Ridge

from faults.tiers import in_test
from library_jobs import job_of_rows
from trainwright.contract.sections.model.linear import Linear
from trainwright.contract.sections.model.traits import ModelSection
from trainwright.contract.sections.model.trees import Boosting, CatBoost, Forest, XGBoost
from trainwright.data.base.inputs import Part, TableInputs
from trainwright.model.families import library_family
from trainwright.model.library_family import LibraryJob

SECTIONS: Mapping[str, type[ModelSection]] = {
    "boosting": Boosting,
    "xgboost": XGBoost,
    "catboost": CatBoost,
    "forest": Forest,
    "linear": Linear,
}
ROUNDS = 25
"""So few that validation rows end no growth."""
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "boosting": {"max_trees": ROUNDS, "early_stopping_rounds": ROUNDS},
    "xgboost": {"max_trees": ROUNDS, "early_stopping_rounds": ROUNDS},
    "catboost": {"max_trees": ROUNDS, "early_stopping_rounds": ROUNDS},
    "forest": {"trees": ROUNDS, "feature_fraction": 0.5},
    "linear": {"penalty": 1.0},
}


def weighed(job: LibraryJob, *, whole: bool = False) -> LibraryJob:
    """The same job with weights of its training rows, some of them 0."""
    draw = np.random.default_rng(5)
    rows = len(job.train)
    weights = draw.integers(0, 4, rows).astype(float) if whole else draw.gamma(0.5, size=rows)
    return replace(job, train=replace(job.train, weights=weights))


def fitted(kind: str, job: LibraryJob, **keys: Any) -> np.ndarray:
    """Scores of the validation rows by the product."""
    objective = {"objective": "log_loss" if job.outputs > 1 else "squared_error"}
    own = objective if kind in ("boosting", "xgboost", "catboost") else {}
    section = SECTIONS[kind].model_validate({"kind": kind, **SETTINGS[kind], **own, **keys})
    scores = library_family(section).fit(section, job).scorer.score(job.validation.inputs)
    return scores[:, 1] if job.outputs == 2 else scores[:, 0]


def design(part: Part) -> np.ndarray:
    inputs = part.inputs.columns()
    return np.concatenate([inputs.numeric, inputs.categories.astype(np.float32)], axis=1)


def by_lightgbm(job: LibraryJob, weights: np.ndarray) -> np.ndarray:
    objective = {1: "regression_l2", 2: "binary"}[job.outputs]
    settings = {
        "objective": objective,
        "learning_rate": 0.05,
        "feature_fraction": 0.8,
        "bagging_fraction": 0.8,
        "bagging_freq": 1,
        "lambda_l2": 1.0,
        "seed": 7,
        "data_random_seed": 7,
        "deterministic": True,
        "force_row_wise": True,
        "verbosity": -1,
    }
    rows = lightgbm.Dataset(
        design(job.train), job.train.target, weight=weights, categorical_feature=[4, 5]
    )
    trees = lightgbm.train(settings, rows, num_boost_round=ROUNDS)
    return np.asarray(trees.predict(design(job.validation)))


def by_xgboost(job: LibraryJob, weights: np.ndarray) -> np.ndarray:
    def matrix(part: Part, weight: np.ndarray | None = None) -> xgboost.DMatrix:
        return xgboost.DMatrix(
            design(part),
            label=part.target,
            weight=weight,
            feature_types=["q"] * 4 + ["c"] * 2,
            enable_categorical=True,
        )

    settings = {
        "objective": {1: "reg:squarederror", 2: "binary:logistic"}[job.outputs],
        "tree_method": "hist",
        "learning_rate": 0.05,
        "max_depth": 6,
        "colsample_bytree": 0.8,
        "subsample": 0.8,
        "seed": 7,
        "nthread": 1,
    }
    trees = xgboost.train(settings, matrix(job.train, weights), ROUNDS)
    return np.asarray(trees.predict(matrix(job.validation)), np.float64)


def by_catboost(job: LibraryJob, weights: np.ndarray) -> np.ndarray:
    def pool(part: Part, weight: np.ndarray | None = None) -> catboost.Pool:
        rows = [[*row[:4], *(str(int(code)) for code in row[4:])] for row in design(part).tolist()]
        return catboost.Pool(rows, label=part.target, cat_features=[4, 5], weight=weight)

    trees = catboost.CatBoost(
        {
            "loss_function": {1: "RMSE", 2: "Logloss"}[job.outputs],
            "iterations": ROUNDS,
            "learning_rate": 0.05,
            "depth": 6,
            "l2_leaf_reg": 3.0,
            "random_seed": 7,
            "thread_count": 1,
            "allow_writing_files": False,
            "logging_level": "Silent",
        }
    )
    trees.fit(pool(job.train, weights))
    kind = "RawFormulaVal" if job.outputs == 1 else "Probability"
    found = np.asarray(trees.predict(pool(job.validation), prediction_type=kind))
    return found if job.outputs == 1 else found[:, 1]


def by_forest(job: LibraryJob, weights: np.ndarray) -> np.ndarray:
    kind = ensemble.RandomForestRegressor if job.outputs == 1 else ensemble.RandomForestClassifier
    model = kind(n_estimators=ROUNDS, max_features=0.5, random_state=7)
    model.fit(design(job.train), job.train.target, sample_weight=weights)
    asked = design(job.validation)
    return model.predict(asked) if job.outputs == 1 else model.predict_proba(asked)[:, 1]


def by_linear(job: LibraryJob, weights: np.ndarray) -> np.ndarray:
    def dense(part: Part) -> np.ndarray:
        inputs = part.inputs.columns()
        codes = [np.eye(12)[inputs.categories[:, at]] for at in (0, 1)]
        return np.concatenate([inputs.numeric.astype(float), *codes], axis=1)

    if job.outputs == 1:
        ridge = Ridge(alpha=1.0).fit(dense(job.train), job.train.target, weights)
        return ridge.predict(dense(job.validation))
    model = LogisticRegression(max_iter=1000)
    model.fit(dense(job.train), job.train.target, weights)
    return model.predict_proba(dense(job.validation))[:, 1]


BY_HAND: Mapping[str, Callable[[LibraryJob, np.ndarray], np.ndarray]] = {
    "boosting": by_lightgbm,
    "xgboost": by_xgboost,
    "catboost": by_catboost,
    "forest": by_forest,
    "linear": by_linear,
}


@pytest.mark.parametrize("weights_of_classes", ["none", "balanced"])
@pytest.mark.parametrize("outputs", in_test(2, [1, 2], start=1))
@pytest.mark.parametrize("kind", BY_HAND)
def test_it_learns_what_the_library_learns_with_these_weights(
    kind: str, outputs: int, weights_of_classes: str
) -> None:
    """Balanced classes count alike by the sums of their weights."""
    if outputs == 1 and weights_of_classes == "balanced":
        return
    job = weighed(job_of_rows(outputs, rows=500, missing=kind != "linear"))
    ours = fitted(kind, job, class_weights=weights_of_classes)
    weights, target = job.train.weights, job.train.target
    if weights_of_classes == "balanced":
        sums = np.bincount(target, weights)
        weights = weights * (weights.sum() / (2 * sums))[target]
    theirs = BY_HAND[kind](job, weights)
    np.testing.assert_allclose(ours, theirs, atol=2e-3 if kind == "linear" else 1e-12)
    alike = replace(job, train=replace(job.train, weights=np.empty(0)))
    assert np.abs(fitted(kind, alike, class_weights=weights_of_classes) - ours).max() > 0.01


EXACT: Mapping[str, Mapping[str, Any]] = {
    "linear": {},
    "boosting": {"min_data_in_leaf": 1, "feature_fraction": 1, "bagging_fraction": 1},
    "xgboost": {"feature_fraction": 1, "bagging_fraction": 1},
}
"""Families that draw no rows, where no setting counts rows whatever their weight."""


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("kind", EXACT)
def test_a_whole_number_counts_like_repeated_rows(kind: str, outputs: int) -> None:
    job = weighed(_few_values(job_of_rows(outputs, rows=500, missing=False)), whole=True)
    times = np.repeat(np.arange(len(job.train)), job.train.weights.astype(int))
    repeated = replace(job, train=_taken(job.train, times))
    ours = fitted(kind, job, **EXACT[kind])
    np.testing.assert_allclose(ours, fitted(kind, repeated, **EXACT[kind]), atol=2e-4)


def test_whole_weights_of_counts_are_repeated_rows_too() -> None:
    job = weighed(_few_values(job_of_rows(1, rows=500, missing=False)), whole=True)
    counts = np.floor(np.abs(job.train.target) * 3)
    job = replace(job, is_count=True, train=replace(job.train, target=counts))
    times = np.repeat(np.arange(len(job.train)), job.train.weights.astype(int))
    repeated = replace(job, train=_taken(job.train, times))
    ours = fitted("linear", job)
    np.testing.assert_allclose(ours, fitted("linear", repeated), rtol=1e-4)
    alike = replace(job, train=replace(job.train, weights=np.empty(0)))
    assert np.abs(fitted("linear", alike) - ours).max() > 0.01


def _few_values(job: LibraryJob) -> LibraryJob:
    """Numbers of few values and no categories, so that histograms have the same bins."""

    def rounded(part: Part) -> Part:
        numeric = np.clip(np.round(part.inputs.columns().numeric), -1, 1)
        codes = np.zeros((len(part), 0), np.int64)
        return replace(part, inputs=TableInputs(numeric.astype(np.float32), codes))

    return replace(
        job, train=rounded(job.train), validation=rounded(job.validation), cardinalities=()
    )


def _taken(part: Part, rows: np.ndarray) -> Part:
    places = np.arange(len(rows))
    return Part("train", pl.DataFrame(), part.inputs.take(rows), part.target[rows], places, places)
