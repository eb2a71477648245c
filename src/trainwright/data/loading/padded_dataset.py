"""Dataset of padded documents, and batches trimmed to their longest row. Needs torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import numpy as np
import torch

from trainwright.data.base.inputs.token_inputs import TokenInputs
from trainwright.data.base.permutation import Positions
from trainwright.data.base.table import Integers
from trainwright.data.loading.batch import Batch
from trainwright.data.loading.document_batch import (
    TokenPlaces,
    count_document_targets,
    document_batch,
)
from trainwright.data.text.chunks import LongDocuments, count_within, cut_documents
from trainwright.data.text.padding import PaddedShapes


@final
class PaddedDataset:
    """Documents, or pieces of long ones, as rows: `tokens` and `target`, int64 [B, W].

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
        self._inputs = inputs
        self._begins = inputs.document_starts()[self.pieces.documents] + self.pieces.offsets
        self.sources = inputs.sources.of(self._begins)
        self._width = int(shapes.widths(self.pieces.lengths.max()))
        self.shapes = shapes
        self._device = device
        self.row_bytes = (2 * 8 + inputs.beside_bytes) * self._width

    @property
    def lengths(self) -> Integers:
        """The tokens of each row that predict one, int64 [N]."""
        return self.pieces.lengths

    def take(self, epoch: int, rows: Positions) -> Batch:  # noqa: ARG002
        """The documents of these rows."""
        return document_batch(self._inputs, rows, self._width, self._places(rows), self._device)

    def count_targets(self, epoch: int, rows: Positions) -> int:  # noqa: ARG002
        """Targets of these rows."""
        return count_document_targets(self._inputs, self._places(rows))

    def _places(self, rows: Positions) -> TokenPlaces:
        lengths = self.lengths[rows]
        row, column = np.repeat(np.arange(len(rows)), lengths), count_within(lengths)
        return TokenPlaces(row, column, column, np.repeat(self._begins[rows], lengths) + column)


@final
class Trimmed:
    """Micro-batches of rows [B, W] cut to the width of their longest row, each [B, w], and masked
    beyond the length of each row. The mask follows from the lengths, so it is known on the host.

    Args:
        lengths: of each row of the store, [N].
        shapes: how wide micro-batches are, and how many places they may have.
        beside: names of tensors whose second axis is no position of a text.
    """

    def __init__(self, lengths: Integers, shapes: PaddedShapes, beside: Sequence[str] = ()) -> None:
        self.lengths = lengths
        self._shapes = shapes
        self._beside = beside

    def cut(self, rows: Positions, most: int) -> Sequence[int]:
        """The rows of each micro-batch of a step."""
        return self._shapes.cut(self.lengths[rows], most)

    def form(self, batch: Batch, rows: Positions) -> Batch:
        """The micro-batch of these rows."""
        lengths = self.lengths[rows]
        width = int(self._shapes.widths(lengths.max(initial=1)))
        counted = np.arange(width) < lengths[:, None]

        short = batch.apply(lambda one: one[:, :width].contiguous())
        beside = {name: batch[name] for name in self._beside}
        return short.with_tensors(**beside).with_mask(torch.from_numpy(counted))

    def widest(self, most: int) -> Positions:
        """The rows of the widest micro-batch of at most so many: the longest ones."""
        longest = np.argsort(-self.lengths, kind="stable")[:most]
        return longest[: self.cut(longest, most)[0]]


def padded_targets(batch: Batch) -> int:
    """Targets of a micro-batch, counted on the host: by its mask, or by the lengths before the
    target where an own `Collate` gives (*inputs, lengths, target)."""
    return int(batch[-2].sum()) if isinstance(batch.mask, str) else batch.mask.targets
