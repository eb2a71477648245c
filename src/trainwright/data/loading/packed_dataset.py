"""Dataset of packed documents. Needs torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import numpy as np
import torch

from trainwright.data.base.permutation import Positions, even_pieces
from trainwright.data.base.table import Integers, TokenInputs
from trainwright.data.loading.batch import Batch
from trainwright.data.loading.document_batch import document_batch
from trainwright.data.text.chunks import LongDocuments
from trainwright.data.text.packing import Packing, pack_inputs

NO_TARGET = -100
"""Target of a padding position."""


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
        self._tokens = inputs.tokens
        self._mask = inputs.mask
        self._filled = window_targets(self.packing)
        self._begins = inputs.document_starts()[self.packing.documents] + self.packing.offsets
        self._device = device
        self.row_bytes = 3 * 8 * context

    @property
    def sources(self) -> Integers:
        """The source of each window, int64 [N]."""
        return self.packing.sources

    def take(self, epoch: int, rows: Positions) -> Batch:  # noqa: ARG002
        """The windows of these rows."""
        within, source = self._places(rows)
        filled = self._filled[rows]
        row, column = np.repeat(np.arange(len(rows)), filled), _running(filled)
        shape = (len(rows), self.packing.context)
        tokens, positions = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
        target = np.full(shape, NO_TARGET, dtype=np.int64)
        tokens[row, column] = self._tokens[source]
        target[row, column] = self._tokens[source + 1]
        positions[row, column] = within
        arrays = {"tokens": tokens, "positions": positions, "target": target}
        return document_batch(arrays, rows, self._device, self._mask, (row, column, source))

    def count_targets(self, epoch: int, rows: Positions) -> int:  # noqa: ARG002
        """Targets of these windows."""
        if isinstance(self._mask, str):
            return int(self._filled[rows].sum())
        return int(np.count_nonzero(self._mask[self._places(rows)[1] + 1]))

    def _places(self, rows: Positions) -> tuple[Positions, Positions]:
        """Of each token that predicts one its position in its piece and in the text."""
        ends = self.packing.ends
        firsts = np.where(rows > 0, ends[rows - 1], 0)
        counts = ends[rows] - firsts
        pieces = np.repeat(firsts, counts) + _running(counts)
        lengths = self.packing.lengths[pieces]
        within = _running(lengths)
        return within, np.repeat(self._begins[pieces], lengths) + within


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


def _running(counts: Positions) -> Positions:
    """0, 1, ... up to each count, one after the other."""
    ends = np.cumsum(counts)
    return np.arange(int(counts.sum())) - np.repeat(ends - counts, counts)
