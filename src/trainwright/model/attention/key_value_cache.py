"""Keys and values of the positions that a decoder has read."""

from __future__ import annotations

from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor

Pair = tuple[Float[Tensor, "B H L d"], Float[Tensor, "B H L d"]]


@final
class KeyValueCache:
    """Keys and values [B, H, L, d] of each block; `length` is L."""

    def __init__(self) -> None:
        self.length = 0
        self._blocks: dict[int, Pair] = {}
        self.foreign: Any = None
        """Cache of a model of another library, in place of the blocks."""

    def append(self, block: int, keys: Tensor, values: Tensor) -> Pair:
        """Those of a block, with new ones behind them."""
        if block in self._blocks:
            earlier = self._blocks[block]
            keys = torch.cat([earlier[0], keys], dim=2)
            values = torch.cat([earlier[1], values], dim=2)
        self._blocks[block] = (keys, values)
        return keys, values
