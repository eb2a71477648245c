from itertools import chain

import pytest

torch = pytest.importorskip("torch")

from trainwright.core.errors import Mistake  # noqa: E402
from trainwright.data.loading.feed import Feed  # noqa: E402


def rows_of(feed: Feed, steps: int) -> list[list[int]]:
    return [
        [int(row) for batch in feed.next_step().micro_batches for row in batch[0]]
        for _ in range(steps)
    ]


def test_an_epoch_is_every_row_once_and_its_last_step_is_short() -> None:
    feed = Feed([torch.arange(10)], batch_size=2, accumulate=2, seed=3)
    steps = rows_of(feed, 6)
    assert [len(step) for step in steps] == [4, 4, 2, 4, 4, 2]
    assert sorted(chain.from_iterable(steps[:3])) == list(range(10))
    assert sorted(chain.from_iterable(steps[3:])) == list(range(10))
    assert steps[:3] != steps[3:]
    assert feed.samples == 20
    assert feed.steps_per_epoch == 3


def test_the_last_step_is_not_of_one_row_and_resumes_exactly() -> None:
    feed = Feed([torch.arange(33)], batch_size=16, seed=3)
    steps = rows_of(feed, 6)
    assert [len(step) for step in steps] == [16, 15, 2] * 2
    assert sorted(chain.from_iterable(steps[:3])) == list(range(33))
    assert (feed.steps_per_epoch, feed.epoch_ends(2)) == (3, (3, 6))
    for cut, samples in enumerate((0, 16, 31, 33)):
        feed.seek(samples)
        assert rows_of(feed, 6 - cut) == steps[cut:]


def test_how_a_step_is_cut_does_not_change_its_rows() -> None:
    whole = rows_of(Feed([torch.arange(103)], batch_size=8, accumulate=1, seed=1), 30)
    cut = rows_of(Feed([torch.arange(103)], batch_size=2, accumulate=4, seed=1), 30)
    assert whole == cut


@pytest.mark.parametrize("cut", [0, 1, 4, 7, 13, 29])
def test_seeking_continues_exactly(cut: int) -> None:
    unbroken = rows_of(Feed([torch.arange(50)], batch_size=4, seed=9), 40)
    first = Feed([torch.arange(50)], batch_size=4, seed=9)
    rows_of(first, cut)
    second = Feed([torch.arange(50)], batch_size=4, seed=9)
    second.seek(first.samples)
    assert rows_of(second, 40 - cut) == unbroken[cut:]


def test_small_blocks_give_the_same_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    big = rows_of(Feed([torch.arange(64)], batch_size=4, accumulate=2, seed=2), 20)
    monkeypatch.setattr("trainwright.data.loading.feed._BLOCK_BYTES", 1)
    assert rows_of(Feed([torch.arange(64)], batch_size=4, accumulate=2, seed=2), 20) == big


def test_targets_are_counted_over_the_whole_step() -> None:
    masks = torch.tensor([[1, 1, 0], [1, 0, 0], [1, 1, 1], [0, 0, 0]])
    feed = Feed(
        [masks], 1, accumulate=4, shuffle=False, count_targets=lambda batch: int(batch[0].sum())
    )
    step = feed.next_step()
    assert (step.targets, step.rows, step.epoch) == (6, 4, 0)


def test_rows_between_names_the_rows_of_a_step() -> None:
    feed = Feed([torch.arange(20)], batch_size=6, seed=4)
    rows_of(feed, 5)
    before = feed.samples
    (step,) = rows_of(feed, 1)
    assert feed.rows_between(before, feed.samples).tolist() == step


@pytest.mark.parametrize("lengths", [(0,), (3, 4)])
def test_tensors_that_do_not_fit_together_are_refused(lengths: tuple[int, ...]) -> None:
    with pytest.raises(Mistake, match="one length"):
        Feed([torch.zeros(length) for length in lengths], 2)
