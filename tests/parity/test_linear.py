"""Linear models through the product against scikit-learn on a dense one-hot matrix."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge

from trainwright.contract.sections.model.linear import Linear
from trainwright.data.base.inputs import TableInputs
from trainwright.model.family import LearnedNumber
from trainwright.model.linear.linear_fit import fit_linear

CARDINALITIES = (6, 4)


def _inputs() -> TableInputs:
    generator = np.random.default_rng(3)
    numeric = generator.normal(size=(600, 3)).astype(np.float32)
    categories = np.stack([generator.integers(0, top, 600) for top in CARDINALITIES], axis=1)
    return TableInputs(numeric, categories)


def _dense(inputs: TableInputs) -> np.ndarray:
    one_hot = [np.eye(top)[inputs.categories[:, g]] for g, top in enumerate(CARDINALITIES)]
    return np.concatenate([inputs.numeric.astype(np.float64), *one_hot], axis=1)


def _signal(inputs: TableInputs) -> np.ndarray:
    noise = np.random.default_rng(4).normal(size=len(inputs))
    return inputs.numeric[:, 0] - 0.7 * inputs.categories[:, 0] + noise


@pytest.mark.parametrize("outputs", [2, 4])
@pytest.mark.parametrize("penalty", [0.1, 1.0, 10.0])
def test_logistic_regression(outputs: int, penalty: float) -> None:
    inputs = _inputs()
    signal = _signal(inputs)
    edges = np.quantile(signal, np.linspace(0, 1, outputs + 1)[1:-1])
    target = np.digitize(signal, edges)
    ours = fit_linear(
        Linear(kind="linear", penalty=penalty), inputs, target, outputs, CARDINALITIES
    )
    theirs = LogisticRegression(C=1 / penalty, max_iter=1000).fit(_dense(inputs), target)
    np.testing.assert_allclose(ours.score(inputs), theirs.predict_proba(_dense(inputs)), atol=2e-3)


@pytest.mark.parametrize("outputs", [2, 4])
def test_balanced_classes(outputs: int) -> None:
    inputs = _inputs()
    signal = _signal(inputs)
    target = np.digitize(signal, np.quantile(signal, np.linspace(0.6, 1, outputs)[:-1]))
    section = Linear(kind="linear", penalty=1.0, class_weights="balanced")
    ours = fit_linear(section, inputs, target, outputs, CARDINALITIES)
    theirs = LogisticRegression(C=1.0, max_iter=1000, class_weight="balanced")
    theirs.fit(_dense(inputs), target)
    np.testing.assert_allclose(ours.score(inputs), theirs.predict_proba(_dense(inputs)), atol=2e-3)


@pytest.mark.parametrize("penalty", [0.1, 1.0, 10.0])
def test_ridge_regression(penalty: float) -> None:
    inputs = _inputs()
    target = _signal(inputs)
    ours = fit_linear(Linear(kind="linear", penalty=penalty), inputs, target, 1, CARDINALITIES)
    theirs = Ridge(alpha=penalty, solver="svd").fit(_dense(inputs), target)
    np.testing.assert_allclose(ours.score(inputs)[:, 0], theirs.predict(_dense(inputs)), atol=1e-6)


@pytest.mark.parametrize("penalty", [0.1, 1.0, 10.0])
def test_poisson_regression(penalty: float) -> None:
    inputs = _inputs()
    counts = np.random.default_rng(5).poisson(np.exp(_signal(inputs) / 2)).astype(np.float64)
    section = Linear(kind="linear", penalty=penalty)
    ours = fit_linear(section, inputs, counts, 1, CARDINALITIES, LearnedNumber(rates=True))
    theirs = PoissonRegressor(alpha=penalty / 600, solver="newton-cholesky", tol=1e-9)
    theirs.fit(_dense(inputs), counts)
    expected = theirs.predict(_dense(inputs))
    np.testing.assert_allclose(ours.score(inputs)[:, 0], expected, rtol=1e-3)


def test_a_rate_of_any_row_is_finite_and_above_0() -> None:
    inputs = _inputs()
    counts = np.random.default_rng(5).poisson(2.0, 600).astype(np.float64)
    fitted = fit_linear(
        Linear(kind="linear"), inputs, counts, 1, CARDINALITIES, LearnedNumber(rates=True)
    )
    extreme = TableInputs(np.full((2, 3), 3e38, np.float32), inputs.categories[:2])
    extreme.numeric[1] *= -1
    rates = fitted.score(extreme)
    assert rates.min() > 0
    assert bool(np.isfinite(rates**2).all())
