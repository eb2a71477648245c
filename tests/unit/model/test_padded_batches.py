"""A padded batch gives what each document alone gives, and padding counts for nothing."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from trainwright.contract.sections.model.gpt import Gpt  # noqa: E402
from trainwright.data.base.token_inputs import TokenInputs  # noqa: E402
from trainwright.data.encoders.vocabulary import TextVocabulary  # noqa: E402
from trainwright.data.loading.document_dataset import (  # noqa: E402  # noqa: E402
    NO_TARGET,
    PackedBatches,
    PackedDataset,
    PaddedDataset,
    Trimmed,
    padded_targets,
)
from trainwright.data.loading.feed import Feed  # noqa: E402
from trainwright.data.sampling.length_buckets import BucketSampler  # noqa: E402
from trainwright.data.text.padding import PaddedShapes  # noqa: E402
from trainwright.data.text.prepare_text import document_part  # noqa: E402
from trainwright.data.text.token_file import EncodedText  # noqa: E402
from trainwright.engine.update.oom_policy import SplitOnOutOfMemory  # noqa: E402
from trainwright.engine.update.step import OptimizerStep  # noqa: E402
from trainwright.model.gpt.gpt_network import GptNetwork  # noqa: E402
from trainwright.model.input_shape import TokenShape  # noqa: E402
from trainwright.objective.classification_losses import CrossEntropyLoss  # noqa: E402
from trainwright.objective.losses import Padded, Supervised  # noqa: E402

pytestmark = pytest.mark.torch

CPU = torch.device("cpu")
CONTEXT, TOKENS = 24, 11
SHAPES = PaddedShapes(4, CONTEXT)


def network(positions: str = "rotary") -> GptNetwork:
    torch.manual_seed(3)
    section = Gpt(kind="gpt", layers=2, heads=2, width=16, context=CONTEXT, positions=positions)
    made = GptNetwork(section, TokenShape(TOKENS)).double()
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, 0.0, 0.4)
    return made


def documents(count: int = 200) -> TokenInputs:
    draw = np.random.default_rng(2)
    lengths = draw.integers(1, 40, count)
    total = int(lengths.sum())
    tokens = draw.integers(0, TOKENS, total).astype(np.uint16)
    text = EncodedText(tokens, TextVocabulary("bytes"), np.cumsum(lengths) - lengths)
    inputs = document_part(text, "train", 0, total).inputs
    assert isinstance(inputs, TokenInputs)
    return inputs


def padded_feed(batch: int, accumulate: int = 1, most: float = np.inf) -> Feed:
    shapes = PaddedShapes(4, CONTEXT, most)
    store = PaddedDataset(documents(), "split", shapes, CPU)
    return Feed(
        store,
        batch,
        accumulate,
        draws=BucketSampler(store.lengths, 3, 12, seed=1),
        forming=Trimmed(store.lengths, shapes),
        count_targets=padded_targets,
    )


def gradients(model: GptNetwork) -> list[torch.Tensor]:
    return [parameter.grad.clone() for parameter in model.parameters()]


def surprise_alone(model: GptNetwork, tokens: np.ndarray) -> float:
    """-log p of every token of a document but its first, by numpy from logits one prefix at a
    time: nothing that comes later, and no other row, is there to be seen."""
    total = 0.0
    for at in range(1, len(tokens)):
        with torch.no_grad():
            seen = torch.from_numpy(tokens[None, :at].astype(np.int64))
            logits = model(seen)[0, -1].numpy()
        total -= logits[tokens[at]] - np.log(np.exp(logits).sum())
    return total


@pytest.mark.parametrize("positions", ["rotary", "learned"])
def test_the_loss_is_that_of_each_token_alone(positions: str) -> None:
    model = network(positions).eval()
    inputs = documents()
    store = PaddedDataset(inputs, "cut", SHAPES, CPU)
    rows = np.array([0, 3, 7, 11, 12])
    batch = Trimmed(store.lengths, SHAPES).form(store.take(0, rows), rows)
    found = Padded(CrossEntropyLoss())(model, batch)
    starts = inputs.document_starts()
    begins = starts[store.pieces.documents[rows]]
    pieces = [
        inputs.tokens[begin : begin + size + 1]
        for begin, size in zip(begins, store.lengths[rows], strict=True)
    ]
    assert found.targets == sum(len(piece) - 1 for piece in pieces)
    alone = sum(surprise_alone(model, piece) for piece in pieces)
    assert found.sum.item() == pytest.approx(alone, rel=1e-12)


def test_an_epoch_weighs_each_token_as_packed_windows_do() -> None:
    model = network()
    padded = padded_feed(12)
    store = PackedDataset(documents(), CONTEXT, "split", CPU)
    packed = Feed(
        store, store.rows, count_targets=padded_targets, forming=PackedBatches(store.packing)
    )
    sums, counts, found = [], [], []
    for feed, objective in ((padded, Padded), (packed, Supervised)):
        total, targets = torch.zeros((), dtype=torch.float64), 0
        model.zero_grad()
        for _ in range(feed.steps_per_epoch):
            for batch in feed.next_step().micro_batches:
                loss = objective(CrossEntropyLoss(z_loss=0.01, label_smoothing=0.1))(model, batch)
                total, targets = total + loss.sum, targets + loss.targets
        (total / targets).backward()
        sums.append(total.item())
        counts.append(targets)
        found.append(gradients(model))
    assert counts[0] == counts[1]
    assert sums[0] == pytest.approx(sums[1], rel=1e-12)
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)


def test_what_stands_in_the_padding_changes_no_bit() -> None:
    model = network()
    batch = padded_feed(12).next_step().micro_batches[0]
    (tokens, target), lengths = batch, batch.mask.host.sum(dim=1)
    assert (target == NO_TARGET).any()
    objective = Padded(CrossEntropyLoss(z_loss=0.1))
    found = []
    for filler in (0, 5, 10):
        model.zero_grad()
        filled = torch.where(target == NO_TARGET, filler, tokens)
        loss = objective(model, (filled, lengths, target)).sum
        loss.backward()
        found.append((loss, gradients(model)))
    for loss, slopes in found[1:]:
        assert torch.equal(loss, found[0][0])
        for one, other in zip(slopes, found[0][1], strict=True):
            torch.testing.assert_close(one, other, rtol=0.0, atol=0.0)


@pytest.mark.parametrize(
    ("batch", "accumulate", "most"), [(6, 2, np.inf), (1, 12, np.inf), (12, 1, 64)]
)
def test_micro_batches_of_different_widths_make_the_same_update(
    batch: int, accumulate: int, most: float
) -> None:
    weights = []
    for size, count, places in ((12, 1, np.inf), (batch, accumulate, most)):
        model = network()
        step = OptimizerStep(
            model, Padded(CrossEntropyLoss()), torch.optim.SGD(model.parameters(), 0.1)
        )
        feed = padded_feed(size, count, places)
        widths = set()
        for _ in range(feed.steps_per_epoch):
            work = feed.next_step()
            widths |= {micro[0].shape[1] for micro in work.micro_batches}
            outcome = step(work)
            assert outcome.targets == work.targets
            assert outcome.places == work.places >= work.targets
        assert len(widths) > 1
        weights.append([parameter.detach().clone() for parameter in model.parameters()])
    for one, other in zip(*weights, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11)


def test_a_step_that_is_split_when_memory_runs_out_is_the_same() -> None:
    def trained(rows_that_fit: int) -> list[torch.Tensor]:
        model = network()
        objective = Padded(CrossEntropyLoss())

        def limited(model: torch.nn.Module, batch: tuple[torch.Tensor, ...]) -> object:
            if len(batch[0]) > rows_that_fit:
                raise torch.OutOfMemoryError("out of memory")
            return objective(model, batch)

        inner = OptimizerStep(model, limited, torch.optim.SGD(model.parameters(), 0.1))
        step = inner.handling_memory(SplitOnOutOfMemory())
        feed = padded_feed(12)
        for _ in range(3):
            step(feed.next_step())
        return [parameter.detach().clone() for parameter in model.parameters()]

    for one, other in zip(trained(12), trained(3), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11)


def test_a_mean_over_places_would_be_another_loss() -> None:
    """That the tests above can fail: padding is a large part of these batches."""
    model = network().eval()
    batch = padded_feed(12).next_step().micro_batches[0]
    (tokens, target), lengths = batch, batch.mask.host.sum(dim=1)
    right = Padded(CrossEntropyLoss())(model, (tokens, lengths, target))
    wrong = Supervised(CrossEntropyLoss())(model, (tokens, target.clamp_min(0)))
    assert wrong.targets > 1.05 * right.targets
    assert not torch.allclose(wrong.sum / wrong.targets, right.sum / right.targets)
