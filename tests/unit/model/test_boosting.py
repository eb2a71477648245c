from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from trainwright.contract.model import Boosting
from trainwright.data.table import TableInputs
from trainwright.model.boosting import (
    BoostingJob,
    Rows,
    Watching,
    fit_boosting,
    matrix_of,
    watched_metric,
)


def _rows(count: int = 300, seed: int = 0) -> Rows:
    generator = np.random.default_rng(seed)
    numeric = generator.normal(size=(count, 2)).astype(np.float32)
    categories = generator.integers(0, 5, (count, 1))
    return Rows(TableInputs(numeric, categories), (numeric[:, 0] > 0).astype(np.int64))


EMPTY = Rows(_rows().inputs.take(np.zeros(0, np.int64)), np.zeros(0, np.int64))


def _job(validation: Rows, **section: object) -> BoostingJob:
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


def test_a_watched_metric_to_maximise_decides_the_number_of_trees() -> None:
    job = _job(_rows(seed=1), early_stopping_rounds=3)
    watched = BoostingJob(
        job.section, job.train, job.validation, 2, seed=0, watch="roc_auc", threads=1
    )
    values: list[float] = []
    boosted = fit_boosting(watched, Watching(lambda _, value: values.append(value)))
    assert boosted.metric == "auc"
    assert boosted.trees == int(np.argmax(values)) + 1


@pytest.mark.parametrize(
    ("watch", "outputs", "expected"),
    [
        ("loss", 1, "l2"),
        ("mae", 1, "l1"),
        ("loss", 2, "binary_logloss"),
        ("f1", 2, "binary_logloss"),
        ("roc_auc", 2, "auc"),
        ("roc_auc", 3, "multi_logloss"),
    ],
)
def test_what_the_library_cannot_watch_is_watched_by_the_loss(
    watch: str, outputs: int, expected: str
) -> None:
    assert watched_metric(watch, outputs) == expected


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
