"""The family `xgboost` against XGBoost called by hand on the same matrix."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xgboost

from library_jobs import job_of_rows
from trainwright.contract.sections.model.trees import XGBoost
from trainwright.model.library_family import LibraryJob
from trainwright.model.xgboost.xgboost_fit import fit_xgboost, read_xgboost
from trainwright.model.xgboost.xgboost_json import check_xgboost_model

# Written out here, not taken from the product: the parity is with what a person would write.
CASES: list[tuple[int, str, str, dict[str, Any]]] = [
    (1, "squared_error", "rmse", {"objective": "reg:squarederror", "eval_metric": "rmse"}),
    (1, "absolute_error", "mae", {"objective": "reg:absoluteerror", "eval_metric": "mae"}),
    (
        *(1, "quantile", "pinball"),
        {"objective": "reg:quantileerror", "quantile_alpha": 0.8, "eval_metric": "quantile"},
    ),
    (2, "log_loss", "roc_auc", {"objective": "binary:logistic", "eval_metric": "logloss"}),
    (
        *(3, "log_loss", "f1_macro"),
        {"objective": "multi:softprob", "num_class": 3, "eval_metric": "mlogloss"},
    ),
]


def by_hand(job: LibraryJob, objective: dict[str, Any], weights: Any = None) -> xgboost.Booster:
    return xgboost.train(
        {
            **objective,
            "tree_method": "hist",
            "learning_rate": 0.1,
            "max_depth": 4,
            "colsample_bytree": 0.8,
            "subsample": 0.8,
            "seed": 7,
            "nthread": 1,
        },
        matrix(job.train, weights),
        num_boost_round=200,
        evals=[(matrix(job.validation, weights), "validation")],
        early_stopping_rounds=15,
        verbose_eval=False,
    )


def matrix(part: Any, weights: Any = None) -> xgboost.DMatrix:
    codes = part.inputs.categories.astype(np.float32)
    return xgboost.DMatrix(
        np.concatenate([part.inputs.numeric, codes], axis=1),
        label=part.target,
        weight=None if weights is None else weights[part.target],
        feature_types=["q"] * 4 + ["c"] * 2,
        enable_categorical=True,
    )


def section_of(objective: str, **keys: Any) -> XGBoost:
    return XGBoost.model_validate(
        {
            "kind": "xgboost",
            "objective": objective,
            "max_trees": 200,
            "early_stopping_rounds": 15,
            "learning_rate": 0.1,
            "max_depth": 4,
            **keys,
        }
    )


@pytest.mark.parametrize(("outputs", "objective", "metric", "settings"), CASES)
def test_it_grows_the_same_trees_as_the_library_alone(
    outputs: int, objective: str, metric: str, settings: dict[str, Any]
) -> None:
    job = job_of_rows(outputs, metric=metric)
    ours, theirs = fit_xgboost(section_of(objective), job), by_hand(job, settings)
    assert ours.record.kept == theirs.best_iteration + 1
    assert 1 < ours.record.kept < 200
    whole = (0, ours.record.kept)
    raw = np.asarray(theirs.predict(matrix(job.validation), iteration_range=whole), np.float64)
    scores = ours.score(job.validation.inputs)
    if outputs == 3:
        raw /= raw.sum(axis=1, keepdims=True)
    np.testing.assert_array_equal(scores[:, 1] if outputs == 2 else scores.squeeze(), raw)


def test_balanced_weights_are_those_of_the_formula() -> None:
    job = job_of_rows(2)
    ours = fit_xgboost(section_of("log_loss", class_weights="balanced"), job)
    counts = np.bincount(job.train.target)
    theirs = by_hand(job, CASES[3][3], len(job.train) / (2 * counts))
    whole = (0, ours.record.kept)
    raw = theirs.predict(matrix(job.validation), iteration_range=whole)
    np.testing.assert_array_equal(ours.score(job.validation.inputs)[:, 1], raw)


def test_without_validation_rows_all_trees_are_kept() -> None:
    job = job_of_rows(1)
    empty = job.validation.inputs.take(np.zeros(0, np.int64))
    part = type(job.validation)
    none = part("validation", job.validation.frame, empty, np.zeros(0), *[np.zeros(0, int)] * 2)
    without = LibraryJob(job.train, none, 1, job.cardinalities, 7, "rmse", 0.5)
    fitted = fit_xgboost(section_of("squared_error", max_trees=9), without)
    assert fitted.record.kept == fitted.booster.num_boosted_rounds() == 9
    assert fitted.record.curve == ()


def edited(model: Any, path: str, value: Any) -> Any:
    changed = json.loads(json.dumps(model))
    *parents, last = path.split(".")
    inner = changed
    for name in parents:
        inner = inner[int(name) if name.isdigit() else name]
    inner[int(last) if last.isdigit() else last] = value
    return changed


TREE = "learner.gradient_booster.model.trees.0."

EDITS = [
    (f"{TREE}left_children.0", 0),
    (f"{TREE}left_children.0", 10**6),
    (f"{TREE}right_children.0", -1),
    (f"{TREE}split_indices.0", 99),
    (f"{TREE}split_indices.0", 0.5),
    (f"{TREE}split_conditions", []),
    (f"{TREE}default_left.0", 2),
    (f"{TREE}parents.1", 3),
    (f"{TREE}categories_sizes.0", 10**9),
    (f"{TREE}categories_segments.0", -4),
    (f"{TREE}categories.0", 2**30),
    (f"{TREE}categories_nodes.0", 1000),
    (f"{TREE}tree_param.num_nodes", "4000000000"),
    (f"{TREE}tree_param.num_feature", "7"),
    ("learner.gradient_booster.model.tree_info.0", 5),
    ("learner.gradient_booster.model.iteration_indptr.1", 400),
    ("learner.gradient_booster.model.gbtree_model_param.num_trees", "4"),
    ("learner.gradient_booster.name", "dart"),
    ("learner.learner_model_param.num_class", "8"),
    ("learner.objective.name", "rank:ndcg"),
]


@pytest.mark.parametrize(("path", "value"), EDITS)
def test_an_edited_model_is_refused_before_the_library_reads_it(path: str, value: Any) -> None:
    model = json.loads(bytes(whole_model().booster.save_raw("json")))
    check_xgboost_model(model, 2)
    with pytest.raises((ValueError, TypeError, KeyError)):
        check_xgboost_model(edited(model, path, value), 2)


def test_sizes_whose_sum_wraps_are_refused() -> None:
    """Their sum in int64 is right, and so are the starts that follow from it."""
    model = json.loads(bytes(whole_model().booster.save_raw("json")))
    tree = model["learner"]["gradient_booster"]["model"]["trees"][0]
    splits = len(tree["categories_sizes"])
    assert splits >= 3
    last = len(tree["categories"]) - (splits - 3) + 2
    sizes = np.array([2**63 - 1, 2**63 - 1, last, *[1] * (splits - 3)], np.int64)
    tree["categories_sizes"] = sizes.tolist()
    tree["categories_segments"] = (np.cumsum(sizes) - sizes).tolist()
    with pytest.raises(ValueError, match="categories_sizes"):
        check_xgboost_model(model, 2)


def test_classes_without_trees_take_no_memory() -> None:
    """An arange of so many classes would take 8 GB."""
    model = json.loads(bytes(whole_model().booster.save_raw("json")))
    classes = 999_999_999
    model["learner"]["learner_model_param"]["num_class"] = str(classes)
    model["learner"]["objective"]["name"] = "multi:softprob"
    tracemalloc.start()
    with pytest.raises(ValueError, match="num_trees"):
        check_xgboost_model(model, classes)
    assert tracemalloc.get_traced_memory()[1] < 2**28
    tracemalloc.stop()


def whole_model() -> Any:
    return fit_xgboost(section_of("log_loss", max_trees=3), job_of_rows(2, rows=300))


def test_the_bundle_holds_the_trees_and_the_curve(tmp_path: Path) -> None:
    fitted = whole_model()
    fitted.write(tmp_path)
    again = read_xgboost(tmp_path)
    assert again.record == fitted.record
    assert [point.trees for point in again.record.curve] == [1]
