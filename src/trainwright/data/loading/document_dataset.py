"""Documents as datasets: packed, padded, and windows that grow. Needs torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, final

import numpy as np
import torch

from trainwright.data.base.counter_rng import Positions, even_pieces
from trainwright.data.base.inputs import Integers
from trainwright.data.base.token_inputs import TokenInputs
from trainwright.data.loading.batch import Batch, as_batch
from trainwright.data.loading.feed import StepBatches
from trainwright.data.sampling.step_ramps import Stages
from trainwright.data.text.documents import LongDocuments, count_within, cut_documents
from trainwright.data.text.packing import Packing, pack_inputs
from trainwright.data.text.padding import PaddedShapes

NO_TARGET = -100
"""Target of a padding position."""


class TokenPlaces(NamedTuple):
    """Row and column of each token that predicts one, its position in its chunk and its position in
    the text, int64 [T]."""

    row: Integers
    column: Integers
    within: Integers
    source: Integers


def document_batch(
    inputs: TokenInputs,
    rows: Integers,
    width: int,
    places: TokenPlaces,
    device: torch.device,
    *,
    positions: bool = False,
) -> Batch:
    """`tokens` and `target`, and `positions` if asked for, each int64 [B, width], on the device;
    `rows` int64 [B] are their numbers. What the inputs know beside the targets stands behind
    them, [B, width, K]."""
    shape, at = (len(rows), width), (places.row, places.column)
    values = {
        "tokens": inputs.tokens[places.source],
        "positions": places.within,
        "target": inputs.tokens[places.source + 1],
    }
    tensors = {}
    for name in values if positions else ("tokens", "target"):
        array = np.full(shape, NO_TARGET if name == "target" else 0, dtype=np.int64)
        array[at] = values[name]
        tensors[name] = torch.from_numpy(array).to(device, non_blocking=True)
    for name, found in inputs.beside(places.source + 1).items():
        whole = np.zeros((*shape, found.shape[1]), found.dtype)
        whole[at] = found
        tensors[name] = torch.from_numpy(whole).to(device, non_blocking=True)
    batch = Batch(tensors, rows=rows)
    if isinstance(inputs.mask, str):
        return batch
    counted = np.zeros(shape, dtype=np.bool_)
    counted[at] = inputs.mask[places.source + 1]
    return batch.with_mask(torch.from_numpy(counted))


def count_document_targets(inputs: TokenInputs, places: TokenPlaces) -> int:
    """How many of the tokens at these places predict one that counts."""
    if isinstance(inputs.mask, str):
        return len(places.source)
    return int(np.count_nonzero(inputs.mask[places.source + 1]))


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


class RampedWindows(Protocol):
    """A feed of windows."""

    def next_step(self) -> StepBatches:
        """The windows of the next step; moves the cursor behind them."""
        ...

    def seek(self, samples: int) -> None:
        """Move the cursor to `samples` consumed."""
        ...


@final
class ShortWindows:
    """A feed whose windows [B, L] are cut into [B L / l, l], with the length l of the position at
    which the step begins.

    Rows, targets and cursor are those of the full windows: each token is predicted once, with a
    shorter context.
    """

    def __init__(self, feed: RampedWindows, lengths: Stages) -> None:
        self._feed = feed
        self._lengths = lengths

    def next_step(self) -> StepBatches:
        """The next step of the feed, its windows cut."""
        work = self._feed.next_step()
        length = self._lengths.at(work.samples - work.rows)
        if length == self._lengths.values[-1]:
            return work
        short = [as_batch(batch).reshape(-1, length) for batch in work.micro_batches]
        return work._replace(micro_batches=short)

    def seek(self, samples: int) -> None:
        """Move the cursor to `samples` consumed."""
        self._feed.seek(samples)
