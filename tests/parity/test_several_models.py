"""Models of several targets against scikit-learn, torch, and the models of each target alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression, Ridge

from trainwright.contract.sections.model.linear import Linear
from trainwright.contract.sections.model.trees import Boosting, Forest
from trainwright.data.base.inputs import Part, TableInputs
from trainwright.model.baselines.dummy import fit_constant
from trainwright.model.boosting.boosting_family import BoostingFamily
from trainwright.model.forest.forest_fit import fit_forest
from trainwright.model.library_family import LibraryJob
from trainwright.model.linear.linear_fit import fit_linear

ROWS = 300


def part(seed: int, *, labels: bool) -> Part:
    draw = np.random.default_rng(seed)
    numeric = draw.normal(size=(ROWS, 4)).astype(np.float32)
    target = numeric[:, :3] @ draw.normal(size=(3, 3)) + 0.3 * draw.normal(size=(ROWS, 3))
    values = (target > 0.5).astype(np.int64) if labels else target * (1, 10, 100)
    places = np.arange(ROWS)
    inputs = TableInputs(numeric, np.zeros((ROWS, 0), np.int64))
    return Part("train", pl.DataFrame(), inputs, values, places, places)


def job(*, labels: bool) -> LibraryJob:
    return LibraryJob(
        train=part(1, labels=labels),
        validation=part(1, labels=labels),
        outputs=3,
        cardinalities=(),
        seed=7,
        metric="f1_macro" if labels else "r2",
        quantile=0.5,
    )


def test_a_forest_of_numbers_is_that_of_scikit_learn() -> None:
    one, section = job(labels=False), Forest(kind="forest", trees=7, feature_fraction=0.5)
    own = fit_forest(section, one)
    other = RandomForestRegressor(7, max_features=0.5, random_state=7, n_jobs=1)
    numeric = one.train.inputs.dense().numeric
    np.testing.assert_array_equal(
        own.score(one.train.inputs), other.fit(numeric, one.train.target).predict(numeric)
    )


@pytest.mark.parametrize("constant", [None, 0, 1])
def test_a_forest_of_labels_is_that_of_scikit_learn(constant: int | None) -> None:
    one = job(labels=True)
    target = one.train.target.copy()
    if constant is not None:
        target[:, 1] = constant
    one = replace(one, train=replace(one.train, target=target))
    own = fit_forest(Forest(kind="forest", trees=7, feature_fraction=0.5), one)
    other = RandomForestClassifier(7, max_features=0.5, random_state=7, n_jobs=1)
    numeric = one.train.inputs.dense().numeric
    each = other.fit(numeric, target).predict_proba(numeric)
    found = own.score(one.train.inputs)
    for at, probabilities in enumerate(each):
        expected = constant if at == 1 and constant is not None else probabilities[:, -1]
        np.testing.assert_allclose(found[:, at], expected, rtol=0, atol=1e-15)


def test_linear_models_are_those_of_scikit_learn() -> None:
    section = Linear(kind="linear", penalty=0.5, max_iterations=500)
    numbers, labels = job(labels=False).train, job(labels=True).train
    numeric = numbers.inputs.dense().numeric.astype(np.float64)
    own = fit_linear(section, numbers.inputs.dense(), numbers.target, 3, ())
    ridge = Ridge(alpha=0.5).fit(numeric, numbers.target)
    np.testing.assert_allclose(own.score(numbers.inputs), ridge.predict(numeric), rtol=1e-8)
    of_labels = fit_linear(section, labels.inputs.dense(), labels.target, 3, ())
    for at, column in enumerate(labels.target.T):
        logistic = LogisticRegression(C=2.0, max_iter=500).fit(numeric, column)
        expected = logistic.predict_proba(numeric)[:, 1]
        np.testing.assert_allclose(of_labels.score(labels.inputs)[:, at], expected, rtol=1e-8)


def test_a_label_that_all_rows_have_gets_its_odds() -> None:
    train = job(labels=True).train
    target = train.target.copy()
    target[:, 0], target[:, 2] = 1, 0
    found = fit_linear(Linear(kind="linear"), train.inputs.dense(), target, 3, ())
    scores = found.score(train.inputs)
    np.testing.assert_allclose(scores[:, 0], (ROWS + 0.5) / (ROWS + 1))
    np.testing.assert_allclose(scores[:, 2], 0.5 / (ROWS + 1))


@pytest.mark.parametrize("weighted", [False, True])
def test_classes_of_each_label_weigh_as_in_scikit_learn(weighted: bool) -> None:
    train = job(labels=True).train
    counted = np.random.default_rng(3).uniform(0.5, 2, ROWS) if weighted else np.ones(ROWS)
    numeric = train.inputs.dense().numeric.astype(np.float64)
    section = Linear(kind="linear", class_weights="balanced", max_iterations=500)
    given = counted if weighted else None
    own = fit_linear(section, train.inputs.dense(), train.target, 3, (), weights=given)
    for at, column in enumerate(train.target.T):
        sums = np.array([counted[column == 0].sum(), counted[column == 1].sum()])
        weights = counted * (counted.sum() / (2 * sums))[column]
        model = LogisticRegression(max_iter=500).fit(numeric, column, weights)
        expected = model.predict_proba(numeric)[:, 1]
        np.testing.assert_allclose(own.score(train.inputs)[:, at], expected, rtol=1e-6)


def test_a_second_training_grows_as_many_trees_of_each_target() -> None:
    family, one = BoostingFamily(), job(labels=False)
    section = Boosting(kind="boosting", max_trees=9, objective="squared_error")
    of, nothing = one.validation, np.arange(0)
    none = Part(
        "validation", pl.DataFrame(), of.inputs.take(nothing), of.target[:0], nothing, nothing
    )
    found = family.fit(section, replace(one, validation=none, rounds=(2, 9, 5)))
    assert found.rounds == (2, 9, 5)
    for at, trees in enumerate(found.rounds):
        alone = section.model_copy(update={"max_trees": trees})
        expected = family.fit(alone, replace(one, validation=none).of_target(at)).scorer
        np.testing.assert_array_equal(
            found.scorer.score(one.train.inputs)[:, at], expected.score(one.train.inputs)[:, 0]
        )


@pytest.mark.parametrize(
    ("labels", "class_weights"), [(False, "none"), (True, "none"), (True, "balanced")]
)
def test_trees_of_a_target_are_those_that_it_has_alone(labels: bool, class_weights: str) -> None:
    family, one = BoostingFamily(), job(labels=labels)
    section = Boosting(
        kind="boosting",
        max_trees=25,
        early_stopping_rounds=5,
        objective="log_loss" if labels else "squared_error",
        class_weights=class_weights,
    )
    together = family.fit(section, one).scorer.score(one.train.inputs)
    for at in range(3):
        alone = family.fit(section, one.of_target(at)).scorer.score(one.train.inputs)
        np.testing.assert_array_equal(together[:, at], alone[:, -1])


def test_a_constant_has_the_mean_of_each() -> None:
    target = job(labels=True).train.target
    found = fit_constant(target, 3).score(TableInputs(np.zeros((2, 1)), np.zeros((2, 0), int)))
    np.testing.assert_allclose(found, [target.mean(axis=0)] * 2)


@pytest.mark.torch
def test_losses_are_those_of_torch() -> None:
    torch = pytest.importorskip("torch")
    from trainwright.contract.sections.training.objective import BinaryCrossEntropy, SquaredError
    from trainwright.data.columns.label_set import LabelSet
    from trainwright.data.columns.several_targets import SeveralNumbers
    from trainwright.objective.build_objective import build_loss
    from trainwright.objective.output_link import OutputLink

    draw = torch.Generator().manual_seed(0)
    outputs = torch.randn(9, 3, generator=draw)
    labels = (torch.rand(9, 3, generator=draw) > 0.5).long()
    device, none = torch.device("cpu"), np.zeros(0)
    loss = build_loss(BinaryCrossEntropy(name="binary_cross_entropy"), none, device, several=True)
    total, rows = loss.total(outputs, labels)
    assert rows == 9
    expected = torch.nn.BCEWithLogitsLoss()(outputs, labels.float())
    torch.testing.assert_close(total / rows, expected)
    torch.testing.assert_close(loss.rows(outputs, labels).mean(), expected)

    balanced = BinaryCrossEntropy(name="binary_cross_entropy", class_weights="balanced")
    sums = np.array([[4.0, 6, 3], [5, 3, 6]])
    weighed = build_loss(balanced, sums, device, several=True)
    having, without = (torch.tensor(9 / (2 * one), dtype=torch.float32) for one in sums[::-1])
    cells = torch.where(labels == 1, having, without)
    expected = torch.nn.BCEWithLogitsLoss(weight=cells)(outputs, labels.float())
    torch.testing.assert_close(weighed.total(outputs, labels)[0] / rows, expected)

    numbers = SeveralNumbers("a, b, c", ("a", "b", "c"), (1.0, 2.0, 3.0), (1.0, 10.0, 100.0))
    values = torch.randn(9, 3, generator=draw).double() * 50
    learned = OutputLink(numbers).learned(values)
    scale = torch.tensor([1.0, 10.0, 100.0]), torch.tensor([1.0, 2.0, 3.0])
    torch.testing.assert_close(learned, ((values - scale[1]) / scale[0]).float())
    torch.testing.assert_close(
        OutputLink(numbers).scores(learned).double(), values, rtol=1e-5, atol=1e-4
    )
    squared = build_loss(SquaredError(name="mse"), none, device, several=True)
    total, rows = squared.total(outputs, learned)
    torch.testing.assert_close(total / rows, torch.nn.MSELoss()(outputs, learned))
    link = OutputLink(LabelSet("a, b, c", ("a", "b", "c"), (0.5,) * 3))
    torch.testing.assert_close(link.scores(outputs), torch.sigmoid(outputs))
    torch.testing.assert_close(link.outputs(link.scores(outputs)), outputs, rtol=1e-4, atol=1e-5)
