"""Images with captions to write as a dataset. Needs torch."""

from __future__ import annotations

from typing import final

import numpy as np
import torch

from trainwright.data.base.inputs.token_inputs import TokenInputs
from trainwright.data.base.permutation import Positions
from trainwright.data.base.table import Integers
from trainwright.data.loading.augment import ImageDataset
from trainwright.data.loading.batch import Batch
from trainwright.data.loading.padded_dataset import PaddedDataset
from trainwright.data.text.padding import PaddedShapes


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
