"""What sees all micro-batches of a step before its passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from torch import nn

from trainwright.data.loading.batch import Batch
from trainwright.distributed.strategy import Strategy

Forward = Callable[[], AbstractContextManager[Any]]
"""Number format of a forward pass."""


class LookAhead(Protocol):
    """Sees all micro-batches of a step before its passes: those of this rank, and what the strategy
    gathers of others.

    It must leave gradients, running statistics and random numbers as they were, and may be called
    again for the same step in other micro-batches. A rank that it fails on for lack of memory must
    not leave the others waiting.
    """

    def __call__(
        self,
        model: nn.Module,
        micro_batches: Sequence[Batch],
        forward: Forward,
        strategy: Strategy,
    ) -> None:
        """See them."""
        ...


def no_look_ahead(
    model: nn.Module, micro_batches: Sequence[Batch], forward: Forward, strategy: Strategy
) -> None:
    """Nothing to see: a micro-batch has its loss by itself."""
