"""Protocol of networks whose attention can be inspected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor, nn


@runtime_checkable
class WithAttention(Protocol):
    """Network with self-attention in its blocks."""

    @property
    def projections(self) -> Mapping[str, nn.Module]:
        """Query-key-value projection of each block, by the path of the block."""
        ...

    def split(
        self, block: str, projected: Float[Tensor, "B L D"]
    ) -> Sequence[Float[Tensor, "B H L d"]]:
        """Queries, keys and values from the output of a projection."""
        ...
