from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.sparse import csr_matrix

from command import command, inside
from trainwright.contract.sections.model.trees import Boosting
from trainwright.core.files import read_json
from trainwright.data.base.inputs import TableInputs, sparse_of
from trainwright.model.boosting.lightgbm_dataset import BoostingRows, matrix_of
from trainwright.model.boosting.lightgbm_fit import (
    BoostingJob,
    boosting_parameters,
    fit_boosting,
    watched_metric,
)
from trainwright.model.tree_growth import Watching


def _rows(count: int = 300, seed: int = 0) -> BoostingRows:
    generator = np.random.default_rng(seed)
    numeric = generator.normal(size=(count, 2)).astype(np.float32)
    categories = generator.integers(0, 5, (count, 1))
    return BoostingRows(TableInputs(numeric, categories), (numeric[:, 0] > 0).astype(np.int64))


EMPTY = BoostingRows(_rows().inputs.take(np.zeros(0, np.int64)), np.zeros(0, np.int64))


def _job(validation: BoostingRows, **section: object) -> BoostingJob:
    chosen = Boosting.model_validate({"kind": "boosting", "max_trees": 25, **section})
    return BoostingJob(chosen, _rows(), validation, outputs=2, seed=0, threads=1)


def test_the_matrix_is_numbers_then_codes() -> None:
    inputs = TableInputs(np.array([[1.5, np.nan]], np.float32), np.array([[7]]))
    matrix = matrix_of(inputs)
    assert matrix.dtype == np.float32
    np.testing.assert_array_equal(matrix, [[1.5, np.nan, 7]])


def test_it_tells_each_tree_and_stops_when_asked() -> None:
    told: list[int] = []
    watching = Watching(lambda trees, _: told.append(trees), lambda: len(told) >= 8)
    boosted = fit_boosting(_job(_rows(seed=1)), watching)
    assert told == list(range(1, 9))
    assert boosted.trees <= 8
    assert boosted.curve[-1].trees == 8


def test_files_are_the_same_bytes_for_any_number_of_threads(tmp_path: Path) -> None:
    rows = _rows(5000)
    written = []
    for threads in (1, 2, 5):
        job = replace(_job(_rows(3000, seed=1)), train=rows, threads=threads)
        folder = tmp_path / str(threads)
        folder.mkdir()
        fit_boosting(job).write(folder)
        written.append({file.name: file.read_bytes() for file in folder.iterdir()})
    assert written[0] == written[1] == written[2]


def test_without_validation_rows_all_trees_are_grown() -> None:
    boosted = fit_boosting(_job(EMPTY))
    assert boosted.trees == 25
    assert boosted.curve == ()


def test_the_curve_has_both_losses_and_they_fall() -> None:
    curve = fit_boosting(_job(_rows(seed=1))).curve
    assert [point.trees for point in curve] == [1, 11, 21, 25]
    assert curve[-1].train < curve[0].train
    assert curve[-1].validation < curve[0].validation


def test_the_same_seed_grows_the_same_trees() -> None:
    first = fit_boosting(_job(_rows(seed=1), bagging_fraction=0.5))
    again = fit_boosting(_job(_rows(seed=1), bagging_fraction=0.5))
    assert first.booster.model_to_string() == again.booster.model_to_string()


def test_the_loss_of_classes_decides_the_number_of_trees_whatever_the_metric() -> None:
    job = replace(_job(_rows(seed=1), early_stopping_rounds=3), watch="roc_auc")
    values: list[float] = []
    boosted = fit_boosting(job, Watching(lambda _, value: values.append(value)))
    assert boosted.metric == "binary_logloss"
    assert boosted.trees == int(np.argmin(values)) + 1


def test_balanced_class_weights_find_the_rare_class() -> None:
    generator = np.random.default_rng(0)
    numeric = generator.normal(size=(2000, 1)).astype(np.float32)
    target = (numeric[:, 0] + 2 * generator.normal(size=2000) > 4).astype(np.int64)
    rows = BoostingRows(TableInputs(numeric, np.zeros((2000, 0), np.int64)), target)
    found = {}
    for weights in ("none", "balanced"):
        section = Boosting(kind="boosting", max_trees=25, class_weights=weights)
        boosted = fit_boosting(BoostingJob(section, rows, rows, outputs=2, seed=0, threads=1))
        scores = boosted.score(rows.inputs)[:, 1]
        found[weights] = (
            scores.mean(),
            (scores[target == 0].mean() + scores[target == 1].mean()) / 2,
        )
    assert found["none"][0] == pytest.approx(target.mean(), abs=0.01)
    assert found["balanced"][1] == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize(
    ("objective", "quantile", "expected"),
    [
        ("squared_error", 0.5, np.mean),
        ("poisson", 0.5, np.mean),
        ("absolute_error", 0.5, np.median),
        ("quantile", 0.9, lambda values: np.quantile(values, 0.9)),
    ],
)
def test_an_objective_of_numbers_predicts_what_makes_its_loss_small(
    objective: str, quantile: float, expected: Callable[[np.ndarray], float]
) -> None:
    values = np.random.default_rng(0).exponential(size=4000)
    nothing = TableInputs(np.zeros((4000, 1), np.float32), np.zeros((4000, 0), np.int64))
    section = Boosting.model_validate({"kind": "boosting", "objective": objective})
    rows = BoostingRows(nothing, values)
    job = BoostingJob(section, rows, rows, outputs=1, seed=0, threads=1, quantile=quantile)
    assert fit_boosting(job).score(nothing)[0, 0] == pytest.approx(expected(values), rel=0.02)


def test_trees_of_sparse_terms_are_those_of_the_same_columns() -> None:
    rows = _rows(600)
    terms = csr_matrix(np.where(rows.inputs.numeric > 1, rows.inputs.numeric, 0))
    sparse = replace(rows, inputs=replace(rows.inputs, terms=sparse_of(terms)))
    dense = replace(rows, inputs=sparse.inputs.dense())
    job = _job(EMPTY)
    grown = [fit_boosting(replace(job, train=each)) for each in (sparse, dense)]
    scores = [
        boosted.score(each.inputs) for boosted, each in zip(grown, (sparse, dense), strict=True)
    ]
    np.testing.assert_allclose(*scores, rtol=1e-12)


@pytest.mark.parametrize(
    ("watch", "outputs", "expected"),
    [
        ("loss", 1, "l2"),
        ("mae", 1, "l1"),
        ("loss", 2, "binary_logloss"),
        ("f1", 2, "binary_logloss"),
        ("pinball", 1, "quantile"),
        ("roc_auc", 2, "binary_logloss"),
        ("roc_auc", 3, "multi_logloss"),
    ],
)
def test_what_the_library_cannot_watch_is_watched_by_the_loss(
    watch: str, outputs: int, expected: str
) -> None:
    assert watched_metric(replace(_job(EMPTY), outputs=outputs, watch=watch)) == expected


MORE_THAN_ARE_SAMPLED = 250_000
"""LightGBM takes its bins from 200,000 rows."""


@pytest.mark.parametrize("count", [300, MORE_THAN_ARE_SAMPLED])
def test_the_trees_of_rows_in_files_are_those_of_rows_in_memory(count: int) -> None:
    train, validation = _rows(count), _rows(500, seed=1)
    section = Boosting(kind="boosting", max_trees=2)

    def grown(in_files: bool) -> tuple[str, bytes]:
        lying = [
            replace(rows, inputs=replace(rows.inputs, in_files=in_files))
            for rows in (train, validation)
        ]
        boosted = fit_boosting(BoostingJob(section, *lying, outputs=2, seed=3, threads=1))
        return boosted.booster.model_to_string(), boosted.score(train.inputs).tobytes()

    assert grown(in_files=True) == grown(in_files=False)


@pytest.mark.parametrize(
    ("leaf", "group", "smooth"), [("auto", 100, 10), (20, 100, 10), (5, 25, 2.5), (90, 100, 10)]
)
def test_categories_need_fewer_rows_where_leaves_do(leaf: Any, group: int, smooth: float) -> None:
    found = boosting_parameters(_job(EMPTY, min_data_in_leaf=leaf))
    assert (found["min_data_per_group"], found["cat_smooth"], found["cat_l2"]) == (
        group,
        smooth,
        smooth,
    )


@pytest.mark.parametrize(("rows", "shops"), [(200, 8), (500, 40)])
def test_a_small_table_is_split_by_its_categories(tmp_path: Path, rows: int, shops: int) -> None:
    draws = np.random.default_rng(0)
    shop, x = draws.integers(0, shops, rows), draws.normal(size=rows)
    says = draws.normal(size=shops)[shop] * 2 + draws.normal(size=rows) > 0
    named = [f"s{one:02}" for one in shop]
    pl.DataFrame({"shop": named, "x": x, "y": says.astype(int)}).write_csv(tmp_path / "rows.csv")
    contract = "data: {path: rows.csv, target: y, split: {kind: stratified, folds: 5}}"
    (tmp_path / "c.yaml").write_text(f"{contract}\nmodel: {{kind: boosting}}\n")
    with inside(tmp_path):
        command("train", "c.yaml", "--run", "one", "--set", "metric.resamples=100")
    found = read_json(tmp_path / "runs/one/evaluation.json")["evaluation"]
    areas = [one["roc_auc"]["value"] for one in (found["metrics"], found["baselines"]["linear"])]
    assert areas[0] > max(0.75, areas[1] - 0.04)
