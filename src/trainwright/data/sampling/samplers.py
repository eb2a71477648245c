"""Samplers: class-balanced, mixture, weighted, curriculum, and blocks of files.

All are stateless: sample i of epoch e is a function of (seed, e, i), with random access,
independent of batches, workers and ranks. Of rows in files larger than memory whole blocks are
read, not one page for each row.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, assert_never, final

import numpy as np
import numpy.typing as npt

from trainwright.data.base.counter_rng import Permutation, Positions, even_pieces, uniform
from trainwright.data.base.inputs import Floats
from trainwright.data.base.row_storage import IN_MEMORY, RowStorage, sorted_positions

Pacing = Literal["linear", "root", "exponential"]


class Sampler(Protocol):
    """Maps samples of an epoch to rows.

    `at` must be a pure function of its arguments: the row of a position must not depend on the
    range requested.
    """

    @property
    def rows(self) -> int:
        """Samples of an epoch, equal to the number of training rows, N."""
        ...

    def at(self, epoch: int, start: int, stop: int) -> Positions:
        """The rows of samples `start` to `stop` (exclusive) of an epoch: int64 [stop - start]."""
        ...


@final
class GroupSampler:
    """Rows of groups (classes, sources) in fixed shares of every epoch.

    An epoch of N samples has q = share x N of a group, rounded so that they add up to N. The
    samples of an epoch are the slots 0..N-1 in a random order; a group owns q slots that follow one
    another. Slot j of epoch e is draw e q + j of the group in the whole run, and the group's rows
    take turns over its draws: after any number of epochs no row was drawn twice more than another
    of its group.

    Args:
        groups: the code of each row's group, int64 [N].
        shares: of each code, of any sum; at least one is above 0. A group without rows gets none.
        seed: where the order starts.
        space: where the list of the rows of each group lies.
    """

    def __init__(
        self,
        groups: npt.NDArray[np.int64],
        shares: Sequence[float] | Floats,
        seed: int = 0,
        space: RowStorage = IN_MEMORY,
    ) -> None:
        self.rows = len(groups)
        sizes = np.bincount(groups, minlength=len(shares))
        wanted = np.where(sizes > 0, np.asarray(shares, np.float64), 0.0)
        assert wanted.sum() > 0, "a group with rows has a share"
        self._slots = Permutation(self.rows, derived(seed, "slots"))
        self._members = np.split(sorted_positions(groups, space), np.cumsum(sizes)[:-1])
        self._quotas = _rounded(wanted / wanted.sum() * self.rows, self.rows)
        self._ends = np.cumsum(self._quotas)
        self._turns = [
            Permutation(max(1, int(size)), derived(seed, f"group {group}"))
            for group, size in enumerate(sizes)
        ]

    @classmethod
    def balanced(
        cls, classes: npt.NDArray[np.int64], seed: int = 0, space: RowStorage = IN_MEMORY
    ) -> GroupSampler:
        """Class-balanced sampling."""
        return cls(classes, np.ones(int(classes.max()) + 1), seed, space)

    @classmethod
    def tempered(
        cls,
        sources: npt.NDArray[np.int64],
        temperature: float,
        seed: int = 0,
        space: RowStorage = IN_MEMORY,
    ) -> GroupSampler:
        """Sources of n rows in shares proportional to n ** (1 / temperature)."""
        sizes = np.bincount(sources).astype(np.float64)
        return cls(sources, sizes ** (1 / temperature), seed, space)

    def at(self, epoch: int, start: int, stop: int) -> Positions:
        """Rows of samples of an epoch."""
        slots = self._slots.at(epoch, start, stop)
        owners = np.searchsorted(self._ends, slots, side="right")
        rows = np.empty(len(slots), dtype=np.int64)
        for group in np.unique(owners):
            here = np.flatnonzero(owners == group)
            quota = int(self._quotas[group])
            within = slots[here] - (int(self._ends[group]) - quota)
            rows[here] = self._members[group][self._taken(int(group), epoch, quota, within)]
        return rows

    def _taken(self, group: int, epoch: int, quota: int, within: Positions) -> Positions:
        """Positions in a group of its draws `within` an epoch."""
        turns, size = self._turns[group], len(self._members[group])
        first_pass, first = divmod(epoch * quota, size)
        passes, places = np.divmod(first + within, size)
        if quota > size:
            # Each row is drawn in every epoch: only which of them once more has to move on, and the
            # order of the slots is random already.
            return places
        # At most two passes in an epoch, each in an order of its own.
        for number in np.unique(passes):
            here = passes == number
            places[here] = turns.of(first_pass + int(number), places[here])
        return places


@final
class WeightedSampler:
    """Weighted sampling: each row N w / W times per epoch, rounded down or up (systematic
    sampling).

    The samples of an epoch are N points, 1 / N apart, on a line on which each row is as long as its
    weight, in a random order; where the first one lies differs from epoch to epoch.

    Args:
        weights: of each row, [N]; finite, not negative, at least one above 0.
        seed: where the order starts.
        space: where the line lies.
    """

    def __init__(
        self, weights: npt.ArrayLike, seed: int = 0, space: RowStorage = IN_MEMORY
    ) -> None:
        line = np.asarray(weights, np.float64)
        assert line.min() >= 0 < line.max() < math.inf
        self.rows = len(line)
        self._ends = space.array((self.rows,), np.float64)
        np.cumsum(line, out=self._ends)
        # The last row with a positive weight.
        self._last = int(np.searchsorted(self._ends, self._ends[-1]))
        self._points = Permutation(self.rows, derived(seed, "points"))
        self._seed = seed

    def at(self, epoch: int, start: int, stop: int) -> Positions:
        """Rows of samples of an epoch."""
        (offset,) = uniform(self._seed, "first point", epoch, np.zeros(1, np.int64))
        points = (self._points.at(epoch, start, stop) + offset) / self.rows * self._ends[-1]
        rows = np.searchsorted(self._ends, points, side="right")
        return np.asarray(np.minimum(rows, self._last), np.int64)


@final
@dataclass(frozen=True, slots=True)
class Pace:
    """Admitted share of the (easiest) rows by sample of the run: `start` at the first, all from
    sample `samples` on."""

    start: float
    samples: int
    pacing: Pacing = "root"

    def share(self, at: Positions) -> Floats:
        """The share at samples of the run, all of them before `samples`."""
        time, start = at / max(1, self.samples), self.start
        match self.pacing:
            case "linear":
                found = start + (1 - start) * time
            case "root":
                found = np.sqrt(start**2 + (1 - start**2) * time)
            case "exponential":
                found = start ** (1 - time)
            case _:
                assert_never(self.pacing)
        return np.asarray(found, np.float64)


@final
class CurriculumSampler:
    """Curriculum learning: during the pace, samples are uniform over the easiest rows admitted;
    afterwards every row comes once per epoch.

    Args:
        difficulty: of each row, [N]; rows of equal difficulty come in as they lie.
        pace: how many rows are in.
        seed: where the order starts.
        space: where the list of the rows lies, the easiest first.
    """

    def __init__(
        self, difficulty: npt.ArrayLike, pace: Pace, seed: int = 0, space: RowStorage = IN_MEMORY
    ) -> None:
        self._ranked = sorted_positions(np.asarray(difficulty, np.float64), space)
        self.rows = len(self._ranked)
        self._pace = pace
        self._seed = seed
        self._order = Permutation(self.rows, seed)

    def at(self, epoch: int, start: int, stop: int) -> Positions:
        """Rows of samples of an epoch."""
        before = epoch * self.rows
        paced = min(max(start, self._pace.samples - before), stop)
        positions = np.arange(start, paced, dtype=np.int64)
        pool = np.maximum(1, np.ceil(self._pace.share(before + positions) * self.rows))
        chance = uniform(self._seed, "curriculum", epoch, positions)
        drawn = self._ranked[np.minimum(chance * pool, self.rows - 1).astype(np.int64)]
        return np.concatenate([drawn, self._order.at(epoch, paced, stop)])


def derived(seed: int, purpose: str) -> int:
    """Derive a seed for one purpose."""
    digest = hashlib.blake2b(f"draws/{seed}/{purpose}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def _rounded(shares: Floats, total: int) -> Positions:
    """Round `shares` to integers with the sum `total` by largest remainders. A share above 0 is at
    least 1, if possible."""
    counts = np.where(shares > 0, np.maximum(1, np.floor(shares)), 0).astype(np.int64)
    short = total - int(counts.sum())
    if short >= 0:
        counts[np.argsort(-(shares - counts), kind="stable")[:short]] += 1
    for _ in range(-short):
        counts[np.argmax(counts)] -= 1
    return counts


@final
class BlockSampler:
    """Every row once an epoch: blocks of neighbours in a random order, and the rows of some blocks
    at a time mixed (Xu et al. 2022, arXiv:2206.05830, section 4: the two levels of CorgiPile).

    An epoch begins to count its blocks at a row of its own, and goes on behind the last row with
    the first one. So blocks have other ends in each epoch, and the rows that fill no whole block,
    which come with the last blocks, are others too. The blocks, in the order of the epoch, are
    divided into as few groups of at most `mixed_blocks` as there can be, as even as there can be;
    the rows of a group come in a random order.

    Args:
        rows: training rows, N.
        block_rows: rows of a block.
        mixed_blocks: blocks whose rows are mixed.
        seed: where the order starts.
    """

    def __init__(self, rows: int, block_rows: int, mixed_blocks: int, seed: int = 0) -> None:
        assert rows >= 1
        assert block_rows >= 1
        assert mixed_blocks >= 1
        self.rows = rows
        self._block_rows = block_rows
        self._whole = rows // block_rows
        self._blocks = Permutation(self._whole, derived(seed, "blocks"))
        sizes = even_pieces(self._whole, mixed_blocks) if self._whole else (0,)
        self._row_ends = np.cumsum(sizes) * block_rows
        self._row_ends[-1] = rows
        self._seed = seed

    def at(self, epoch: int, start: int, stop: int) -> Positions:
        """Rows of samples of an epoch."""
        (begin,) = uniform(self._seed, "first block", epoch, np.zeros(1, np.int64))
        first = min(int(begin * self.rows), self.rows - 1)
        rows = np.empty(stop - start, np.int64)
        done = start
        while done < stop:
            group = int(np.searchsorted(self._row_ends, done, side="right"))
            end = min(stop, int(self._row_ends[group]))
            rows[done - start : end - start] = self._of_group(epoch, group, done, end)
            done = end
        return (rows + first) % self.rows

    def _of_group(self, epoch: int, group: int, start: int, stop: int) -> Positions:
        """Rows of samples of one group, counted from where the epoch begins to count."""
        before = int(self._row_ends[group - 1]) if group else 0
        mixed = Permutation(
            int(self._row_ends[group]) - before, derived(self._seed, f"group {group}")
        )
        slots, within = np.divmod(
            before + mixed.at(epoch, start - before, stop - before), self._block_rows
        )
        # What fills no whole block lies behind the last one, wherever the others are.
        whole = slots < self._whole
        slots[whole] = self._blocks.of(epoch, slots[whole])
        return slots * self._block_rows + within
