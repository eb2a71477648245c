"""What sees all micro-batches of a step before its passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from torch import nn

from trainwright.core.errors import Mistake, Problem
from trainwright.data.loading.batch import Batch

Forward = Callable[[], AbstractContextManager[Any]]
"""Number format of a forward pass."""


class LookAhead(Protocol):
    """Sees all micro-batches of a step before its passes.

    It must leave gradients, running statistics and random numbers as they were, and may be called
    again for the same step in other micro-batches.
    """

    def __call__(self, model: nn.Module, micro_batches: Sequence[Batch], forward: Forward) -> None:
        """See them."""
        ...


def no_look_ahead(model: nn.Module, micro_batches: Sequence[Batch], forward: Forward) -> None:
    """Nothing to see: a micro-batch has its loss by itself."""


def on_several_ranks(ranks: int) -> Mistake:
    """Error for a loss over all rows of a step where each rank would see its own alone."""
    return Mistake(
        Problem(
            "a loss over all pairs of a step is computed on one rank",
            found=f"{ranks} ranks",
            expected="one: each rank would see its own pairs alone",
            fix="train on one device, with more gradient_accumulation_steps",
        )
    )
