"""What grows with the position, against loops that go through the run step by step."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest

torch = pytest.importorskip("torch")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from trainwright.contract.sections.training.optimizer import BatchRamp, SequenceRamp  # noqa: E402
from trainwright.data.loading.document_dataset import ShortWindows  # noqa: E402
from trainwright.data.loading.feed import Feed, StepBatches  # noqa: E402
from trainwright.data.sampling.step_ramps import (  # noqa: E402
    Stages,
    step_rows,
    steps_at_epoch_ends,
    steps_up_to,
    window_lengths,
)

pytestmark = pytest.mark.torch

ROWS, EPOCHS = st.integers(1, 60), st.integers(1, 5)
RAMPS = st.builds(
    BatchRamp,
    start=st.integers(1, 12),
    growth=st.sampled_from(["doubling", "linear"]),
    ratio=st.floats(0.01, 1.0),
    samples=st.one_of(st.just(0), st.integers(1, 150)),
)


def walked(stages: Stages, rows: int, epochs: int) -> Iterator[tuple[int, int]]:
    """Where each step of a run begins and ends: one step after the other, as a person would."""
    cursor = 0
    while cursor < rows * epochs:
        size = next(
            value
            for start, value in reversed(list(zip(stages.starts, stages.values, strict=True)))
            if start <= cursor
        )
        epoch_end = (cursor // rows + 1) * rows
        end = min(cursor + size, epoch_end)
        if end == epoch_end - 1 and size == stages.values[-1] > 2:
            end -= 1  # the last step is not of one row
        yield cursor, end
        cursor = end


@settings(deadline=None)
@given(RAMPS, st.integers(13, 40), ROWS, EPOCHS)
def test_steps_are_counted_as_they_are_walked(
    ramp: BatchRamp, full: int, rows: int, epochs: int
) -> None:
    stages = step_rows(ramp, full, rows * epochs)
    ends = [end for _, end in walked(stages, rows, epochs)]
    at_epoch_ends = [ends.index(rows * (epoch + 1)) + 1 for epoch in range(epochs)]
    assert list(steps_at_epoch_ends(stages, rows, epochs)) == at_epoch_ends
    for samples in range(rows * epochs + 1):
        wanted = sum(begin < samples for begin, _ in walked(stages, rows, epochs))
        assert steps_up_to(stages, rows, samples) == wanted


def test_a_limit_of_any_size_is_counted_at_once() -> None:
    stages = step_rows(BatchRamp(start=1, samples=1000), 30, 10**6)
    in_ten = steps_at_epoch_ends(stages, 100, 10)[-1]
    assert steps_up_to(stages, 100, 10**15 + 31) == in_ten + (10**13 - 10) * 4 + 2
    assert steps_up_to(Stages.flat(30), 100, 10**15) == 4 * 10**13


@settings(deadline=None, max_examples=40)
@given(RAMPS, st.integers(13, 40), ROWS, EPOCHS, st.integers(1, 9), st.integers(0, 400))
def test_the_feed_takes_the_steps_that_were_counted(
    ramp: BatchRamp, full: int, rows: int, epochs: int, batch: int, block: int
) -> None:
    stages = step_rows(ramp, full, rows * epochs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("trainwright.data.loading.feed._BLOCK_BYTES", block)
        feed = Feed([torch.arange(rows)], batch, seed=4, ramp=stages)
        steps = [feed.next_step() for _ in range(feed.epoch_ends(epochs)[-1])]
    cursor = 0
    for step, (begin, end) in zip(steps, walked(stages, rows, epochs), strict=True):
        assert (step.samples, step.rows, step.epoch) == (end, end - begin, begin // rows)
        sizes = [len(x) for (x,) in step.micro_batches]
        assert len(sizes) == -(-step.rows // batch)
        assert max(sizes) <= batch
        assert max(sizes) - min(sizes) <= 1
        found = [int(row) for (x,) in step.micro_batches for row in x]
        assert found == feed.rows_between(cursor, end).tolist()
        cursor = end
    for epoch in range(epochs):
        seen = [int(r) for s in steps if s.epoch == epoch for (x,) in s.micro_batches for r in x]
        assert sorted(seen) == list(range(rows))


@settings(deadline=None, max_examples=40)
@given(RAMPS, st.integers(13, 40), ROWS, st.data())
def test_from_any_cut_the_same_steps_follow(
    ramp: BatchRamp, full: int, rows: int, data: st.DataObject
) -> None:
    stages = step_rows(ramp, full, rows * 3)
    first = Feed([torch.arange(rows)], 4, seed=4, ramp=stages)
    steps = [first.next_step() for _ in range(first.epoch_ends(3)[-1])]
    cut = data.draw(st.integers(0, len(steps) - 1))
    second = Feed([torch.arange(rows)], 4, seed=4, ramp=stages)
    second.seek(steps[cut - 1].samples if cut else 0)
    for step in steps[cut:]:
        assert shown(second.next_step()) == shown(step)


def shown(step: StepBatches) -> tuple[object, ...]:
    return [x.tolist() for (x,) in step.micro_batches], step.targets, step.rows, step.samples


@pytest.mark.parametrize(
    ("growth", "full", "sizes"),
    [
        ("doubling", 64, (8, 16, 32, 64)),
        ("doubling", 50, (8, 16, 32, 50)),
        ("linear", 32, (8, 16, 24, 32)),
        ("linear", 30, (8, 16, 24, 30)),
    ],
)
def test_sizes_grow_over_stages_of_equally_many_rows(
    growth: str, full: int, sizes: tuple[int, ...]
) -> None:
    stages = step_rows(BatchRamp(start=8, growth=growth, ratio=0.3), full, 1000)
    assert stages == Stages((0, 100, 200, 300), sizes)
    assert step_rows(BatchRamp(start=8, growth=growth, samples=90), full, 1000).starts[-1] == 90
    assert [stages.at(samples) for samples in (0, 99, 100, 299, 300, 10**9)] == [
        sizes[0],
        sizes[0],
        sizes[1],
        sizes[2],
        sizes[3],
        sizes[3],
    ]


def test_without_a_ramp_nothing_grows() -> None:
    assert step_rows("off", 32, 1000) == Stages.flat(32)
    assert window_lengths("off", 64, 1000) == Stages.flat(64)


@given(st.integers(2, 2000), st.data())
def test_windows_are_cut_into_equal_ones_that_grow(context: int, data: st.DataObject) -> None:
    divisors = [size for size in range(1, context) if context % size == 0]
    start = data.draw(st.sampled_from(divisors))
    lengths = window_lengths(SequenceRamp(start=start), context, 1000).values
    assert (lengths[0], lengths[-1]) == (start, context)
    for short, long in pairwise(lengths):
        assert context % long == 0
        assert short < long
        assert long <= 2 * short or not any(short < size <= 2 * short for size in divisors)


def test_short_windows_predict_every_token_once() -> None:
    """Against windows cut by hand from the feed that does not cut."""
    tokens = torch.arange(1, 1 + 24 * 12).reshape(24, 12)
    feeds = [Feed([tokens, tokens + 1], 4, 2, seed=1, count_targets=count) for _ in range(2)]
    lengths = window_lengths(SequenceRamp(start=3, samples=24), 12, 48)
    assert lengths == Stages((0, 12, 24), (3, 6, 12))
    short, whole = ShortWindows(feeds[0], lengths), feeds[1]
    seen = []
    for _ in range(6):
        ours, theirs = short.next_step(), whole.next_step()
        begin = theirs.samples - theirs.rows
        length = 3 if begin < 12 else 6 if begin < 24 else 12
        assert ours._replace(micro_batches=[]) == theirs._replace(
            micro_batches=[], wait_seconds=ours.wait_seconds
        )
        for (x, y), (wholes, _) in zip(ours.micro_batches, theirs.micro_batches, strict=True):
            by_hand = [row[at : at + length] for row in wholes for at in range(0, 12, length)]
            assert torch.equal(x, torch.stack(by_hand))
            assert torch.equal(y, x + 1)
            assert y.numel() == wholes.numel()
            seen += x.flatten().tolist()
    assert sorted(seen) == sorted(tokens.flatten().tolist() * 2)
    short.seek(8)
    (x, _), *_ = short.next_step().micro_batches
    assert x.shape == (16, 3)
    short.seek(16)
    assert short.next_step().micro_batches[0][0].shape == (8, 6)


def count(batch: tuple[torch.Tensor, ...]) -> int:
    return batch[1].numel()
