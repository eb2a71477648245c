"""Dataset of packed documents. Needs torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import numpy as np
import torch

from trainwright.data.base.inputs.token_inputs import TokenInputs
from trainwright.data.base.permutation import Positions, even_pieces
from trainwright.data.base.table import Integers
from trainwright.data.loading.batch import Batch
from trainwright.data.loading.document_batch import (
    TokenPlaces,
    count_document_targets,
    document_batch,
)
from trainwright.data.text.chunks import LongDocuments, count_within
from trainwright.data.text.packing import Packing, pack_inputs


@final
class PackedDataset:
    """Documents packed into windows: `tokens`, `positions` and `target`, each [B, L];
    `PackedBatches` masks the positions without a target.

    `positions` (int64) count from 0 on in each piece of a document, so a 0 says where one begins;
    places without a token are pieces of one place each. Which documents share a window is the same
    in every epoch, and the order of the windows is not. A window is of one source.
    """

    def __init__(
        self, inputs: TokenInputs, context: int, long: LongDocuments, device: torch.device
    ) -> None:
        self.packing = pack_inputs(inputs, context, long)
        self.rows = len(self.packing.ends)
        assert self.rows >= 2, "the plan refuses documents of fewer than two windows"
        self._inputs = inputs
        self._filled = window_targets(self.packing)
        self._begins = inputs.document_starts()[self.packing.documents] + self.packing.offsets
        self._device = device
        self.row_bytes = (3 * 8 + inputs.beside_bytes) * context

    @property
    def sources(self) -> Integers:
        """The source of each window, int64 [N]."""
        return self.packing.sources

    def take(self, epoch: int, rows: Positions) -> Batch:  # noqa: ARG002
        """The windows of these rows."""
        width, places = self.packing.context, self._places(rows)
        return document_batch(self._inputs, rows, width, places, self._device, positions=True)

    def count_targets(self, epoch: int, rows: Positions) -> int:  # noqa: ARG002
        """Targets of these windows."""
        return count_document_targets(self._inputs, self._places(rows))

    def _places(self, rows: Positions) -> TokenPlaces:
        ends, filled = self.packing.ends, self._filled[rows]
        firsts = np.where(rows > 0, ends[rows - 1], 0)
        counts = ends[rows] - firsts
        pieces = np.repeat(firsts, counts) + count_within(counts)
        lengths = self.packing.lengths[pieces]
        within = count_within(lengths)
        row, column = np.repeat(np.arange(len(rows)), filled), count_within(filled)
        return TokenPlaces(row, column, within, np.repeat(self._begins[pieces], lengths) + within)


@final
class PackedBatches:
    """Micro-batches of packed windows, masked where a window has no token. The mask follows from
    the packing, so it is known on the host."""

    def __init__(self, packing: Packing) -> None:
        self._filled = window_targets(packing)
        self._context = packing.context

    def cut(self, rows: Positions, most: int) -> Sequence[int]:
        """As few micro-batches as there can be."""
        return even_pieces(len(rows), most)

    def form(self, batch: Batch, rows: Positions) -> Batch:
        """The micro-batch of these rows: windows are filled from their beginning."""
        counted = np.arange(self._context) < self._filled[rows][:, None]
        return batch.with_mask(torch.from_numpy(counted))


def window_targets(packing: Packing) -> Integers:
    """Targets of each window, int64 [W]."""
    starts = np.concatenate([[0], packing.ends[:-1]])
    return np.add.reduceat(packing.lengths, starts)
