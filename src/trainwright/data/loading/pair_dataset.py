"""Image-text pairs as a dataset. Needs torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import numpy as np
import torch
from torch import Tensor

from trainwright.data.base.inputs.text_inputs import TextInputs
from trainwright.data.base.permutation import Positions, even_pieces
from trainwright.data.base.table import Integers
from trainwright.data.loading.augment import ImageDataset
from trainwright.data.loading.batch import Batch

_OF_TEXTS = ("input_ids", "attention_mask")


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
