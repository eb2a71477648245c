"""Number formats of the forward pass. Weights and updates stay in the format of the parameters."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal, Protocol, assert_never, final

import torch


class Precision(Protocol):
    """In which number format the forward pass computes."""

    def forward(self) -> AbstractContextManager[Any]:
        """A context for one forward pass, loss included."""
        ...


@final
class Full:
    """Everything in the format of the parameters."""

    _context = nullcontext()

    def forward(self) -> AbstractContextManager[Any]:
        """Nothing is changed."""
        return self._context


@final
class Autocast:
    """Matrix products in bfloat16, sums, norms and losses in fp32 (torch.autocast)."""

    def __init__(self, device: torch.device) -> None:
        self._device = device.type

    def forward(self) -> AbstractContextManager[Any]:
        """An autocast region."""
        return torch.autocast(self._device, dtype=torch.bfloat16)


def build_precision(choice: Literal["fp32", "bf16"], device: torch.device) -> Precision:
    """The precision of a plan."""
    match choice:
        case "fp32":
            return Full()
        case "bf16":
            return Autocast(device)
        case _:
            assert_never(choice)
