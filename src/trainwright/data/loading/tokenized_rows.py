"""Tokenised texts with their targets as a dataset, and batches as wide as their longest row. Needs
torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import final

import numpy as np
import torch
from torch import Tensor

from trainwright.data.base.counter_rng import Positions, even_pieces
from trainwright.data.base.inputs import Integers
from trainwright.data.base.token_inputs import TextInputs
from trainwright.data.loading.batch import Batch
from trainwright.data.text.padding import PaddedShapes

_OF_TOKENS = ("input_ids", "attention_mask", "token_type_ids")


@final
class TokenizedRows:
    """N texts as `input_ids`, `attention_mask` and, of pairs, `token_type_ids`, int64 [B, W], with
    their `target` [B], or [B, T] of several targets.

    W is the width of the longest row of all, so that what is made of a row does not depend on its
    batch; `TrimmedRows` cuts batches to their own width. `more` are tensors beside the target, [N].
    The same in every epoch.
    """

    def __init__(
        self,
        inputs: TextInputs,
        target: Tensor,
        device: torch.device,
        more: Mapping[str, Tensor] | None = None,
    ) -> None:
        assert len(inputs) == len(target)
        self.rows = len(inputs)
        self._inputs = inputs
        self._of_rows = {"target": target, **(more or {})}
        self._width = int(inputs.lengths.max(initial=1))
        self._device = device
        self.row_bytes = (3 if inputs.is_paired else 2) * 8 * self._width + target.element_size()

    @property
    def lengths(self) -> Integers:
        """Tokens of each row, int64 [N]."""
        return self._inputs.lengths

    def take(self, epoch: int, rows: Positions) -> Batch:  # noqa: ARG002
        """These rows."""
        arrays = self._inputs.padded(rows, self._width)
        tensors = {name: torch.from_numpy(one) for name, one in arrays.items()}
        at = torch.from_numpy(rows)
        tensors |= {name: one[at] for name, one in self._of_rows.items()}
        return Batch({name: one.to(self._device) for name, one in tensors.items()}, rows=rows)


@final
class TrimmedRows:
    """Micro-batches of texts cut to the width of their longest row.

    Args:
        lengths: of each row of the store, [N].
        shapes: the widths that batches may have.
    """

    def __init__(self, lengths: Integers, shapes: PaddedShapes) -> None:
        self.lengths = lengths
        self._shapes = shapes

    def cut(self, rows: Positions, most: int) -> Sequence[int]:
        """As few as there can be, of equal sizes."""
        return even_pieces(len(rows), most)

    def form(self, batch: Batch, rows: Positions) -> Batch:
        """The micro-batch of these rows."""
        width = int(self._shapes.widths(self.lengths[rows].max(initial=1)))
        cut = {name: batch[name][:, :width].contiguous() for name in _OF_TOKENS if name in batch}
        return batch.with_tensors(**cut)

    def widest(self, most: int) -> Positions:
        """The rows of the widest micro-batch of at most so many: the longest ones."""
        return np.argsort(-self.lengths, kind="stable")[:most]
