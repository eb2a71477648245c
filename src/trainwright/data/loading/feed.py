"""Feed: the micro-batches of each optimizer step, in a stateless order.

The cursor is one integer, the samples consumed. Sample s is sample `s % N` of epoch `s // N` in the
order of that epoch, so seeking takes constant time and resuming is exact. The rows of a step are a
function of the cursor too. A step does not cross an epoch boundary: the last one may be short, but
is not of one row, and its loss is divided by its actual number of targets.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple, Protocol, final

import numpy as np
from torch import Tensor

from trainwright.core.errors import Mistake, Problem
from trainwright.data.base.counter_rng import Permutation, Positions, even_pieces
from trainwright.data.loading.batch import Batch, as_batch, row_targets
from trainwright.data.loading.block_loader import Direct, Loader
from trainwright.data.loading.dataset import AlignedTensors, RowDataset, as_store
from trainwright.data.loading.worker_pool import Workers
from trainwright.data.sampling.samplers import Sampler
from trainwright.data.sampling.step_ramps import Stages, steps_at_epoch_ends
from trainwright.distributed.rank_share import WHOLE, RankShare

_BLOCK_BYTES = 8 * 2**20


class StepBatches(NamedTuple):
    """Micro-batches of one optimizer step.

    `targets` and `rows` are those of all micro-batches and ranks; the summed loss is divided by
    `targets`. `samples` is the feed's cursor after this step, `epoch` the epoch it belongs to, and
    `wait_seconds` how long the step had to wait for its rows. `places` are the numbers of the first
    tensors where targets are counted, of a text its places with the padding, and else 0. `before`
    are the rows of each micro-batch of the ranks before this one. The last micro-batch is `idle` if
    other ranks have one more: its pass keeps up with theirs, and counts for nothing.
    """

    micro_batches: Sequence[Batch]
    targets: int
    rows: int
    samples: int
    epoch: int
    wait_seconds: float
    places: int = 0
    before: Sequence[int] = ()
    idle: bool = False


class Collate(Protocol):
    """Collates the rows of a dataset into micro-batches.

    Both must be pure functions. The sizes that `cut` gives add up to the rows, and what `form`
    gives has the same rows.
    """

    def cut(self, rows: Positions, most: int) -> Sequence[int]:
        """How many of the rows of a step are in each of its micro-batches, at most so many."""
        ...

    def form(self, batch: Batch, rows: Positions) -> Batch | tuple[Tensor, ...]:
        """The micro-batch of these rows."""
        ...


@final
class AsStored:
    """Identity collation; micro-batches of a step have equal sizes."""

    def cut(self, rows: Positions, most: int) -> Sequence[int]:
        """As few as there can be."""
        return even_pieces(len(rows), most)

    def form(self, batch: Batch, rows: Positions) -> Batch:  # noqa: ARG002
        """The batch itself."""
        return batch


_AS_STORED = AsStored()


class _Block(NamedTuple):
    """Whole steps whose rows are fetched together: the number of rows of each step, all of them and
    those of this rank; by step the sizes of its micro-batches, and of those of earlier ranks, and
    whether its last is idle."""

    start: int
    epoch: int
    steps: list[int]
    of_all_ranks: Positions
    rows: Positions
    cuts: list[Sequence[int]]
    before: list[Sequence[int]]
    idle: list[bool]


def _too_small(name: str, value: int) -> Mistake:
    return Mistake(Problem(f"a feed needs a {name} of at least 1", found=str(value)))


def _other_rows(drawn: int, there: int) -> Mistake:
    return Mistake(
        Problem(
            "the sampler draws from another number of rows than the feed has",
            path="draws",
            found=f"{drawn:,}",
            expected=f"{there:,}",
            fix="make the sampler for the rows of these tensors",
        )
    )


def _targets_unknown() -> Mistake:
    return Mistake(
        Problem(
            "a rank does not know the targets of the other ranks",
            path="targets_of",
            found="masked or counted targets, and no function of the row numbers",
            fix="Feed(..., targets_of=lambda epoch, rows: int(counts[rows].sum()))",
        )
    )


def one_a_row(epoch: int, rows: Positions) -> int:  # noqa: ARG001
    """Targets of rows with one each."""
    return len(rows)


@final
class Feed:
    """Micro-batches from aligned tensors in memory, on whatever device they lie, from a store that
    makes them, or from worker processes that make them ahead.

    Rows are gathered a block of several megabytes at a time, so that a step costs a few views.

    Args:
        tensors: aligned tensors, each with N rows on its first axis, by name or in order (the last
            is the target), a `RowDataset`, or `Workers`.
        batch_size: rows of a micro-batch.
        accumulate: micro-batches of a step on each rank.
        seed: where the order starts.
        shuffle: whether each epoch has a new random order.
        count_targets: targets in a micro-batch where that is not its number of rows (without those
            that are masked); the objective must count the same.
        ramp: rows of a step by position, in the place of batch_size x accumulate; micro-batches
            have `batch_size` rows, or somewhat fewer in a step that is no multiple of it.
        draws: the order of the samples, in the place of `seed` and `shuffle`.
        forming: what becomes of the rows of a micro-batch, where that depends on all of them.
        share: this rank's share of the micro-batches of each step; no other rows are fetched. A
            short step may have fewer micro-batches than there are ranks: then this rank's only one
            may have no rows.
        targets_of: number of targets of any rows of an epoch, by their numbers: with
            `count_targets` what tells a rank the targets of the rows that it does not fetch.
    """

    def __init__(
        self,
        tensors: AlignedTensors | RowDataset | Workers,
        batch_size: int,
        accumulate: int = 1,
        *,
        seed: int = 0,
        shuffle: bool = True,
        count_targets: Callable[[Batch], int] = row_targets,
        ramp: Stages | None = None,
        draws: Sampler | None = None,
        forming: Collate = _AS_STORED,
        share: RankShare = WHOLE,
        targets_of: Callable[[int, Positions], int] = one_a_row,
    ) -> None:
        loader = tensors if isinstance(tensors, Workers) else Direct(as_store(tensors))
        store = loader.store
        for name, value in (("batch_size", batch_size), ("accumulate", accumulate)):
            if value < 1:
                raise _too_small(name, value)
        self.order: Sampler = draws or Permutation(store.rows, seed, shuffle)
        if self.order.rows != store.rows:
            raise _other_rows(self.order.rows, store.rows)
        self._loader: Loader = loader
        self._batch = batch_size
        self._step_rows = ramp or Stages.flat(batch_size * accumulate * share.world_size)
        self._count = count_targets
        self.forming = forming
        self._share, self._targets_of = share, targets_of
        self._block_rows = _BLOCK_BYTES // max(1, store.row_bytes)
        self.samples = 0
        self._ready: list[StepBatches] = []
        self._next = 0
        self._planned = 0
        self._ahead: deque[_Block] = deque()

    @property
    def rows(self) -> int:
        """Training rows, N."""
        return self.order.rows

    @property
    def batch_size(self) -> int:
        """Rows of a micro-batch."""
        return self._batch

    @property
    def store(self) -> RowDataset:
        """Where its rows come from."""
        return self._loader.store

    @property
    def steps_per_epoch(self) -> int:
        """Optimizer steps in one pass over the rows; the last may be short. With a ramp those of an
        epoch behind it."""
        return -(-self.order.rows // self._step_rows.values[-1])

    @property
    def step_rows(self) -> Stages:
        """Rows of a step by position."""
        return self._step_rows

    def epoch_ends(self, epochs: int) -> tuple[int, ...]:
        """Optimizer steps made at the end of each of the first epochs, if none is dropped."""
        return steps_at_epoch_ends(self._step_rows, self.rows, epochs)

    def next_step(self) -> StepBatches:
        """The micro-batches of the next step; moves the cursor behind them."""
        if self._next == len(self._ready):
            self._gather()
        else:
            self._loader.advance()
        step = self._ready[self._next]
        self._next += 1
        self.samples = step.samples
        return step

    def seek(self, samples: int) -> None:
        """Move the cursor to `samples` consumed, in constant time."""
        assert samples >= 0
        self.samples = self._planned = samples
        self._ready = []
        self._next = 0
        self._ahead.clear()
        self._loader.forget()

    def close(self) -> None:
        """End what works ahead; the next step begins it again."""
        self.seek(self.samples)
        self._loader.close()

    def rows_between(self, start: int, stop: int) -> Positions:
        """The row numbers that samples `start` to `stop` (of one epoch) were: for messages."""
        epoch, first = divmod(start, self.rows)
        return self.order.at(epoch, first, first + stop - start)

    def from_start(self, rows: int) -> Iterator[Batch]:
        """Micro-batches over the first rows of the first epoch, whole ones if there are any. The
        next call gives the same; the cursor stays where it is."""
        whole = max(1, min(rows, self.rows) // self._batch)
        for start in range(0, whole * self._batch, self._batch):
            stop = min(start + self._batch, self.rows)
            yield self.of_rows(self.order.at(0, start, stop))

    def of_rows(self, rows: Positions) -> Batch:
        """A micro-batch of any rows, as the first epoch has them; the cursor stays where it is."""
        return self._formed(self._loader.now(0, rows))

    def _formed(self, batch: Batch) -> Batch:
        """A micro-batch; an own `Collate` may leave it without names."""
        return as_batch(self.forming.form(batch, batch.rows)).with_rows(batch.rows)

    def _gather(self) -> None:
        """Fetch the rows of the coming steps, up to the end of the epoch, in one go a tensor."""
        started = time.perf_counter()
        self._ask(max(1, self._loader.depth))
        block = self._ahead.popleft()
        gathered = self._loader.take(block.epoch, block.rows)
        self._ask(self._loader.depth)
        parts = gathered.split([size for cut in block.cuts for size in cut])
        if not isinstance(self.forming, AsStored):
            parts = list(map(self._formed, parts))
        counts = self._count is not row_targets or not isinstance(parts[0].mask, str)
        micro = iter(parts)
        samples = block.start
        self._ready = []
        each = zip(block.steps, block.cuts, block.before, block.idle, strict=True)
        for rows, cut, before, idle in each:
            batches = list(islice(micro, len(cut)))
            samples += rows
            targets, places = rows, 0
            if counts:
                targets = sum(map(self._count, batches))
                places = sum(batch[0].numel() for batch in batches)
            at = (samples, block.epoch, 0.0, places, before, idle)
            self._ready.append(StepBatches(batches, targets, rows, *at))
        if self._share.world_size > 1:
            if counts and self._targets_of is one_a_row:
                raise _targets_unknown()
            self._ready = self._with_all_targets(block)
        waited = time.perf_counter() - started
        self._ready[0] = self._ready[0]._replace(wait_seconds=waited)
        self._next = 0

    def _with_all_targets(self, block: _Block) -> list[StepBatches]:
        """The steps with the targets of all ranks; how many places these have is not known here."""
        parts = np.split(block.of_all_ranks, np.cumsum(block.steps[:-1]))
        return [
            step._replace(targets=self._targets_of(block.epoch, rows), places=0)
            for step, rows in zip(self._ready, parts, strict=True)
        ]

    def _cut(self, steps: Sequence[int], rows: Positions) -> list[Sequence[int]]:
        """The sizes of the micro-batches of each step, of all ranks. Each step is cut by itself: a
        short one must not shift the micro-batches of the next."""
        if isinstance(self.forming, AsStored):
            return [even_pieces(size, self._batch) for size in steps]
        parts = np.split(rows, np.cumsum(steps[:-1]))
        return [self.forming.cut(part, self._batch) for part in parts]

    def _block_at(self, start: int) -> _Block:
        """The block that begins there, and which of its micro-batches are this rank's."""
        epoch, offset = divmod(start, self.rows)
        steps = self._coming_steps(start, (epoch + 1) * self.rows)
        rows = self.order.at(epoch, offset, offset + sum(steps))
        cuts = self._cut(steps, rows)
        if self._share.world_size == 1:
            count = len(steps)
            return _Block(start, epoch, steps, rows, rows, cuts, [()] * count, [False] * count)
        own_rows, own_cuts, of_earlier = [], list[Sequence[int]](), list[Sequence[int]]()
        idle, at = list[bool](), 0
        for cut in cuts:
            mine = self._share.bounds(len(cut))
            own = list(cut[mine])
            of_earlier.append(cut[: mine.start])
            first = at + sum(of_earlier[-1])
            own_rows.append(rows[first : first + sum(own)])
            idle.append(self._share.is_even and len(own) < self._share.most(len(cut)))
            if idle[-1]:
                own.append(1)
                own_rows.append(rows[at : at + 1])
            own_cuts.append(own or (0,))
            at += sum(cut)
        fetched = np.concatenate(own_rows)
        return _Block(start, epoch, steps, rows, fetched, own_cuts, of_earlier, idle)

    def _ask(self, blocks: int) -> None:
        """Have so many blocks under way. Where they begin follows from the cursor alone."""
        while len(self._ahead) < blocks:
            block = self._block_at(self._planned)
            self._planned += sum(block.steps)
            self._ahead.append(block)
            self._loader.ask(block.epoch, block.rows)

    def _coming_steps(self, position: int, epoch_end: int) -> list[int]:
        """Rows of each of the next steps, as many as make a block, within the epoch."""
        steps: list[int] = []
        block_end = position + self._block_rows
        while position < epoch_end:
            rows = self._step_rows.rows_at(position, epoch_end - position)
            position += rows
            if steps and position > block_end:
                break
            steps.append(rows)
        return steps
