"""A feed of several ranks: each fetches its own rows, and knows the targets of all."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from trainwright.data.loading.dataset import Batch, TensorRowDataset  # noqa: E402
from trainwright.data.loading.feed import Feed, StepBatches  # noqa: E402
from trainwright.data.loading.padded_dataset import Trimmed  # noqa: E402
from trainwright.data.text.padding import PaddedShapes  # noqa: E402
from trainwright.distributed.rank_share import RankShare  # noqa: E402
from trainwright.distributed.strategy import SingleProcess, Strategy  # noqa: E402
from trainwright.engine.job import Job  # noqa: E402
from trainwright.engine.loop import fit  # noqa: E402
from trainwright.engine.stopping.stop_rules import StepLimit  # noqa: E402
from trainwright.engine.update.step import OptimizerStep  # noqa: E402
from trainwright.objective.losses import LossSum  # noqa: E402
from trainwright.testing.fake_strategy import FakeRanks  # noqa: E402

pytestmark = pytest.mark.torch

ROWS = 23


class Fetched:
    """A store of numbered rows that keeps which of them were fetched."""

    def __init__(self) -> None:
        draw = torch.Generator().manual_seed(4)
        x = torch.randn(ROWS, 3, generator=draw, dtype=torch.float64)
        lengths = torch.randint(0, 3, (ROWS, 1), generator=draw)
        self.lengths = lengths[:, 0].numpy()
        numbers = torch.arange(ROWS)
        mask = (torch.arange(2) < lengths).double()
        self._inner = TensorRowDataset([numbers, x, x[:, :2].sin(), mask])
        self.rows, self.row_bytes = self._inner.rows, self._inner.row_bytes
        self.fetched: list[int] = []

    def take(self, epoch: int, rows: np.ndarray) -> Batch:
        self.fetched += rows.tolist()
        return self._inner.take(epoch, rows)


def counted(batch: Batch) -> int:
    return int(batch[3].sum())


def feed(store: Fetched, rank: int, world_size: int) -> Feed:
    return Feed(
        store,
        4,
        2,
        seed=3,
        count_targets=counted,
        share=RankShare(rank, world_size),
        targets_of=lambda rows: int(store.lengths[rows].sum()),
    )


@pytest.mark.parametrize("world_size", [1, 2, 4])
def test_the_ranks_have_the_rows_of_one_process(world_size: int) -> None:
    alone, store = feed(Fetched(), 0, 1), [Fetched() for _ in range(world_size)]
    feeds = [feed(store[rank], rank, world_size) for rank in range(world_size)]
    for _ in range(2 * alone.steps_per_epoch):
        whole = alone.next_step()
        works = [one.next_step() for one in feeds]
        for work in works:
            assert work[1:5] == whole[1:5], "targets, rows, cursor and epoch are those of all"
            assert len(work.micro_batches) == len(whole.micro_batches)
        for batch, *of_ranks in zip(
            whole.micro_batches, *(work.micro_batches for work in works), strict=True
        ):
            joined = [torch.cat(parts) for parts in zip(*of_ranks, strict=True)]
            assert all(map(torch.equal, joined, batch))
            assert max(len(one[0]) for one in of_ranks) <= -(-len(batch[0]) // world_size)
    fetched = [row for one in store for row in one.fetched]
    assert sorted(fetched) == sorted(2 * list(range(ROWS))), "each row once, by one rank"


def test_a_seek_of_a_rank_is_that_of_all() -> None:
    ours, again = feed(Fetched(), 1, 2), feed(Fetched(), 1, 2)
    works: list[StepBatches] = [ours.next_step() for _ in range(5)]
    again.seek(works[2].samples)
    for work in works[3:]:
        found = again.next_step()
        assert found[1:5] == work[1:5]
        for one, other in zip(found.micro_batches, work.micro_batches, strict=True):
            assert all(map(torch.equal, one, other))


def test_a_rank_without_a_row_of_a_padded_micro_batch() -> None:
    lengths = np.array([3, 1, 2])
    tokens = torch.ones(3, 4, dtype=torch.int64)
    trimmed = Trimmed(lengths, PaddedShapes(multiple=1, context=4))
    last = Feed([tokens, tokens], 2, forming=trimmed, share=RankShare(0, 2), shuffle=False)
    widths = [len(one[0]) for _ in range(2) for one in last.next_step().micro_batches]
    assert widths == [1, 0]


def trained(strategy: Strategy, steps: int) -> list[float]:
    torch_model = nn.Linear(3, 2).double()
    with torch.no_grad():
        torch_model.weight.copy_(torch.arange(6.0).view(2, 3) / 6)
        torch_model.bias.zero_()
    model = strategy.wrap(torch_model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)

    def objective(model: nn.Module, batch: Batch) -> LossSum:
        _, x, y, mask = batch
        return LossSum(((model(x) - y).square() * mask).sum(), int(mask.sum()))

    job = Job(
        model=model,
        feed=feed(Fetched(), strategy.rank, strategy.world_size),
        step=OptimizerStep(model, objective, optimizer, max_norm=0.5, strategy=strategy),
        stop_rules=(StepLimit(steps),),
    )
    assert fit(job).progress.step == steps
    return [value for one in model.parameters() for value in one.flatten().tolist()]


@pytest.mark.parametrize("world_size", [1, 2, 4])
def test_a_run_of_several_ranks_ends_with_the_weights_of_one(world_size: int) -> None:
    expected = trained(SingleProcess(), 9)
    found = FakeRanks(world_size).run(lambda strategy: trained(strategy, 9))
    assert found == [found[0]] * world_size
    assert found[0] == pytest.approx(expected, rel=0, abs=1e-12)
