"""Losses of queries against the same written as loops, and their independence of other queries."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402

from trainwright.contract.sections.training.objective import ListNet, RankNet  # noqa: E402
from trainwright.data.base.inputs import Part, TableInputs  # noqa: E402
from trainwright.data.loading.batch import Batch  # noqa: E402
from trainwright.data.loading.feed import Feed  # noqa: E402
from trainwright.data.loading.query_dataset import (  # noqa: E402
    QueryBatches,
    QueryDataset,
    query_targets,
)
from trainwright.distributed.rank_share import WHOLE, RankShare  # noqa: E402
from trainwright.engine.update.step import OptimizerStep  # noqa: E402
from trainwright.objective.build_objective import build_loss  # noqa: E402
from trainwright.objective.losses import TargetLoss  # noqa: E402
from trainwright.objective.ranking_losses import NO_ROW, ByQuery  # noqa: E402

pytestmark = pytest.mark.torch

CPU = torch.device("cpu")
QUERIES, ROWS = 24, 90


def loss_of(name: str) -> TargetLoss:
    section = ListNet(name="listnet") if name == "listnet" else RankNet(name="ranknet")
    return build_loss(section, np.zeros(0, np.int64), CPU)


def by_loops(name: str, scores: list[float], relevance: list[float]) -> float:
    if name == "ranknet":
        pairs = [
            math.log1p(math.exp(low - high))
            for high, more in zip(scores, relevance, strict=True)
            for low, less in zip(scores, relevance, strict=True)
            if more > less
        ]
        return sum(pairs) / max(1, len(pairs))
    total = sum(map(math.exp, relevance))
    norm = math.log(sum(map(math.exp, scores)))
    return -sum(
        math.exp(one) / total * (s - norm) for s, one in zip(scores, relevance, strict=True)
    )


@pytest.mark.parametrize("name", ["listnet", "ranknet"])
def test_the_loss_of_each_query_is_that_of_the_paper(name: str) -> None:
    draw = np.random.default_rng(0)
    lengths = [5, 1, 3]
    scores, target = torch.full((3, 5), 7.0), torch.full((3, 5), NO_ROW)
    expected = []
    for at, length in enumerate(lengths):
        own, relevance = draw.normal(size=length), draw.integers(0, 4, length).astype(float)
        scores[at, :length] = torch.tensor(own)
        target[at, :length] = torch.tensor(relevance)
        expected.append(by_loops(name, own.tolist(), relevance.tolist()))
    found = loss_of(name).rows(scores, target)
    assert found.tolist() == pytest.approx(expected, abs=1e-6)
    whole = loss_of(name).total(scores, target)
    assert float(whole.sum) == pytest.approx(sum(expected), abs=1e-5)
    assert whole.targets == 3


def dataset() -> QueryDataset:
    draw = np.random.default_rng(1)
    queries = np.concatenate([np.arange(QUERIES), draw.integers(0, QUERIES, ROWS - QUERIES)])
    numeric = draw.normal(size=(ROWS, 3)).astype(np.float32)
    inputs = TableInputs(numeric, draw.integers(0, 4, (ROWS, 1)))
    places = np.arange(ROWS)
    relevance = draw.integers(0, 3, ROWS).astype(np.float64)
    part = Part("train", pl.DataFrame(), inputs, relevance, places, queries)
    return QueryDataset(part, queries, CPU)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.codes = nn.Embedding(4, 2, dtype=torch.float64)
        self.last = nn.Linear(5, 1, dtype=torch.float64)

    def forward(self, numeric: Tensor, categories: Tensor) -> Tensor:
        both = torch.cat([numeric.double(), self.codes(categories)[:, 0]], dim=1)
        return self.last(torch.tanh(both))


def feed_of(batch: int, accumulate: int, share: RankShare = WHOLE) -> Feed:
    store = dataset()
    return Feed(
        store,
        batch,
        accumulate,
        seed=5,
        count_targets=query_targets,
        forming=QueryBatches(store),
        share=share,
        targets_of=store.count_targets,
    )


def trained(name: str, batch: int, accumulate: int) -> list[Tensor]:
    feed, model = feed_of(batch, accumulate), Net()
    step = OptimizerStep(model, ByQuery(loss_of(name)), torch.optim.SGD(model.parameters(), lr=0.5))
    for _ in range(6):
        step(feed.next_step())
    return [one.detach().clone() for one in model.parameters()]


@pytest.mark.parametrize("name", ["listnet", "ranknet"])
@pytest.mark.parametrize(("batch", "accumulate"), [(4, 2), (2, 4), (1, 8), (3, 3)])
def test_how_a_step_is_cut_changes_nothing(name: str, batch: int, accumulate: int) -> None:
    whole = trained(name, batch * accumulate, 1)
    cut = trained(name, batch, accumulate)
    assert all(
        torch.allclose(one, other, atol=1e-12) for one, other in zip(whole, cut, strict=True)
    )
    assert not torch.allclose(whole[1], Net().last.weight)


@pytest.mark.parametrize("ranks", [2, 3])
def test_the_losses_of_ranks_add_up_to_that_of_one_process(ranks: int) -> None:
    model, objective = Net(), ByQuery(loss_of("listnet"))
    alone = feed_of(5, 2 * ranks)
    shares = [feed_of(5, 2, RankShare(rank, ranks)) for rank in range(ranks)]
    for _ in range(4):
        whole, parts = alone.next_step(), [one.next_step() for one in shares]
        assert {one.targets for one in parts} == {whole.targets} == {whole.rows}
        total = sum(float(objective(model, one).sum.detach()) for one in whole.micro_batches)
        added = sum(
            float(objective(model, one).sum.detach())
            for part in parts
            for one in part.micro_batches
            if len(one[0])
        )
        assert added == pytest.approx(total, abs=1e-12)


def test_a_micro_batch_holds_whole_queries_and_nothing_else() -> None:
    store = dataset()
    feed = feed_of(6, 1)
    seen: list[int] = []
    for _ in range(feed.steps_per_epoch):
        (batch,) = feed.next_step().micro_batches
        assert isinstance(batch, Batch)
        assert not isinstance(batch.mask, str)
        assert batch.mask.host.sum(dim=1).tolist() == store.lengths[batch.rows].tolist()
        for query, target, there in zip(batch.rows, batch.target, batch.mask.host, strict=True):
            start = store.starts[query]
            own = store.tensors["target"][start : start + store.lengths[query]]
            assert torch.equal(target[there], own)
        seen += batch.rows.tolist()
    assert sorted(seen) == list(range(QUERIES))


def test_a_seek_gives_the_same_queries_again() -> None:
    ours, again = feed_of(4, 2), feed_of(4, 2)
    works = [ours.next_step() for _ in range(5)]
    again.seek(works[2].samples)
    for work in works[3:]:
        for one, other in zip(again.next_step().micro_batches, work.micro_batches, strict=True):
            assert all(map(torch.equal, one, other))


def test_a_padded_row_has_no_say() -> None:
    model, objective = Net(), ByQuery(loss_of("listnet"))
    (batch,) = feed_of(8, 1).next_step().micro_batches
    assert not isinstance(batch.mask, str)
    changed = torch.where(batch.mask.tensor[:, :, None], batch["numeric"], 1e6)
    value = objective(model, batch).sum
    assert torch.equal(objective(model, batch.with_tensors(numeric=changed)).sum, value)
