"""The family `neighbours` against scikit-learn's nearest neighbours called by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

import trainwright as tw
from library_jobs import CARDINALITIES, job_of_rows
from trainwright.contract.sections.model.neighbours import Neighbours
from trainwright.core.errors import Mistake
from trainwright.model.neighbours.nearest_rows import (
    fit_neighbours,
    neighbour_points,
    read_neighbours,
)
from trainwright.model.neighbours.neighbours_family import NeighboursFamily


def points(inputs: Any) -> np.ndarray:
    one_hot = [
        np.eye(size)[inputs.categories[:, at]] / 2**0.5 for at, size in enumerate(CARDINALITIES)
    ]
    return np.concatenate([inputs.numeric.astype(np.float64), *one_hot], axis=1)


def section_of(**keys: Any) -> Neighbours:
    return Neighbours.model_validate({"kind": "neighbours", **keys})


@pytest.mark.parametrize("weighting", ["uniform", "distance"])
@pytest.mark.parametrize("outputs", [1, 2, 4])
def test_it_answers_what_scikit_learn_answers(outputs: int, weighting: str) -> None:
    job = job_of_rows(outputs, missing=False)
    ours = fit_neighbours(section_of(neighbours=7, weighting=weighting), job)
    kind = KNeighborsClassifier if outputs > 1 else KNeighborsRegressor
    theirs = kind(n_neighbors=7, weights=weighting, algorithm="kd_tree")
    theirs.fit(points(job.train.inputs), job.train.target)
    for inputs in (job.validation.inputs, job.train.inputs):
        asked = points(inputs)
        expected = theirs.predict_proba(asked) if outputs > 1 else theirs.predict(asked)[:, None]
        np.testing.assert_allclose(ours.score(inputs), expected, rtol=1e-9, atol=1e-12)


def test_one_neighbour_is_the_row_itself() -> None:
    job = job_of_rows(1, missing=False)
    ours = fit_neighbours(section_of(neighbours=1), job)
    np.testing.assert_array_equal(ours.score(job.train.inputs)[:, 0], job.train.target)


def test_balanced_weights_multiply_the_votes() -> None:
    job = job_of_rows(2, missing=False)
    usual, balanced = (
        fit_neighbours(section_of(class_weights=weights), job).score(job.validation.inputs)
        for weights in ("none", "balanced")
    )
    votes = usual * len(job.train) / (2 * np.bincount(job.train.target))
    np.testing.assert_allclose(balanced, votes / votes.sum(axis=1, keepdims=True), rtol=1e-12)


@pytest.mark.parametrize(
    ("name", "value"), [("categories", 12), ("categories", -1), ("numeric", np.nan), ("target", 2)]
)
def test_edited_rows_are_refused(name: str, value: float, tmp_path: Path) -> None:
    ours = fit_neighbours(section_of(), job_of_rows(2, rows=200, missing=False))
    array = getattr(ours, name)
    array[(0,) * array.ndim] = value
    ours.write(tmp_path)
    with pytest.raises(ValueError, match="neighbours cannot be right"):
        read_neighbours(tmp_path)


def test_too_few_and_too_many_rows_are_refused() -> None:
    family = NeighboursFamily()
    few = list(family.target_problems(section_of(neighbours=9), np.zeros(8)))
    assert [problem.fix for problem in few] == ["change it to 8"]
    many = list(family.target_problems(section_of(), np.zeros(200_001)))
    assert [problem.fix for problem in many] == ["model: {kind: boosting}"]
    assert not list(family.target_problems(section_of(), np.zeros(15)))


def test_rows_times_columns_beyond_memory_are_refused() -> None:
    family, part = NeighboursFamily(), job_of_rows(2, rows=1200, missing=False).train
    found = list(family.size_problems(section_of(), part, (90_000,)))
    assert [problem.found for problem in found] == ["1,200 training rows x 90,004 encoded columns"]
    assert not list(family.size_problems(section_of(), part, (80_000,)))


def test_a_contract_of_too_many_categories_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainwright.model.neighbours.nearest_rows.MOST_NUMBERS", 300)
    draw = np.random.default_rng(0)
    rows = {"x": draw.normal(size=200), "city": draw.choice(["Oslo", "Rome"], 200)}
    pl.DataFrame({**rows, "y": draw.normal(size=200)}).write_csv(tmp_path / "rows.csv")
    contract = {
        "task": "regression",
        "data": {"path": str(tmp_path / "rows.csv"), "target": "y"},
        "model": {"kind": "neighbours"},
    }
    with pytest.raises(Mistake, match="each value of a category a column"):
        tw.fit(contract, runs=tmp_path / "runs", progress=False)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("size", [10**6, 2**62, 2**63, 10**30])
def test_impossible_cardinalities_are_refused(size: int, tmp_path: Path) -> None:
    fit_neighbours(section_of(), job_of_rows(2, rows=200, missing=False)).write(tmp_path)
    about = json.loads((tmp_path / "neighbours.json").read_text())
    about["cardinalities"][0] = size
    (tmp_path / "neighbours.json").write_text(json.dumps(about))
    with pytest.raises(ValueError, match="the cardinalities of the neighbours"):
        read_neighbours(tmp_path)


def test_rows_are_encoded_in_blocks_of_bounded_size(monkeypatch: pytest.MonkeyPatch) -> None:
    job = job_of_rows(2, missing=False)
    ours = fit_neighbours(section_of(), job)
    whole = ours.score(job.validation.inputs)
    monkeypatch.setattr("trainwright.model.neighbours.nearest_rows._NUMBERS_AT_ONCE", 28 * 7)
    seen = []

    def watched(*given: Any) -> Any:
        points = neighbour_points(*given)
        seen.append(points.size)
        return points

    monkeypatch.setattr("trainwright.model.neighbours.nearest_rows.neighbour_points", watched)
    np.testing.assert_array_equal(ours.score(job.validation.inputs), whole)
    assert max(seen) == 28 * 7
