"""The family `forest` against scikit-learn's forests called by hand: equal predictions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn import ensemble

from command import command
from faults.tiers import in_test
from library_jobs import job_of_rows
from trainwright.contract.sections.model.trees import Forest
from trainwright.data.base.inputs import TableInputs
from trainwright.model.family import LearningTask
from trainwright.model.forest.forest_family import ForestFamily
from trainwright.model.forest.forest_fit import ForestScorer, fit_forest, read_forest

KINDS: dict[tuple[str, bool], Any] = {
    ("random_forest", True): ensemble.RandomForestClassifier,
    ("random_forest", False): ensemble.RandomForestRegressor,
    ("extra_trees", True): ensemble.ExtraTreesClassifier,
    ("extra_trees", False): ensemble.ExtraTreesRegressor,
}


def matrix(inputs: Any) -> np.ndarray:
    return np.concatenate([inputs.numeric, inputs.categories.astype(np.float32)], axis=1)


@pytest.mark.parametrize("outputs", in_test(2, [1, 2, 4]))
@pytest.mark.parametrize("method", ["random_forest", "extra_trees"])
@pytest.mark.parametrize("missing", [True, False])
def test_it_predicts_what_scikit_learn_predicts(method: str, outputs: int, missing: bool) -> None:
    job = job_of_rows(outputs, missing=missing)
    ours = fit_forest(section_of(method, outputs), job)
    theirs = KINDS[method, outputs > 1](n_estimators=30, random_state=7, min_samples_leaf=2)
    theirs.fit(matrix(job.train.inputs), job.train.target)
    asked = matrix(job.validation.inputs)
    expected = theirs.predict_proba(asked) if outputs > 1 else theirs.predict(asked)[:, None]
    np.testing.assert_array_equal(ours.score(job.validation.inputs), expected)


def section_of(method: str, outputs: int = 2, **keys: Any) -> Forest:
    """As a plan resolves it."""
    given = {"kind": "forest", "method": method, "trees": 30, "min_data_in_leaf": 2, **keys}
    section = Forest.model_validate(given)
    if section.feature_fraction != "auto":
        return section
    task = LearningTask("classification" if outputs > 1 else "regression", "any", outputs, False)
    value, _ = ForestFamily().choices(section, task)["feature_fraction"]
    return section.model_copy(update={"feature_fraction": value})


@pytest.mark.extended
@pytest.mark.parametrize(("task", "value"), [("classification", "sqrt"), ("regression", 1.0)])
def test_the_plan_decides_the_share_of_columns(task: str, value: Any, tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    x, label = draw.normal(size=200), draw.normal(size=200)
    target = np.where(label > 0, "b", "a") if task == "classification" else label
    pl.DataFrame({"x": x, "y": target}).write_csv(tmp_path / "rows.csv")
    data = {"path": str(tmp_path / "rows.csv"), "target": "y"}
    (tmp_path / "c.yaml").write_text(
        json.dumps({"task": task, "data": data, "model": {"kind": "forest"}})
    )
    ran = command("check", str(tmp_path / "c.yaml"), "--json")
    made = {one["path"]: one["value"] for one in json.loads(ran.out)["plan"]["choices"]}
    assert made["model.feature_fraction"] == value


def test_settings_reach_scikit_learn() -> None:
    job = job_of_rows(3)
    keys = {"max_depth": 5, "feature_fraction": 0.5, "class_weights": "balanced"}
    ours = fit_forest(section_of("random_forest", **keys), job)
    theirs = ensemble.RandomForestClassifier(
        n_estimators=30,
        random_state=7,
        min_samples_leaf=2,
        max_depth=5,
        max_features=0.5,
        class_weight="balanced",
    ).fit(matrix(job.train.inputs), job.train.target)
    expected = theirs.predict_proba(matrix(job.validation.inputs))
    np.testing.assert_array_equal(ours.score(job.validation.inputs), expected)


def test_a_class_that_no_training_row_has_gets_no_probability() -> None:
    job = job_of_rows(2)
    codes = np.where(job.train.target == 1, 3, 1)
    wide = type(job)(
        type(job.train)("train", *_fields(job.train), codes, job.train.rows, job.train.units),
        job.validation,
        *(4, job.cardinalities, 7, "loss", 0.5),
    )
    scores = fit_forest(section_of("random_forest"), wide).score(job.validation.inputs)
    assert scores.shape[1] == 4
    assert not scores[:, [0, 2]].any()


def _fields(part: Any) -> tuple[Any, Any]:
    return part.frame, part.inputs


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [
        ("left", 0, 0),
        ("left", 0, 10**6),
        ("right", 0, -5),
        ("feature", 0, 99),
        ("feature", 0, -3),
        ("threshold", 0, np.nan),
        ("sizes", 0, 10**12),
        ("values", (0, 0), np.inf),
    ],
)
def test_an_edited_forest_is_refused(name: str, place: Any, value: Any, tmp_path: Path) -> None:
    forest = fit_forest(section_of("random_forest"), job_of_rows(2, rows=200))
    getattr(forest, name)[place] = value
    forest.write(tmp_path)
    with pytest.raises(ValueError, match="forest cannot be right"):
        read_forest(tmp_path)


def test_sizes_whose_sum_wraps_are_refused(tmp_path: Path) -> None:
    forest = fit_forest(section_of("random_forest"), job_of_rows(2, rows=200))
    trees, nodes = len(forest.sizes), len(forest.feature)
    forest.sizes[:] = [2**63 - 1, 2**63 - 1, nodes - (trees - 3) + 2, *[1] * (trees - 3)]
    assert forest.sizes.sum() == nodes
    forest.write(tmp_path)
    with pytest.raises(ValueError, match="the sizes of the forest"):
        read_forest(tmp_path)


def test_arrays_of_another_type_or_size_are_refused(tmp_path: Path) -> None:
    forest = fit_forest(section_of("random_forest"), job_of_rows(2, rows=200))
    forest.write(tmp_path)
    whole = dict(np.load(tmp_path / "forest.npz", allow_pickle=False))
    for changed in (
        {**whole, "left": whole["left"].astype(np.int64)},
        {**whole, "values": whole["values"][:, 0]},
        {**whole, "more": np.zeros(1)},
    ):
        np.savez(tmp_path / "forest.npz", allow_pickle=False, **changed)
        with pytest.raises(ValueError):
            read_forest(tmp_path)
    np.savez_compressed(tmp_path / "forest.npz", allow_pickle=False, **whole)
    with pytest.raises(ValueError, match="not the array that was written"):
        read_forest(tmp_path)


def test_a_number_missing_in_no_training_row_goes_with_most_of_them() -> None:
    """As in scikit-learn, whose forests refuse such rows but whose trees do not."""
    job = job_of_rows(1, rows=300, missing=False)
    forest = fit_forest(section_of("random_forest", 1), job)
    empty = TableInputs(np.full((3, 4), np.nan, np.float32), np.zeros((3, 2), np.int64))
    scores = forest.score(empty)
    assert isinstance(forest, ForestScorer)
    assert bool(np.isfinite(scores).all())
    assert len(np.unique(scores)) == 1
