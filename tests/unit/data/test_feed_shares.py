"""A feed of several ranks: each fetches its own rows, and knows the targets of all."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from trainwright.core.errors import Mistake  # noqa: E402
from trainwright.data.base.token_inputs import TokenInputs  # noqa: E402
from trainwright.data.encoders.vocabulary import TextVocabulary  # noqa: E402
from trainwright.data.loading.batch import Batch, element_targets, row_targets  # noqa: E402
from trainwright.data.loading.dataset import TensorRowDataset, WindowDataset  # noqa: E402
from trainwright.data.loading.document_dataset import (  # noqa: E402  # noqa: E402
    PackedBatches,
    PackedDataset,
    PaddedDataset,
    Trimmed,
)
from trainwright.data.loading.feed import AsStored, Collate, Feed, StepBatches  # noqa: E402
from trainwright.data.text.padding import PaddedShapes  # noqa: E402
from trainwright.data.text.prepare_text import document_part, token_part  # noqa: E402
from trainwright.data.text.token_file import EncodedText  # noqa: E402
from trainwright.distributed.rank_share import WHOLE, RankShare  # noqa: E402
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


def feed(store: Fetched, rank: int, world_size: int, accumulate: int = 2) -> Feed:
    return Feed(
        store,
        2,
        accumulate,
        seed=3,
        count_targets=counted,
        share=RankShare(rank, world_size),
        targets_of=lambda _epoch, rows: int(store.lengths[rows].sum()),
    )


@pytest.mark.parametrize("world_size", [1, 2, 4])
def test_the_ranks_have_the_micro_batches_of_one_process(world_size: int) -> None:
    alone, store = feed(Fetched(), 0, 1, 4), [Fetched() for _ in range(world_size)]
    feeds = [feed(store[rank], rank, world_size, 4 // world_size) for rank in range(world_size)]
    for _ in range(2 * alone.steps_per_epoch):
        whole = alone.next_step()
        works = [one.next_step() for one in feeds]
        batches = []
        for work in works:
            assert work[1:5] == whole[1:5], "targets, rows, cursor and epoch are those of all"
            own = [batch for batch in work.micro_batches if len(batch[0])]
            assert list(work.before) == [len(one[0]) for one in batches] or not own
            assert len(own) == len(work.micro_batches) or len(work.micro_batches) == 1
            batches += own
        for found, expected in zip(batches, whole.micro_batches, strict=True):
            assert all(map(torch.equal, found, expected))
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
    last = Feed(
        [tokens, tokens],
        3,
        forming=trimmed,
        share=RankShare(0, 2),
        shuffle=False,
        targets_of=lambda _, rows: int(lengths[rows].sum()),
    )
    sizes = [len(one[0]) for one in last.next_step().micro_batches]
    assert sizes == [0]


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
        feed=feed(Fetched(), strategy.rank, strategy.world_size, 4 // strategy.world_size),
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


def masked_text() -> EncodedText:
    """Documents of 7 tokens, of which those of even number do not count."""
    tokens = np.random.default_rng(5).integers(0, 9, 301).astype(np.uint16)
    return EncodedText(tokens, TextVocabulary("bytes"), np.arange(0, 301, 7), tokens % 2 == 1)


def text_feed(windows: str, text: EncodedText, share: RankShare, accumulate: int = 1) -> Feed:
    device, shapes = torch.device("cpu"), PaddedShapes(multiple=1, context=6)
    inputs = TokenInputs.of_kind(document_part(text, "train", 0, len(text.tokens)).inputs)
    store: WindowDataset | PackedDataset | PaddedDataset
    forming: Collate = AsStored()
    if windows == "across":
        whole = token_part(text.tokens, "train", 0, len(text.tokens), text.mask)
        store = WindowDataset(TokenInputs.of_kind(whole.inputs), 6, device=device)
    elif windows == "packed":
        store = PackedDataset(inputs, 12, "split", device)
        forming = PackedBatches(store.packing)
    else:
        store = PaddedDataset(inputs, "split", shapes, device)
        forming = Trimmed(store.lengths, shapes)
    return Feed(
        store,
        4,
        accumulate,
        count_targets=element_targets,
        forming=forming,
        share=share,
        targets_of=store.count_targets,
    )


@pytest.mark.parametrize("windows", ["across", "packed", "padded"])
@pytest.mark.parametrize("is_masked", [True, False])
def test_the_ranks_count_the_targets_of_a_text_that_are_not_masked(
    windows: str, is_masked: bool
) -> None:
    text = masked_text()
    text = text if is_masked else replace(text, mask="all")
    alone = text_feed(windows, text, WHOLE, 3)
    ranks = [text_feed(windows, text, RankShare(rank, 3)) for rank in range(3)]
    # Two epochs, as windows begin elsewhere in each of them.
    for _ in range(2 * alone.steps_per_epoch):
        whole, works = alone.next_step(), [one.next_step() for one in ranks]
        counted = [element_targets(batch) for work in works for batch in work.micro_batches]
        assert [work.targets for work in works] == [whole.targets] * 3
        assert sum(counted) == whole.targets
        assert isinstance(whole.micro_batches[0].mask, str) is (
            windows == "across" and not is_masked
        )


@pytest.mark.parametrize("windows", ["across", "packed", "padded"])
def test_a_rank_without_a_row_of_a_whole_block(windows: str) -> None:
    first = text_feed(windows, masked_text(), RankShare(0, 3))
    first.seek(first.rows - 1)
    work = first.next_step()
    assert (work.rows, [len(batch[0]) for batch in work.micro_batches]) == (1, [0])
    assert element_targets(work.micro_batches[0]) == 0 < work.targets


@pytest.mark.parametrize("is_masked", [True, False])
def test_a_rank_refuses_targets_that_it_can_not_count(is_masked: bool) -> None:
    x, y = torch.randn(6, 2), torch.randn(6, 2)
    rows = Batch({"x": x, "target": y}, mask=y > 0) if is_masked else Batch({"x": x, "target": y})
    count = row_targets if is_masked else element_targets
    share = RankShare(1, 2)
    with pytest.raises(Mistake, match="the targets of the other ranks"):
        Feed(rows, 4, count_targets=count, share=share).next_step()
    counts = (y > 0).sum(1).numpy()
    known = Feed(
        rows,
        6,
        count_targets=count,
        share=share,
        targets_of=lambda _, rows: int(counts[rows].sum()),
    )
    assert known.next_step().targets == int((y > 0).sum())
