"""Boosting through the product against LightGBM called by hand on the same matrix."""

from __future__ import annotations

from typing import Any

import lightgbm
import numpy as np
import pytest

from trainwright.contract.sections.model.trees import Boosting
from trainwright.data.base.inputs import TableInputs
from trainwright.model.boosting.lightgbm_dataset import BoostingRows, matrix_of
from trainwright.model.boosting.lightgbm_fit import BoostingJob, fit_boosting


def _rows(outputs: int, count: int, seed: int) -> BoostingRows:
    generator = np.random.default_rng(seed)
    numeric = generator.normal(size=(count, 4)).astype(np.float32)
    numeric[generator.random((count, 4)) < 0.1] = np.nan
    categories = generator.integers(0, 12, (count, 2))
    signal = np.nan_to_num(numeric[:, 0]) + np.sin(categories[:, 0]) + generator.normal(size=count)
    if outputs == 1:
        return BoostingRows(TableInputs(numeric, categories), signal.astype(np.float64))
    target = np.digitize(signal, np.linspace(-1, 1, outputs - 1)).astype(np.int64)
    return BoostingRows(TableInputs(numeric, categories), target)


# Written out here, not taken from the product: the parity is with what a person would write.
OBJECTIVES: dict[int, dict[str, Any]] = {
    1: {"objective": "regression_l2", "metric": "l2"},
    2: {"objective": "binary", "metric": "binary_logloss"},
    3: {"objective": "multiclass", "num_class": 3, "metric": "multi_logloss"},
}


@pytest.mark.parametrize("outputs", [1, 2, 3])
@pytest.mark.parametrize("fraction", [1.0, 0.7])
def test_it_grows_the_same_trees_as_the_library_alone(outputs: int, fraction: float) -> None:
    train, validation = _rows(outputs, 1500, 1), _rows(outputs, 500, 2)
    section = Boosting(
        kind="boosting",
        max_trees=300,
        early_stopping_rounds=20,
        num_leaves=15,
        bagging_fraction=fraction,
        feature_fraction=fraction,
    )
    ours = fit_boosting(BoostingJob(section, train, validation, outputs, seed=7, threads=1))

    dataset = lightgbm.Dataset(
        matrix_of(train.inputs), label=train.target, categorical_feature=[4, 5]
    )
    watched = lightgbm.Dataset(
        matrix_of(validation.inputs), label=validation.target, reference=dataset
    )
    by_hand = lightgbm.train(
        {
            **OBJECTIVES[outputs],
            "learning_rate": 0.05,
            "num_leaves": 15,
            "min_data_in_leaf": 20,
            "feature_fraction": fraction,
            "bagging_fraction": fraction,
            "bagging_freq": 1 if fraction < 1 else 0,
            "lambda_l2": 1.0,
            "seed": 7,
            "deterministic": True,
            "force_row_wise": True,
            "num_threads": 1,
            "verbosity": -1,
        },
        dataset,
        num_boost_round=300,
        valid_sets=[watched],
        callbacks=[lightgbm.early_stopping(20, verbose=False)],
    )
    assert ours.trees == by_hand.best_iteration
    assert 1 < ours.trees < 300
    text = by_hand.model_to_string(num_iteration=by_hand.best_iteration)
    assert _trees(ours.booster.model_to_string()) == _trees(text)
    raw = np.asarray(by_hand.predict(matrix_of(validation.inputs)))
    scores = ours.score(validation.inputs)
    np.testing.assert_array_equal(scores[:, 1] if outputs == 2 else scores.squeeze(), raw)


def _trees(model: str) -> str:
    return model[model.index("Tree=0") : model.index("end of trees")]
