"""Pairs as datasets: images with texts, images with captions, queries with passages. Needs
torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from trainwright.data.base.counter_rng import Positions, even_pieces
from trainwright.data.base.inputs import Integers
from trainwright.data.base.pair_inputs import TextPairInputs
from trainwright.data.base.token_inputs import TextInputs, TokenInputs
from trainwright.data.loading.augment import ImageDataset
from trainwright.data.loading.batch import Batch
from trainwright.data.loading.document_dataset import PaddedDataset
from trainwright.data.text.padding import PaddedShapes

_OF_TEXTS = ("input_ids", "attention_mask")
_SIDES = ("query", "passage", "negative")


@final
class PairDataset:
    """N pairs: `pixels` as an `ImageDataset` augments them, `input_ids` and `attention_mask` int64
    [B, W], W the width of the longest caption of all, and `target` int64 [B, 2], the codes of image
    and caption."""

    def __init__(self, images: ImageDataset, texts: TextInputs, device: torch.device) -> None:
        self._images = images
        self._texts = texts
        self._device = device
        self._width = int(texts.lengths.max(initial=1))
        self.rows = images.rows
        self.row_bytes = images.row_bytes + 16 * self._width

    @property
    def lengths(self) -> Integers:
        """Tokens of each caption, int64 [N]."""
        return self._texts.lengths

    def take(self, epoch: int, rows: Positions) -> Batch:
        """These pairs."""
        images = self._images.take(epoch, rows)
        arrays = self._texts.padded(rows, self._width)
        texts = {name: torch.from_numpy(arrays[name]).to(self._device) for name in _OF_TEXTS}
        tensors = {"pixels": images["pixels"], **texts, "target": images["target"]}
        return Batch(tensors, rows=rows)


@final
class PairBatches:
    """Micro-batches of pairs whose captions are cut to the width of the longest one.

    Args:
        lengths: of each caption of the store, [N].
    """

    def __init__(self, lengths: Integers) -> None:
        self.lengths = lengths

    def cut(self, rows: Positions, most: int) -> Sequence[int]:
        """As few as there can be, of equal sizes."""
        return even_pieces(len(rows), most)

    def form(self, batch: Batch, rows: Positions) -> Batch:
        """The micro-batch of these pairs."""
        width = int(self.lengths[rows].max(initial=1))
        cut: dict[str, Tensor] = {name: batch[name][:, :width].contiguous() for name in _OF_TEXTS}
        return batch.with_tensors(**cut)

    def widest(self, most: int) -> Positions:
        """The micro-batch of at most so many pairs with the longest captions."""
        return np.argsort(-self.lengths, kind="stable")[:most]


@final
class CaptionDataset:
    """N captions: `tokens` and `target`, int64 [B, W], as a `PaddedDataset` makes them of whole
    rows, which are cut at the context, and `pixels` as an `ImageDataset` augments them."""

    def __init__(
        self, images: ImageDataset, texts: TokenInputs, context: int, device: torch.device
    ) -> None:
        self._images = images
        self._texts = PaddedDataset(texts, "cut", PaddedShapes(1, context), device)
        assert np.array_equal(self._texts.pieces.documents, np.arange(images.rows)), "one a row"
        self.rows = images.rows
        self.row_bytes = images.row_bytes + self._texts.row_bytes
        self.shapes = self._texts.shapes

    @property
    def lengths(self) -> Integers:
        """The tokens of each row that predict one, int64 [N]."""
        return self._texts.lengths

    def take(self, epoch: int, rows: Positions) -> Batch:
        """The captions of these rows with their images."""
        texts = self._texts.take(epoch, rows)
        pixels = self._images.take(epoch, rows)["pixels"]
        tensors = {"tokens": texts["tokens"], "pixels": pixels, "target": texts["target"]}
        return Batch(tensors, rows=rows, mask=texts.mask)

    def count_targets(self, epoch: int, rows: Positions) -> int:
        """Targets of these rows."""
        return self._texts.count_targets(epoch, rows)


@final
class TextPairDataset:
    """N text pairs: `query_ids`, `query_mask`, `passage_ids` and `passage_mask` int64 [B, W], with
    K hard negatives `negative_ids` and `negative_mask` [B, K, W], W the width of the longest text
    of all, and `target` int64 [B, 2 + K + M], the codes of `learned_codes`."""

    def __init__(
        self, inputs: TextPairInputs, target: npt.NDArray[np.int64], device: torch.device
    ) -> None:
        self._inputs = inputs
        self._target = torch.from_numpy(np.ascontiguousarray(target)).to(device)
        self._device = device
        each = (inputs.queries, inputs.passages, *inputs.negatives)
        self.widths = {
            "query": inputs.queries.lengths,
            "passage": inputs.passages.lengths,
            "negative": _longest(inputs.negatives, len(inputs)),
        }
        self._width = max(int(one.lengths.max(initial=1)) for one in each)
        self.rows = len(inputs)
        self.row_bytes = 16 * self._width * len(each) + 8 * target.shape[1]

    @property
    def lengths(self) -> Integers:
        """Tokens of the longest text of each pair, int64 [N]."""
        return np.asarray(np.stack(list(self.widths.values())).max(axis=0))

    def take(self, _epoch: int, rows: Positions) -> Batch:
        """These pairs."""
        tensors: dict[str, Tensor] = {}
        for side, texts in (("query", self._inputs.queries), ("passage", self._inputs.passages)):
            arrays = texts.padded(rows, self._width)
            tensors[f"{side}_ids"] = self._tensor(arrays["input_ids"])
            tensors[f"{side}_mask"] = self._tensor(arrays["attention_mask"])
        if self._inputs.negatives:
            hard = [one.padded(rows, self._width) for one in self._inputs.negatives]
            for name, array in (("ids", "input_ids"), ("mask", "attention_mask")):
                stacked = np.stack([one[array] for one in hard], axis=1)
                tensors[f"negative_{name}"] = self._tensor(stacked)
        at = torch.from_numpy(np.asarray(rows, np.int64)).to(self._device)
        return Batch({**tensors, "target": self._target[at]}, rows=rows)

    def _tensor(self, array: npt.NDArray[np.int64]) -> Tensor:
        return torch.from_numpy(array).to(self._device)


@final
class TextPairBatches:
    """Micro-batches of text pairs, each side cut to the width of its longest text."""

    def __init__(self, store: TextPairDataset) -> None:
        self._widths = store.widths
        self._lengths = store.lengths

    def cut(self, rows: Positions, most: int) -> Sequence[int]:
        """As few as there can be, of equal sizes."""
        return even_pieces(len(rows), most)

    def form(self, batch: Batch, rows: Positions) -> Batch:
        """The micro-batch of these pairs."""
        cut: dict[str, Tensor] = {}
        for side in _SIDES:
            width = int(self._widths[side][rows].max(initial=1))
            for name in (f"{side}_ids", f"{side}_mask"):
                if name in batch:
                    cut[name] = batch[name][..., :width].contiguous()
        return batch.with_tensors(**cut)

    def widest(self, most: int) -> Positions:
        """The micro-batch of at most so many pairs with the longest texts."""
        return np.argsort(-self._lengths, kind="stable")[:most]


def _longest(texts: Sequence[TextInputs], rows: int) -> Integers:
    """Tokens of the longest text of each row [N]."""
    if not texts:
        return np.ones(rows, dtype=np.int64)
    return np.asarray(np.stack([one.lengths for one in texts]).max(axis=0))
