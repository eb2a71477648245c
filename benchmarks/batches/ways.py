"""Ways to get batches of rows, tokens and images: ours, and those that people write."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, TensorDataset

from trainwright.contract.sections.data.images import Augment
from trainwright.data.base.token_inputs import TokenInputs
from trainwright.data.images.mnist import read_idx
from trainwright.data.loading.augment import ImageDataset
from trainwright.data.loading.batch import Batch
from trainwright.data.loading.dataset import TensorRowDataset, WindowDataset
from trainwright.data.loading.feed import Feed
from trainwright.data.loading.pixel_rows import ResidentPixels

ROWS, NUMBERS, CODES, TABLE_BATCH = 50_000, 24, 8, 256
TOKENS, CONTEXT, TOKEN_BATCH = 10_000_000, 256, 32
IMAGES, IMAGE_BATCH, PADDING = 20_000, 128, 2

Batches = Iterator[tuple[Tensor, ...]]


@dataclass(frozen=True)
class Way:
    """One way to get batches; the first of a case is ours. `goal` is how many times ours must be as
    fast."""

    name: str
    batches: Batches
    goal: float = 0.0


@dataclass(frozen=True)
class Case:
    """Ways that deliver the same kind of batch; `turn` batches of each are taken in turns."""

    name: str
    what: str
    ways: tuple[Way, ...]
    turn: int


def ours(feed: Feed) -> Batches:
    """Without end."""
    while True:
        yield from feed.next_step().micro_batches


def endless(loader: DataLoader[tuple[Tensor, ...]]) -> Batches:
    """Epoch after epoch of a DataLoader."""
    while True:
        yield from map(tuple, loader)


def rows() -> Case:
    """A table in memory."""
    draw = torch.Generator().manual_seed(0)
    numbers = torch.randn(ROWS, NUMBERS, generator=draw)
    codes = torch.randint(0, 50, (ROWS, CODES), generator=draw)
    target = torch.randint(0, 2, (ROWS,), generator=draw)
    tensors = (numbers, codes, target)

    def by_hand() -> Batches:
        while True:
            order = torch.randperm(ROWS, generator=draw)
            for start in range(0, ROWS, TABLE_BATCH):
                chosen = order[start : start + TABLE_BATCH]
                yield tuple(tensor[chosen] for tensor in tensors)

    loader = DataLoader(TensorDataset(*tensors), TABLE_BATCH, shuffle=True, generator=draw)
    return Case(
        "rows of a table",
        f"{ROWS:,} rows of {NUMBERS} numbers, {CODES} codes and a target; batches of {TABLE_BATCH}",
        (
            Way("ours", ours(Feed(tensors, TABLE_BATCH))),
            Way("DataLoader over a TensorDataset", endless(loader), 20.0),
            Way("slicing tensors by hand", by_hand(), 1.0),
        ),
        -(-ROWS // TABLE_BATCH),
    )


def tokens(folder: Path) -> Case:
    """A file of tokens."""
    file = folder / "tokens.bin"
    np.random.default_rng(0).integers(0, 50_000, TOKENS).astype("<u2").tofile(file)
    draw = torch.Generator().manual_seed(0)

    def nano_gpt() -> Batches:
        # `get_batch` of nanoGPT's train.py: the map is made anew for each batch.
        while True:
            data = np.memmap(file, dtype=np.uint16, mode="r")
            ix = torch.randint(len(data) - CONTEXT, (TOKEN_BATCH,), generator=draw)
            x = [torch.from_numpy(data[i : i + CONTEXT].astype(np.int64)) for i in ix]
            y = [torch.from_numpy(data[i + 1 : i + 1 + CONTEXT].astype(np.int64)) for i in ix]
            yield torch.stack(x), torch.stack(y)

    mapped = np.memmap(file, dtype="<u2", mode="r")
    inputs = TokenInputs(mapped, np.array([1]), np.array([TOKENS - 1]))
    store = WindowDataset(inputs, CONTEXT, device=torch.device("cpu"))
    return Case(
        "tokens of a file",
        f"{TOKENS:,} tokens, batches of {TOKEN_BATCH} x {CONTEXT}",
        (Way("ours", ours(Feed(store, TOKEN_BATCH))), Way("nanoGPT's memmap", nano_gpt(), 1.0)),
        400,
    )


class Changed(Dataset[tuple[Tensor, ...]]):
    """Images one by one, each put in a black frame, cut out of it at random, and mirrored or not:
    RandomCrop and RandomHorizontalFlip as torchvision makes them."""

    def __init__(self, pixels: Tensor, labels: Tensor) -> None:
        self._pixels, self._labels = pixels, labels

    def __len__(self) -> int:
        return len(self._pixels)

    def __getitem__(self, index: int) -> tuple[Tensor, ...]:
        image = self._pixels[index]
        height, width = image.shape[1:]
        framed = torch.nn.functional.pad(image, [PADDING] * 4)
        top = int(torch.randint(0, 2 * PADDING + 1, (1,)))
        left = int(torch.randint(0, 2 * PADDING + 1, (1,)))
        image = framed[:, top : top + height, left : left + width]
        if torch.rand(1) < 0.5:
            image = image.flip(-1)
        return image, self._labels[index]


def images(data: Path) -> Case:
    """The first images of Fashion-MNIST."""
    read = [
        torch.from_numpy(read_idx(data / f"train-{name}-ubyte.gz", name, dimensions).values.copy())
        for name, dimensions in (("images-idx3", 3), ("labels-idx1", 1))
    ]
    pixels, labels = read[0][:IMAGES, None], read[1][:IMAGES].long()
    store = ImageDataset(ResidentPixels(pixels), labels, Augment(flip=True, crop=PADDING), seed=0)
    loader = DataLoader(Changed(pixels, labels), IMAGE_BATCH, shuffle=True)
    return Case(
        "changed images",
        f"{IMAGES:,} of Fashion-MNIST, flipped and cropped; batches of {IMAGE_BATCH}",
        (
            Way("ours", ours(Feed(store, IMAGE_BATCH))),
            Way("DataLoader with the same transforms", endless(loader), 2.0),
        ),
        -(-IMAGES // IMAGE_BATCH),
    )


class Arithmetic:
    """A store whose rows are their own numbers: so many that no memory would hold them."""

    row_bytes = 8

    def __init__(self, count: int) -> None:
        self.rows = count

    def take(self, epoch: int, chosen: np.ndarray) -> Batch:  # noqa: ARG002
        return (torch.from_numpy(chosen),)


SEEK_TO = 10**9


def seeks() -> dict[str, Callable[[], object]]:
    """The next step after a seek to the beginning and to sample 10^9: of a small table, which has
    thousands of epochs behind it then, and of one with four times as many rows."""
    small = Feed(TensorRowDataset([torch.arange(ROWS)]), TABLE_BATCH)
    large = Feed(Arithmetic(4 * SEEK_TO), TABLE_BATCH)

    def seek(feed: Feed, position: int) -> Callable[[], object]:
        def go() -> object:
            feed.seek(position)
            return feed.next_step()

        return go

    whole = SEEK_TO // ROWS * ROWS
    return {
        name: seek(feed, position)
        for name, (feed, position) in itertools.chain(
            {
                "small, 0": (small, 0),
                "small, 10^9": (small, whole),
                "large, 0": (large, 0),
                "large, 10^9": (large, SEEK_TO),
            }.items()
        )
    }
