from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from scipy import sparse

from trainwright.contract.sections.model.linear import Linear
from trainwright.data.base.inputs import TableInputs
from trainwright.model.linear import linear_fit as linear_module
from trainwright.model.linear.linear_fit import fit_linear


def _inputs(count: int = 300) -> TableInputs:
    generator = np.random.default_rng(0)
    numeric = generator.normal(size=(count, 2)).astype(np.float32)
    return TableInputs(numeric, generator.integers(0, 5, (count, 1)))


def test_a_solver_that_does_not_converge_says_so() -> None:
    inputs = _inputs()
    target = (inputs.numeric[:, 0] > 0).astype(np.int64)
    hurried = fit_linear(Linear(kind="linear", max_iterations=1), inputs, target, 2, (5,))
    assert "did not converge in 1 iterations" in hurried.warnings[0]
    patient = fit_linear(Linear(kind="linear"), inputs, target, 2, (5,))
    assert patient.warnings == ()


def test_a_class_that_no_training_row_has_gets_no_probability() -> None:
    inputs = _inputs()
    target = np.where(inputs.numeric[:, 0] > 0, 3, 1)
    scores = fit_linear(Linear(kind="linear"), inputs, target, 4, (5,)).score(inputs)
    assert scores.shape == (300, 4)
    assert float(scores[:, [0, 2]].max()) == 0.0
    np.testing.assert_allclose(scores.sum(axis=1), 1.0)


def test_the_spread_is_where_the_signal_is() -> None:
    inputs = _inputs()
    target = (inputs.categories[:, 0] >= 3).astype(np.int64)
    linear = fit_linear(Linear(kind="linear"), inputs, target, 2, (5,))
    spreads = linear.spreads(inputs)
    assert spreads.shape == (3,)
    assert int(spreads.argmax()) == 2


def test_missing_numbers_are_refused() -> None:
    inputs = TableInputs(np.array([[np.nan], [1.0]], np.float32), np.zeros((2, 0), np.int64))
    with pytest.raises(AssertionError, match="imputed"):
        fit_linear(Linear(kind="linear"), inputs, np.array([0, 1]), 2, ())


def test_extreme_values_do_not_overflow() -> None:
    inputs = _inputs()
    target = (inputs.numeric[:, 0] > 0).astype(np.int64)
    linear = fit_linear(Linear(kind="linear"), inputs, target, 2, (5,))
    far = TableInputs(np.array([[1e30, 0], [-1e30, 0]], np.float32), np.zeros((2, 1), np.int64))
    np.testing.assert_allclose(linear.score(far), [[0, 1], [1, 0]], atol=1e-12)


def test_the_design_has_no_zeros_and_is_made_without_joining_blocks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    generator = np.random.default_rng(1)
    numeric = generator.normal(size=(50, 4)).astype(np.float32)
    numeric[generator.random((50, 4)) < 0.3] = 0
    codes = generator.integers(0, [3, 5], (50, 2))
    blocks = [numeric.astype(np.float64), np.eye(3)[codes[:, 0]], np.eye(5)[codes[:, 1]]]
    joined = sparse.csr_array(np.concatenate(blocks, axis=1))
    monkeypatch.delattr(sparse, "hstack")
    monkeypatch.setattr(linear_module, "_DESIGN_ROWS", 16)
    made = linear_module._design(TableInputs(numeric, codes), (3, 5))
    assert made.shape == joined.shape
    for name in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(made, name), getattr(joined, name), name)


def test_the_design_is_in_memory_once() -> None:
    generator = np.random.default_rng(1)
    numeric = generator.normal(size=(100_000, 8)).astype(np.float32)
    inputs = TableInputs(numeric, generator.integers(0, 3, (100_000, 2)))
    linear_module._design(inputs, (3, 3))  # imports
    tracemalloc.start()
    made = linear_module._design(inputs, (3, 3))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1.4 * (made.data.nbytes + made.indices.nbytes + made.indptr.nbytes)
