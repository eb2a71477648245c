"""The family `catboost` against CatBoost called by hand on the same rows."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import catboost
import numpy as np
import pytest

from library_jobs import job_of_rows
from trainwright.contract.sections.model.trees import CatBoost
from trainwright.core.errors import Mistake
from trainwright.data.base.inputs import TableInputs
from trainwright.model.catboost import catboost_fit
from trainwright.model.catboost.catboost_fit import CatBoostScorer, fit_catboost, read_catboost
from trainwright.model.catboost.catboost_json import check_catboost_model
from trainwright.model.tree_growth import Watching

# Written out here, not taken from the product: the parity is with what a person would write.
CASES: list[tuple[int, str, str, dict[str, Any]]] = [
    (1, "squared_error", "rmse", {"loss_function": "RMSE"}),
    (1, "absolute_error", "mae", {"loss_function": "MAE"}),
    (1, "quantile", "pinball", {"loss_function": "Quantile:alpha=0.8"}),
    (2, "log_loss", "roc_auc", {"loss_function": "Logloss"}),
    (3, "log_loss", "f1_macro", {"loss_function": "MultiClass", "classes_count": 3}),
]


def pool(part: Any, weights: Any = None) -> catboost.Pool:
    """As a person would write it: a frame's columns, the categories as texts."""
    rows = [
        [*numbers, *map(str, codes)]
        for numbers, codes in zip(part.inputs.numeric, part.inputs.categories, strict=True)
    ]
    weight = None if weights is None else weights[part.target]
    return catboost.Pool(rows, label=part.target, cat_features=[4, 5], weight=weight)


def section_of(objective: str, **keys: Any) -> CatBoost:
    return CatBoost.model_validate(
        {
            "kind": "catboost",
            "objective": objective,
            "max_trees": 80,
            "early_stopping_rounds": 10,
            "learning_rate": 0.15,
            "depth": 4,
            **keys,
        }
    )


@pytest.mark.parametrize("weights", ["none", "balanced"])
@pytest.mark.parametrize(("outputs", "objective", "metric", "settings"), CASES)
def test_it_grows_the_same_trees_as_the_library_alone(
    outputs: int, objective: str, metric: str, settings: dict[str, Any], weights: str
) -> None:
    job = job_of_rows(outputs, rows=600, metric=metric)
    if outputs == 1 and weights == "balanced":
        return
    ours = fit_catboost(section_of(objective, class_weights=weights), job)
    counted = None
    if weights == "balanced":
        counted = len(job.train) / (outputs * np.bincount(job.train.target))
    theirs = catboost.CatBoost(
        {
            **settings,
            "iterations": 80,
            "learning_rate": 0.15,
            "depth": 4,
            "l2_leaf_reg": 3.0,
            "random_seed": 7,
            "thread_count": 1,
            "allow_writing_files": False,
            "logging_level": "Silent",
        }
    )
    theirs.fit(
        pool(job.train, counted), eval_set=pool(job.validation, counted), early_stopping_rounds=10
    )
    assert ours.record.kept == theirs.tree_count_
    kind = "RawFormulaVal" if outputs == 1 else "Probability"
    expected = theirs.predict(pool(job.validation), prediction_type=kind)
    scores = ours.score(job.validation.inputs)
    np.testing.assert_allclose(scores.squeeze(), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("quantile", [0.9975, 1 / 3])
def test_a_quantile_of_many_digits_is_watched(quantile: float) -> None:
    job = replace(job_of_rows(1, rows=400, metric="pinball"), quantile=quantile)
    ours = fit_catboost(section_of("quantile"), job)
    first, scores = ours.record.curve[0], ours.score(job.validation.inputs)[:, 0]
    apart = job.validation.target - scores
    kept = np.maximum(quantile * apart, (quantile - 1) * apart).mean()
    assert ours.record.kept > 1
    assert kept < first.validation


@pytest.mark.parametrize("mean", [0.3, 1e6])
def test_counts_are_learned_from_their_mean(mean: float, tmp_path: Path) -> None:
    """CatBoost begins at 1, from which no tree reaches a million."""
    job = job_of_rows(1, rows=600, metric="poisson_deviance")
    draw = np.random.default_rng(0)
    parts = [
        replace(part, target=draw.poisson(mean * np.exp(part.target / 10)).astype(np.float64))
        for part in (job.train, job.validation)
    ]
    scorer = fit_catboost(section_of("poisson"), replace(job, train=parts[0], validation=parts[1]))
    found = scorer.score(parts[0].inputs)[:, 0]
    assert found.mean() == pytest.approx(parts[0].target.mean(), rel=0.1)
    scorer.write(tmp_path)
    np.testing.assert_array_equal(read_catboost(tmp_path).score(parts[0].inputs)[:, 0], found)


def test_rows_that_teach_nothing_are_a_mistake_of_the_user() -> None:
    job = job_of_rows(1, rows=200)
    same = TableInputs(np.ones((200, 4), np.float32), np.zeros((200, 2), np.int64))
    constant = replace(job, train=replace(job.train, inputs=same))
    with pytest.raises(Mistake, match="CatBoost cannot learn from these rows"):
        fit_catboost(section_of("squared_error"), constant)


@pytest.mark.parametrize("kind", [MemoryError, OSError, KeyboardInterrupt, ZeroDivisionError])
def test_an_exception_of_a_stop_rule_is_raised_as_it_is(kind: type[BaseException]) -> None:
    raised, asked = kind("the rule"), []

    def rule() -> bool:
        asked.append(1)
        if len(asked) == 3:
            raise raised
        return False

    with pytest.raises(kind) as found:
        fit_catboost(section_of("squared_error"), job_of_rows(1, 200), Watching(should_stop=rule))
    assert found.value is raised
    assert len(asked) == 3


@pytest.fixture(scope="module", params=[2, 3])
def fitted(request: pytest.FixtureRequest) -> CatBoostScorer:
    return fit_catboost(section_of("log_loss"), job_of_rows(request.param, rows=600))


def test_the_bundle_predicts_the_same(fitted: CatBoostScorer, tmp_path: Path) -> None:
    fitted.write(tmp_path)
    again, rows = read_catboost(tmp_path), job_of_rows(2).validation.inputs
    assert again.record == fitted.record
    np.testing.assert_array_equal(again.score(rows), fitted.score(rows))


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path to every number of a model that is an index, a size or a code."""
    if isinstance(value, dict):
        return [one for key, inner in value.items() for one in places(inner, (*path, key))]
    if isinstance(value, list):
        return [one for at, inner in enumerate(value) for one in places(inner, (*path, at))]
    return [path] if type(value) is int and "leaf_weights" not in path else []


FREE = {"counter_denominator", "hash_map", "scale", "shift", "prior_numerator", "scale_and_bias"}
"""What may be any number: no index, and no size."""


def test_an_index_that_is_edited_is_refused(fitted: CatBoostScorer) -> None:
    outputs = fitted.record.outputs
    check_catboost_model(fitted.model, outputs)
    kinds: dict[Any, tuple[Any, ...]] = {}
    for path in places(fitted.model):
        named = [one for one in path if isinstance(one, str)]
        if not FREE & set(named) and named[-1] not in (
            "prior_denomerator",
            "values",
            "leaf_values",
        ):
            kinds.setdefault(tuple(named), path)
    assert len(kinds) >= 5, kinds
    for path in kinds.values():
        for value in (-1, 10**6, 2**40, 0.5, "1"):
            changed = copy.deepcopy(fitted.model)
            inner = changed
            for one in path[:-1]:
                inner = inner[one]
            inner[path[-1]] = value
            with pytest.raises((ValueError, TypeError, KeyError, AttributeError)):
                check_catboost_model(changed, outputs)


def test_leaves_and_tables_of_another_size_are_refused(
    fitted: CatBoostScorer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As soon as they are parsed: CatBoost would trust them."""
    fitted.write(tmp_path)
    read_catboost(tmp_path)
    for edit in (
        lambda model: model["oblivious_trees"][0]["leaf_values"].pop(),
        lambda model: model["oblivious_trees"][0]["splits"].pop(),
        lambda model: model["ctr_data"].popitem(),
        lambda model: next(iter(model["ctr_data"].values()))["hash_map"].pop(),
        lambda model: model["scale_and_bias"][1].append(0.0),
        lambda model: model["features_info"]["float_features"].pop(),
    ):
        changed = copy.deepcopy(fitted.model)
        edit(changed)
        monkeypatch.setattr(catboost_fit, "read_json", lambda _, changed=changed: changed)
        with pytest.raises((ValueError, TypeError, KeyError, IndexError)):
            read_catboost(tmp_path)
