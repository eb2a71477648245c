import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainwright.data.base.counter_rng import Permutation

PUBLISHED = [(10, [7, 1, 0, 4, 9]), (10000, [9328, 8124, 1953, 8517, 1581])]


@given(rows=st.integers(1, 3000), seed=st.integers(0, 2**32 - 1), epoch=st.integers(0, 10**9))
def test_an_epoch_visits_every_row_once(rows: int, seed: int, epoch: int) -> None:
    visited = Permutation(rows, seed).at(epoch, 0, rows)
    assert np.array_equal(np.sort(visited), np.arange(rows))


@given(rows=st.integers(2, 5000), start=st.integers(0, 5000), length=st.integers(0, 5000))
def test_a_stretch_is_the_same_however_it_is_reached(rows: int, start: int, length: int) -> None:
    start = min(start, rows)
    stop = min(rows, start + length)
    order = Permutation(rows, seed=7)
    assert np.array_equal(order.at(3, start, stop), order.at(3, 0, rows)[start:stop])


def test_epochs_and_seeds_have_orders_of_their_own() -> None:
    orders = [Permutation(1000, seed).at(epoch, 0, 1000) for seed in (0, 1) for epoch in (0, 1, 2)]
    for i, first in enumerate(orders):
        for second in orders[:i]:
            assert np.mean(first == second) < 0.02


def test_without_shuffling_the_rows_come_as_they_lie() -> None:
    assert np.array_equal(Permutation(10, 3, shuffle=False).at(5, 2, 7), np.arange(2, 7))


@pytest.mark.extended
@pytest.mark.parametrize("rows", [5, 10, 37, 1100])
def test_every_row_is_equally_likely_at_every_position(rows: int) -> None:
    counts = np.zeros((rows, rows))
    epochs = 4000
    for epoch in range(epochs):
        counts[np.arange(rows), Permutation(rows, seed=11).at(epoch, 0, rows)] += 1
    expected = epochs / rows
    chi_square = float(((counts - expected) ** 2 / expected).sum())
    freedom = (rows - 1) ** 2
    # Mean `freedom`, deviation sqrt(2 * freedom); five deviations is one false alarm in millions.
    assert abs(chi_square - freedom) < 5 * np.sqrt(2 * freedom)


def test_neighbours_in_the_data_are_not_neighbours_in_the_order() -> None:
    visited = Permutation(100_000, seed=1).at(0, 0, 100_000)
    assert np.mean(np.abs(np.diff(visited)) == 1) < 0.001
    assert abs(np.corrcoef(visited[:-1], visited[1:])[0, 1]) < 0.02


@pytest.mark.parametrize(("rows", "published"), PUBLISHED)
def test_the_order_is_the_one_that_was_published(rows: int, published: list[int]) -> None:
    # A change of this order breaks the exact resume of every run that is under way.
    assert Permutation(rows, seed=0).at(1, 0, 5).tolist() == published
