"""The order of rows that lie in files larger than memory: whole blocks are read, and not one page
for each row."""

from __future__ import annotations

from typing import final

import numpy as np

from trainwright.data.base.counter_rng import uniform
from trainwright.data.base.permutation import Permutation, Positions, even_pieces
from trainwright.data.sampling.samplers import derived


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
