"""Workers beside a GPU: the bits of the host's store, copied on a stream of their own."""

from __future__ import annotations

import os
import signal
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from contract_runs import train  # noqa: E402
from made_data import make_images  # noqa: E402
from trainwright.contract.sections.data.images import Augment  # noqa: E402
from trainwright.data.base.token_inputs import TokenInputs  # noqa: E402
from trainwright.data.loading.augment import ImageDataset  # noqa: E402
from trainwright.data.loading.document_dataset import PackedBatches, PackedDataset  # noqa: E402
from trainwright.data.loading.feed import Feed  # noqa: E402
from trainwright.data.loading.worker_pool import Workers  # noqa: E402

pytestmark = pytest.mark.gpu

DEVICE = torch.device("cuda")
ROWS = 4000
EVERYTHING = Augment(flip=True, crop=2, cutout=4, mixup=0.4, cutmix=1.0)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainwright.data.loading.feed._BLOCK_BYTES", 2**20)


def store() -> ImageDataset:
    pixels = np.random.default_rng(0).integers(1, 255, (ROWS, 3, 16, 16), np.uint8)
    return ImageDataset(torch.from_numpy(pixels), torch.arange(ROWS), EVERYTHING, seed=5)


def with_workers(count: int, pin_memory: bool = True) -> Feed:
    return Feed(Workers(store(), count, device=DEVICE, pin_memory=pin_memory), 64, seed=3)


def same(one: Feed, other: Feed, steps: int) -> None:
    for _ in range(steps):
        ours, theirs = one.next_step(), other.next_step()
        assert ours.samples == theirs.samples
        for a, b in zip(ours.micro_batches, theirs.micro_batches, strict=True):
            for x, y in zip(a, b, strict=True):
                assert x.is_cuda
                # Something long is in line on the device: a copy that is not waited for shows.
                torch.cuda._sleep(100_000)
                assert torch.equal(x.cpu(), y)


@pytest.mark.parametrize("pin_memory", [True, False])
@pytest.mark.parametrize("count", [1, 3])
def test_the_bits_are_those_of_the_host(count: int, pin_memory: bool) -> None:
    with closing(with_workers(count, pin_memory)) as feed:
        same(feed, Feed(store(), 64, seed=3), 150)


def test_a_batch_that_is_kept_is_not_written_over() -> None:
    with closing(with_workers(2)) as feed:
        kept = [feed.next_step() for _ in range(100)]
        other = Feed(store(), 64, seed=3)
        for step in kept:
            for x, y in zip(step.micro_batches[0], other.next_step().micro_batches[0], strict=True):
                assert torch.equal(x.cpu(), y)


def test_a_killed_worker_changes_nothing_on_a_gpu() -> None:
    with closing(with_workers(2)) as feed:
        other = Feed(store(), 64, seed=3)
        same(feed, other, 20)
        os.kill(feed._loader._workers[1].pid, signal.SIGKILL)
        same(feed, other, 100)


def test_the_next_block_is_on_its_way_before_it_is_taken() -> None:
    with closing(with_workers(2)) as feed:
        feed.next_step()
        time.sleep(1.0)
        feed.next_step()
        assert len(feed._loader._landed) == 1


def test_nothing_waits_for_the_device_within_a_block() -> None:
    with closing(with_workers(2)) as feed:
        for _ in range(40):
            feed.next_step()
        torch.cuda.set_sync_debug_mode("error")
        try:
            for _ in range(60):
                feed.next_step()
        finally:
            torch.cuda.set_sync_debug_mode("default")


CONTRACT = """
data: {kind: images, path: pictures, augment: {flip: true, crop: 2, cutout: 3}}
model: {kind: resnet, width: 8, blocks: [1]}
training: {num_epochs: 2, batch_size: 16, early_stopping: off}
metric: {target: 0.1, resamples: 100}
"""


def test_a_run_with_workers_has_the_losses_of_one_without(tmp_path: Path) -> None:
    make_images(tmp_path / "pictures")
    contract = tmp_path / "work.yaml"
    contract.write_text(CONTRACT)
    losses = [
        train(contract, f"of-{count}", f"data.num_workers={count}").signals["loss"]
        for count in (0, 2)
    ]
    assert losses[0] == losses[1]


def test_the_counts_of_packed_windows_stay_on_the_host() -> None:
    tokens, begins = np.arange(4000, dtype=np.uint16), np.arange(0, 4000, 10)
    text = TokenInputs(tokens, begins, np.full(400, 9), begins)
    store = PackedDataset(text, 32, "split", torch.device("cpu"))
    forming = PackedBatches(store.packing)
    loader = Workers(store, 2, device=DEVICE, pin_memory=True)
    with closing(Feed(loader, 8, count_targets=padded_targets, forming=forming)) as feed:
        for _ in range(20):
            step = feed.next_step()
            batch = step.micro_batches[0]
            inputs, positions, target = batch
            assert inputs.is_cuda
            assert positions.is_cuda
            assert target.is_cuda
            assert batch.mask.tensor.is_cuda
            assert not batch.mask.host.is_cuda
            assert step.targets == batch.mask.targets
