"""Dataset of padded documents, and batches trimmed to their longest row. Needs torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import numpy as np
import torch

from trainwright.data.base.permutation import Positions
from trainwright.data.base.table import Integers, TokenInputs
from trainwright.data.loading.dataset import Batch
from trainwright.data.text.chunks import LongDocuments, cut_documents
from trainwright.data.text.padding import PaddedShapes

NO_TARGET = -100
"""Target of a padding position."""


@final
class PaddedDataset:
    """Documents, or pieces of long ones, as rows: (tokens int64 [B, W], target int64 [B, W]).

    A row begins with its tokens; behind them the target is `NO_TARGET`. W is the width of the
    longest row of all, so that what is made of a row does not depend on its batch; `Trimmed` cuts
    batches to their own width. The same in every epoch.
    """

    def __init__(
        self,
        inputs: TokenInputs,
        long: LongDocuments,
        shapes: PaddedShapes,
        device: torch.device,
    ) -> None:
        self.pieces = cut_documents(inputs.document_lengths(), shapes.context, long)
        self.rows = len(self.pieces.lengths)
        assert self.rows >= 2, "the plan refuses documents of fewer than two rows"
        self._tokens = inputs.tokens
        self._begins = inputs.document_starts()[self.pieces.documents] + self.pieces.offsets
        self.sources = inputs.sources.of(self._begins)
        self._width = int(shapes.widths(self.pieces.lengths.max()))
        self.shapes = shapes
        self._device = device
        self.row_bytes = 2 * 8 * self._width

    @property
    def lengths(self) -> Integers:
        """The tokens of each row that predict one, int64 [N]."""
        return self.pieces.lengths

    def take(self, epoch: int, rows: Positions) -> Batch:  # noqa: ARG002
        """The documents of these rows."""
        lengths = self.pieces.lengths[rows]
        ends = np.cumsum(lengths)
        row = np.repeat(np.arange(len(rows)), lengths)
        column = np.arange(int(ends[-1])) - np.repeat(ends - lengths, lengths)
        source = np.repeat(self._begins[rows], lengths) + column
        tokens = np.zeros((len(rows), self._width), dtype=np.int64)
        target = np.full((len(rows), self._width), NO_TARGET, dtype=np.int64)
        tokens[row, column] = self._tokens[source]
        target[row, column] = self._tokens[source + 1]
        first, last = (
            torch.from_numpy(one).to(self._device, non_blocking=True) for one in (tokens, target)
        )
        return first, last


@final
class Trimmed:
    """Micro-batches of rows [B, W] cut to the width of their longest row, (*inputs, lengths,
    target), each [B, w] but for `lengths` int64 [B], which stays on the host, so counting targets
    needs no device synchronisation.

    Args:
        lengths: of each row of the store, [N].
        shapes: how wide micro-batches are, and how many places they may have.
    """

    def __init__(self, lengths: Integers, shapes: PaddedShapes) -> None:
        self.lengths = lengths
        self._shapes = shapes

    def cut(self, rows: Positions, most: int) -> Sequence[int]:
        """The rows of each micro-batch of a step."""
        return self._shapes.cut(self.lengths[rows], most)

    def form(self, batch: Batch, rows: Positions) -> Batch:
        """The micro-batch of these rows."""
        lengths = self.lengths[rows]
        width = int(self._shapes.widths(lengths.max(initial=1)))
        *inputs, target = (one[:, :width].contiguous() for one in batch)
        return (*inputs, torch.from_numpy(lengths), target)

    def widest(self, most: int) -> Positions:
        """The rows of the widest micro-batch of at most so many: the longest ones."""
        longest = np.argsort(-self.lengths, kind="stable")[:most]
        return longest[: self.cut(longest, most)[0]]


def padded_targets(batch: Batch) -> int:
    """Targets of a micro-batch, counted on the host."""
    return int(batch[-2].sum())
