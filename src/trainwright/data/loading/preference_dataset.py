"""Dataset of pairs of answers. Needs torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import numpy as np
import torch

from trainwright.data.base.counter_rng import Positions, even_pieces
from trainwright.data.base.token_inputs import PreferenceInputs
from trainwright.data.loading.batch import Batch
from trainwright.data.loading.document_dataset import NO_TARGET, TokenPlaces, document_batch
from trainwright.data.text.documents import count_within
from trainwright.data.text.padding import PaddedShapes


@final
class PreferenceDataset:
    """Pairs as rows: `tokens` and `target`, int64 [B, 2, W], of the chosen answer before the
    rejected one; `reference` and `scale`, float32 [B, 2]. The target is `NO_TARGET` but for the
    tokens of the answers. The same in every epoch."""

    def __init__(self, inputs: PreferenceInputs, device: torch.device) -> None:
        self._inputs = inputs
        self._sizes = inputs.tokens_of_documents()
        self.lengths = self._sizes.reshape(-1, 2).max(axis=1) - 1
        self.rows = len(inputs)
        self._width = int(self.lengths.max())
        self._device = device
        self.row_bytes = 4 * 8 * self._width

    def take(self, epoch: int, rows: Positions) -> Batch:  # noqa: ARG002
        """These pairs."""
        inputs, width = self._inputs, self._width
        both = np.stack([2 * rows, 2 * rows + 1], axis=1).reshape(-1)
        sizes, answers = self._sizes[both] - 1, inputs.answers
        row, column = np.repeat(np.arange(len(both)), sizes), count_within(sizes)
        ends = answers.starts[both] + answers.lengths[both]
        source = np.repeat(ends - sizes - 1, sizes) + column
        places = TokenPlaces(row, column, column, source)
        batch = document_batch(answers, both, width, places, self._device)
        answered = np.arange(width) >= (sizes - answers.lengths[both])[:, None]
        counted = torch.from_numpy(answered).to(self._device)
        numbers = {
            name: torch.from_numpy(values[both].astype(np.float32)).view(-1, 2).to(self._device)
            for name, values in (("reference", inputs.reference), ("scale", inputs.scale))
        }
        target = batch["target"].where(counted, NO_TARGET)
        shape = (len(rows), 2, width)
        tensors = {"tokens": batch["tokens"].view(shape), "target": target.view(shape), **numbers}
        return Batch(tensors, target="target", rows=rows)


@final
class PreferenceBatches:
    """Micro-batches of pairs cut to the width of the longest answer with its prompt.

    Args:
        lengths: of each pair, [N].
        shapes: the widths that batches may have.
    """

    def __init__(self, lengths: Positions, shapes: PaddedShapes) -> None:
        self.lengths = lengths
        self._shapes = shapes

    def cut(self, rows: Positions, most: int) -> Sequence[int]:
        """As few micro-batches as there can be."""
        return even_pieces(len(rows), most)

    def form(self, batch: Batch, rows: Positions) -> Batch:
        """The micro-batch of these rows."""
        width = int(self._shapes.widths(self.lengths[rows].max(initial=1)))
        short = {name: batch[name][:, :, :width].contiguous() for name in ("tokens", "target")}
        return batch.with_tensors(**short)

    def widest(self, most: int) -> Positions:
        """The rows of the widest micro-batch of at most so many."""
        return np.argsort(-self.lengths, kind="stable")[:most]
