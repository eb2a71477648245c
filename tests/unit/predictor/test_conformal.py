from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainwright.predictor.calibration import Calibration
from trainwright.predictor.conformal import conformal_shifts, fewest_rows


@settings(max_examples=60)
@given(st.integers(19, 200), st.integers(0, 10**6))
def test_the_shifts_are_those_of_the_paper(rows: int, seed: int) -> None:
    """The conformal quantiles of Romano et al. 2019, theorem 2, written as there: the (1 - a)
    (1 + 1/n) empirical quantile of low - y, and of y - high."""
    draw = np.random.default_rng(seed)
    truth, scores = draw.normal(size=rows), np.sort(draw.normal(size=(rows, 3)), axis=1)
    low, middle, high = conformal_shifts(scores, truth, (0.05, 0.5, 0.95))
    rank = int(np.ceil(round(0.95 * (rows + 1), 9)))
    assert middle == 0
    assert -low == np.sort(scores[:, 0] - truth)[rank - 1]
    assert high == np.sort(truth - scores[:, 2])[rank - 1]


def test_new_rows_are_beyond_a_quantile_as_rarely_as_it_says() -> None:
    """Over many sets of validation rows, the guarantee of the theorem: each tail at most 0.1, and
    not far below."""
    draw = np.random.default_rng(0)
    quantiles, beyond = (0.1, 0.5, 0.9), []
    for _ in range(3000):
        values = draw.exponential(size=30)
        scores = np.tile([0.0, 0.1, 0.3], (30, 1))
        low, _, high = np.array([0.0, 0.1, 0.3]) + conformal_shifts(
            scores[:-1], values[:-1], quantiles
        )
        beyond.append((values[-1] < low, values[-1] > high))
    below, above = np.mean(beyond, axis=0)
    assert 0.08 < below < 0.115
    assert 0.08 < above < 0.115


@pytest.mark.parametrize(
    ("quantiles", "rows"),
    [((0.05, 0.5, 0.95), 19), ((0.1, 0.5, 0.8), 9), ((0.25, 0.5, 0.999), 999)],
)
def test_as_many_rows_as_the_outermost_tail_needs(quantiles: tuple[float, ...], rows: int) -> None:
    assert fewest_rows(quantiles) == rows
    scores, truth = np.zeros((rows, 3)), np.arange(float(rows))
    low, _, high = conformal_shifts(scores, truth, quantiles)
    assert low >= 0
    assert high <= rows - 1


def test_a_stored_calibration_is_checked() -> None:
    kept = Calibration("conformal", shifts=(-1.0, 0.0, 2.0), rows=20)
    again = Calibration.from_json(kept.to_json())
    assert again == kept
    again.check(3)
    np.testing.assert_array_equal(kept.apply(np.ones((2, 3))), [[0.0, 1.0, 3.0]] * 2)
    for wrong in (kept.check, Calibration("conformal", shifts=(np.inf, 0.0)).check):
        with pytest.raises(ValueError, match="calibration"):
            wrong(2)
