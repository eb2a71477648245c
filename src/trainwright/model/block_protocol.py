"""Networks that are mostly a row of blocks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from torch import nn


class InBlocks(Protocol):
    """A network of which most is a row of blocks, so that it can be treated block by block.

    Each is called once in a forward pass, changes none of its inputs, and depends on nothing but
    its inputs, its parameters and buffers, and torch's random numbers.
    """

    @property
    def blocks(self) -> Iterable[nn.Module]:
        """The blocks from first to last."""
        ...
