"""Row datasets: the data source of a feed, in memory or in files. Needs torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, final, runtime_checkable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from trainwright.core.errors import Mistake, Problem
from trainwright.data.base.counter_rng import Positions
from trainwright.data.base.inputs import Integers
from trainwright.data.base.token_inputs import TokenInputs
from trainwright.data.loading.batch import Batch, as_batch

AlignedTensors = Batch | Mapping[str, Tensor] | Sequence[Tensor]
"""Tensors of one length, by name or in order with the target last."""


@runtime_checkable
class RowDataset(Protocol):
    """N rows with random access.

    `take` must be a pure function of the epoch and the rows, and a row's result must not depend on
    the other rows: a feed cuts blocks into micro-batches.
    """

    @property
    def rows(self) -> int:
        """Rows of an epoch, N."""
        ...

    @property
    def row_bytes(self) -> int:
        """Approximate bytes per row of `take`."""
        ...

    def take(self, epoch: int, rows: Positions) -> Batch | tuple[Tensor, ...]:
        """The rows of an epoch, in the given order, on the device. Who takes them adds their
        numbers, and to a tuple names by position."""
        ...


class TextDataset(RowDataset, Protocol):
    """Rows of a text with sources."""

    @property
    def sources(self) -> Integers:
        """The source of each row, int64 [N]."""
        ...


def as_store(rows: AlignedTensors | RowDataset) -> RowDataset:
    """The dataset itself, or one of aligned tensors.

    Raises:
        Mistake: it is neither.
    """
    if isinstance(rows, Batch | Mapping | Sequence):
        return TensorRowDataset(rows)
    if isinstance(rows, RowDataset):
        return rows
    raise Mistake(
        Problem(
            "a feed cannot take its rows from this",
            found=type(rows).__name__,
            expected="aligned tensors, or a store with `rows`, `row_bytes` and `take`",
            fix="tw.Feed([inputs, targets], ...), or tw.LoaderFeed(loader) for a DataLoader",
        )
    )


@final
class TensorRowDataset:
    """Aligned tensors in memory on any device; the same in every epoch."""

    def __init__(self, tensors: AlignedTensors) -> None:
        batch = as_batch(tensors)
        values: Sequence[object] = batch.values()
        if odd := [type(one).__name__ for one in values if not isinstance(one, Tensor)]:
            raise Mistake(
                Problem(
                    "a feed needs tensors",
                    found=", ".join(odd),
                    expected="torch.Tensor",
                    fix="torch.from_numpy(array) turns a NumPy array into one without a copy",
                )
            )
        rows = {len(tensor) for tensor in batch}
        if len(rows) != 1 or not min(rows):
            raise Mistake(
                Problem(
                    "a feed needs tensors of one length, with at least one row",
                    found=f"{[len(tensor) for tensor in batch]} rows",
                    fix="pass tensors whose first axis is the same rows",
                )
            )
        self._tensors = batch
        self.rows = rows.pop()
        self.row_bytes = sum(one[0].numel() * one.element_size() for one in batch)

    def take(self, epoch: int, rows: Positions) -> Batch:  # noqa: ARG002
        """The rows of each tensor."""
        index = torch.from_numpy(rows)
        return self._tensors.apply(
            lambda one: one.index_select(0, index.to(one.device, non_blocking=True))
        )


@final
class WindowDataset:
    """Windows of the sources of a text: `tokens` int64 [B, L], and as `target` those one later.

    Row i of a source in epoch e is its window that starts at offset(e) + i L, with an offset below
    L that differs from epoch to epoch, so that the position of a token in its window varies. Rows
    are grouped by source. Each token occurs at most once per epoch, and no row spans two sources.
    `sources` int64 [N] is the source of each row.
    """

    def __init__(
        self, inputs: TokenInputs, context: int, *, device: torch.device, seed: int = 0
    ) -> None:
        codes, begins, ends = inputs.source_spans().T
        counts = (ends - begins) // context - 1
        assert counts.min() >= 1, "the plan refuses a source shorter than two windows"
        self.rows = int(counts.sum())
        self.sources = np.repeat(codes, counts)
        self._row_ends = np.cumsum(counts)
        # Where the first row of all would lie, were the rows before it of this source, too.
        self._origins = begins - 1 - (self._row_ends - counts) * context
        self._windows = np.lib.stride_tricks.sliding_window_view(inputs.tokens, context + 1)
        self._inputs = inputs
        self.context = context
        self._seed = seed
        self._device = device
        self.row_bytes = (2 * 8 + inputs.beside_bytes) * context

    def starts(self, epoch: int, rows: Positions) -> Positions:
        """Positions of the windows' first tokens."""
        offset = np.random.PCG64([self._seed, epoch, 0x77696E64]).random_raw(1)[0]
        shift = int(offset % np.uint64(self.context))
        origins = self._origins[np.searchsorted(self._row_ends, rows, side="right")]
        starts: Positions = origins + shift + rows * self.context
        return starts

    def take(self, epoch: int, rows: Positions) -> Batch:
        """Windows, and the same shifted by one token."""
        starts = self.starts(epoch, rows)
        windows = torch.from_numpy(self._windows[starts].astype(np.int64))
        windows = windows.to(self._device, non_blocking=True)
        tensors = {"tokens": windows[:, :-1], "target": windows[:, 1:]}
        predicted = self._predicted(starts)
        for name, found in self._inputs.beside(predicted).items():
            tensors[name] = torch.from_numpy(found).to(self._device, non_blocking=True)
        batch = Batch(tensors, rows=rows)
        if isinstance(self._inputs.mask, str):
            return batch
        return batch.with_mask(torch.from_numpy(self._inputs.mask[predicted]))

    def count_targets(self, epoch: int, rows: Positions) -> int:
        """Targets of these rows."""
        if isinstance(self._inputs.mask, str):
            return len(rows) * self.context
        return int(np.count_nonzero(self._inputs.mask[self._predicted(self.starts(epoch, rows))]))

    def _predicted(self, starts: Positions) -> Positions:
        """Positions of the targets of windows, [B, L]."""
        positions: Positions = starts[:, None] + np.arange(1, self.context + 1)
        return positions


@final
class MemmapDataset:
    """Aligned memory-mapped arrays, read by row; `finish` converts `target` for the loss. The same
    in every epoch."""

    def __init__(
        self,
        arrays: Mapping[str, npt.NDArray[Any]],
        finish: Callable[[Tensor], Tensor],
        device: torch.device,
    ) -> None:
        self._arrays = dict(arrays)
        self._finish = finish
        self._device = device
        self.rows = len(self._arrays["target"])
        self.row_bytes = sum(one[:1].nbytes for one in self._arrays.values())

    def take(self, epoch: int, rows: Positions) -> Batch:  # noqa: ARG002
        """The rows of each array."""
        # In file order, for sequential reads.
        order = np.argsort(rows, kind="stable")
        tensors = {
            name: torch.from_numpy(_taken(one, rows, order)) for name, one in self._arrays.items()
        }
        tensors["target"] = self._finish(tensors["target"])
        return Batch(tensors, rows=rows).move(
            lambda tensor: tensor.to(self._device, non_blocking=True)
        )


def _taken(values: npt.NDArray[Any], rows: Positions, order: Positions) -> npt.NDArray[Any]:
    found = np.empty((len(rows), *values.shape[1:]), values.dtype)
    found[order] = values[rows[order]]
    return found
