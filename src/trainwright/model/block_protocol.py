"""Protocol of networks made of blocks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

from torch import nn


@runtime_checkable
class InBlocks(Protocol):
    """Network that consists mostly of a sequence of blocks, for block-wise treatment.

    Each block is called once per forward pass, does not modify its inputs, and depends only on its
    inputs, its parameters and buffers, and torch's RNG.
    """

    @property
    def blocks(self) -> Iterable[nn.Module]:
        """Blocks from first to last."""
        ...
