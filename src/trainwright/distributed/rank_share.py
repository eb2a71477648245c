"""Share of N items that belongs to a rank."""

from __future__ import annotations

from typing import NamedTuple


class RankShare(NamedTuple):
    """Contiguous share of one rank; the shares of two ranks differ by one at most. Where `is_even`
    a smaller one is filled up with something idle."""

    rank: int = 0
    world_size: int = 1
    is_even: bool = False

    def bounds(self, count: int) -> slice:
        """Positions of this rank's share of `count` items."""
        return slice(
            count * self.rank // self.world_size, count * (self.rank + 1) // self.world_size
        )

    def most(self, count: int) -> int:
        """Number of items in the largest share."""
        return -(-count // self.world_size)


WHOLE = RankShare()
"""All of it: the share of a single process."""
