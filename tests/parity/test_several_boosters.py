"""XGBoost and CatBoost of several targets against the libraries called by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from trainwright.contract.sections.model.trees import CatBoost, XGBoost
from trainwright.core.files import read_json, write_json
from trainwright.data.base.inputs import Floats, Part, TableInputs
from trainwright.model.library_family import LibraryJob, tree_matrix

ROWS, CODES = 400, 12


def part(seed: int, *, labels: bool, weighted: bool = False) -> Part:
    """Numbers with gaps and a category; two targets in very different units."""
    draw = np.random.default_rng(seed)
    numeric = draw.normal(size=(ROWS, 3)).astype(np.float32)
    codes = draw.integers(0, CODES, (ROWS, 1))
    level = np.sin(np.arange(CODES) * 2.4)[codes[:, 0]]
    values = np.stack([numeric[:, 0] + level, 1000 * (numeric[:, 1] ** 2 - level) + 5000], axis=1)
    values += draw.normal(size=values.shape) * (0.3, 300)
    numeric[draw.random(ROWS) < 0.1, 2] = np.nan
    target = (values > np.median(values, axis=0)).astype(np.int64) if labels else values
    places, weights = np.arange(ROWS), draw.uniform(0.5, 2, ROWS) if weighted else np.empty(0)
    inputs = TableInputs(numeric, codes)
    return Part("train", pl.DataFrame(), inputs, target, places, places, weights)


def job(*, labels: bool, metric: str = "", weighted: bool = False) -> LibraryJob:
    return LibraryJob(
        train=part(1, labels=labels, weighted=weighted),
        validation=part(2, labels=labels),
        outputs=2,
        cardinalities=(CODES,),
        seed=7,
        metric=metric or ("average_precision" if labels else "r2"),
        quantile=0.5,
    )


def standardised(one: LibraryJob, part: Part) -> tuple[Floats, Floats, Floats]:
    """Targets as they are learned, with mean and deviation of the training rows."""
    values = one.train.target
    if one.are_labels:
        return part.target.astype(float), np.zeros(2), np.ones(2)
    mean, deviation = values.mean(axis=0), values.std(axis=0)
    return (part.target - mean) / deviation, mean, deviation


@pytest.mark.parametrize(
    ("labels", "objective", "metric", "theirs"),
    [
        (False, "squared_error", "r2", ("reg:squarederror", "rmse")),
        (False, "absolute_error", "mae", ("reg:absoluteerror", "mae")),
        (True, "log_loss", "f1_macro", ("binary:logistic", "logloss")),
    ],
)
@pytest.mark.parametrize("weighted", [False, True])
def test_xgboost_grows_the_trees_that_it_grows_by_hand(
    labels: bool,
    objective: Any,
    metric: str,
    theirs: tuple[str, str],
    weighted: bool,
    tmp_path: Path,
) -> None:
    xgboost = pytest.importorskip("xgboost")
    from trainwright.model.xgboost.xgboost_fit import fit_xgboost, read_xgboost

    one = job(labels=labels, metric=metric, weighted=weighted)
    section = XGBoost(kind="xgboost", objective=objective, max_trees=60, early_stopping_rounds=5)
    ours = fit_xgboost(section, one)

    def rows(part: Part) -> Any:
        weights = part.weights if len(part.weights) else None
        kinds = ["q", "q", "q", "c"]
        matrix, label = tree_matrix(part.inputs), standardised(one, part)[0]
        return xgboost.DMatrix(
            matrix, label, weight=weights, feature_types=kinds, enable_categorical=True
        )

    given = {
        "objective": theirs[0],
        "eval_metric": theirs[1],
        "tree_method": "hist",
        "learning_rate": section.learning_rate,
        "max_depth": section.max_depth,
        "min_child_weight": section.min_child_weight,
        "colsample_bytree": section.feature_fraction,
        "subsample": section.bagging_fraction,
        "reg_lambda": section.lambda_l2,
        "seed": 7,
    }
    by_hand = xgboost.train(
        given,
        rows(one.train),
        60,
        evals=[(rows(one.validation), "validation")],
        early_stopping_rounds=5,
        verbose_eval=False,
    )
    best = by_hand.best_iteration + 1
    assert ours.record.kept == best
    _, mean, deviation = standardised(one, one.train)
    expected = by_hand.predict(rows(one.validation), iteration_range=(0, best))
    found = ours.score(one.validation.inputs)
    np.testing.assert_array_equal(found, np.asarray(expected, np.float64) * deviation + mean)
    ours.write(tmp_path)
    np.testing.assert_array_equal(read_xgboost(tmp_path).score(one.validation.inputs), found)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("labels", [False, True])
def test_catboost_grows_the_trees_that_it_grows_by_hand(
    labels: bool, weighted: bool, tmp_path: Path
) -> None:
    catboost = pytest.importorskip("catboost")
    from trainwright.model.catboost.catboost_fit import fit_catboost, read_catboost

    one = job(labels=labels, weighted=weighted)
    objective: Any = "log_loss" if labels else "squared_error"
    section = CatBoost(kind="catboost", objective=objective, max_trees=40, early_stopping_rounds=5)
    ours = fit_catboost(section, one)

    def pool(part: Part) -> Any:
        columns = part.inputs.dense()
        features = catboost.FeaturesData(
            num_feature_data=columns.numeric,
            cat_feature_data=columns.categories.astype("S20").astype(object),
        )
        weights = part.weights if len(part.weights) else None
        label = part.target if labels else standardised(one, part)[0]
        return catboost.Pool(features, label=label, weight=weights)

    loss = "MultiLogloss" if labels else "MultiRMSE"
    by_hand = catboost.CatBoost(
        {
            "loss_function": loss,
            "eval_metric": loss,
            "iterations": 40,
            "od_type": "Iter",
            "od_wait": 5,
            "learning_rate": section.learning_rate,
            "depth": section.depth,
            "l2_leaf_reg": section.lambda_l2,
            "random_seed": 7,
            "one_hot_max_size": 255,
            "simple_ctr": ["Counter"],
            "combinations_ctr": ["Counter"],
            "allow_writing_files": False,
            "logging_level": "Silent",
        }
    )
    by_hand.fit(pool(one.train), eval_set=pool(one.validation), use_best_model=True)
    assert ours.record.kept == by_hand.tree_count_
    expected = by_hand.predict(pool(one.validation), prediction_type="RawFormulaVal")
    _, mean, deviation = standardised(one, one.train)
    if labels:
        expected = 1 / (1 + np.exp(-expected))
    found = ours.score(one.validation.inputs)
    np.testing.assert_allclose(found, expected * deviation + mean, rtol=1e-9, atol=1e-12)
    ours.write(tmp_path)
    np.testing.assert_array_equal(read_catboost(tmp_path).score(one.validation.inputs), found)


def test_contributions_add_up_to_each_prediction_in_its_unit() -> None:
    pytest.importorskip("xgboost")
    from trainwright.model.xgboost.xgboost_fit import fit_xgboost

    one = job(labels=False)
    ours = fit_xgboost(XGBoost(kind="xgboost", objective="squared_error", max_trees=10), one)
    inputs = one.validation.inputs
    added = ours.contributions(inputs).sum(axis=2)
    np.testing.assert_allclose(added, ours.score(inputs), rtol=1e-4, atol=1e-3)


def test_units_do_not_decide_the_trees() -> None:
    """The same targets in other units: the same trees, to the rounding of the units."""
    pytest.importorskip("catboost")
    from trainwright.model.catboost.catboost_fit import fit_catboost

    one = job(labels=False)
    units = np.array([512.0, 1 / 512])
    parts = {
        name: replace(part, target=part.target * units)
        for name, part in (("train", one.train), ("validation", one.validation))
    }
    section = CatBoost(kind="catboost", objective="squared_error", max_trees=10)
    first, other = fit_catboost(section, one), fit_catboost(section, replace(one, **parts))
    inputs = one.validation.inputs
    np.testing.assert_allclose(other.score(inputs), first.score(inputs) * units, rtol=1e-9)


@pytest.mark.parametrize(
    "change", [{"targets": 3}, {"targets": 1}, {"scales": [1.0, 0.0]}, {"centres": [1.0]}]
)
def test_a_bundle_whose_targets_contradict_it_is_not_read(
    change: dict[str, Any], tmp_path: Path
) -> None:
    pytest.importorskip("xgboost")
    from trainwright.model.xgboost.xgboost_fit import fit_xgboost, read_xgboost

    section = XGBoost(kind="xgboost", objective="squared_error", max_trees=3)
    fit_xgboost(section, job(labels=False)).write(tmp_path)
    about = read_json(tmp_path / "boosting.json")
    write_json(tmp_path / "boosting.json", {**about, **change})
    with pytest.raises(ValueError, match=r"targets|num_target"):
        read_xgboost(tmp_path)


def test_categories_of_many_values_survive_the_file_of_catboost(tmp_path: Path) -> None:
    """More values than are split one by one, two columns of them, and trees that ask for both."""
    pytest.importorskip("catboost")
    from trainwright.model.catboost.catboost_fit import fit_catboost, read_catboost

    draw = np.random.default_rng(3)
    one, places = job(labels=True), np.arange(2000)
    codes = np.minimum(draw.geometric(0.004, (2000, 2)), 900)
    often = np.bincount(codes[:, 0])[codes[:, 0]]
    assert len(np.unique(codes[:, 0])) > 255
    inputs = TableInputs(draw.normal(size=(2000, 2)).astype(np.float32), codes)
    target = np.stack([often > 3, codes[:, 1] % 2], axis=1).astype(np.int64)
    whole = Part("train", pl.DataFrame(), inputs, target, places, places)
    one = replace(one, train=whole, validation=whole, cardinalities=(901, 901))
    ours = fit_catboost(CatBoost(kind="catboost", objective="log_loss", max_trees=40), one)
    assert ours.model["features_info"]["ctrs"]
    ours.write(tmp_path)
    np.testing.assert_array_equal(read_catboost(tmp_path).score(inputs), ours.score(inputs))
