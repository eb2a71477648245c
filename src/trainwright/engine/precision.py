"""Number formats of the forward pass. Weights and updates stay in the format of the parameters."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, ClassVar, Literal, Protocol, assert_never, final

import torch
from torch import Tensor, nn

from trainwright.checkpoint.state import Snapshot
from trainwright.engine.float8 import Float8Products
from trainwright.optim.muon_parameters import hidden_matrices

PrecisionChoice = Literal["fp32", "tf32", "bf16", "fp16", "fp8"]

_LEAST_SCALE = 2.0**-16


@final
class Unscaled:
    """The loss is taken as it is."""


@final
class LossScale:
    """The loss is multiplied before the backward pass, so that small gradients survive fp16, and
    the gradients are divided by the same (Micikevicius et al. 2018, arXiv:1710.03740, section 3.2).

    The factor adapts as that of `torch.amp.GradScaler`: a step with a number that is not finite
    halves it, and 2,000 steps without one double it. It lies on the device of the loss and is never
    read by a step. It never falls below 2^-16: a gradient that does not fit then fits at no factor.
    """

    on_rollback: ClassVar[Literal["keep"]] = "keep"

    def __init__(
        self,
        initial: float = 65536.0,
        growth: float = 2.0,
        backoff: float = 0.5,
        interval: int = 2000,
    ) -> None:
        self._growth, self._backoff, self._interval = growth, backoff, interval
        self._scale = torch.full((), initial)
        self._calm = torch.zeros((), dtype=torch.int32)

    def on(self, device: torch.device) -> Tensor:
        """The factor now, a 0-d fp32 tensor on the device."""
        if self._scale.device != device:
            self._scale, self._calm = self._scale.to(device), self._calm.to(device)
        return self._scale

    def adapt(self, dropped: float | Tensor) -> None:
        """Take in whether the step was dropped (more than 0)."""
        found = torch.as_tensor(dropped, dtype=torch.float32, device=self._scale.device)
        torch._amp_update_scale_(
            self._scale, self._calm, found, self._growth, self._backoff, self._interval
        )
        self._scale.clamp_(min=_LEAST_SCALE)

    def snapshot(self) -> Snapshot:
        """The factor, and the steps since it last changed."""
        return Snapshot(tensors={"scale": self._scale, "calm": self._calm})

    def restore(self, snapshot: Snapshot) -> None:
        """Scale on from there."""
        self._scale.copy_(snapshot.tensors["scale"])
        self._calm.copy_(snapshot.tensors["calm"])


class Precision(Protocol):
    """In which number format the forward pass computes, and whether its loss is scaled."""

    @property
    def scale(self) -> LossScale | Unscaled:
        """The factor on the loss, if the format needs one."""
        ...

    def forward(self) -> AbstractContextManager[Any]:
        """A context for one forward pass, loss included."""
        ...


@final
class Full:
    """Everything in the format of the parameters."""

    _context = nullcontext()
    scale: LossScale | Unscaled = Unscaled()

    def forward(self) -> AbstractContextManager[Any]:
        """Nothing is changed."""
        return self._context


@final
class Autocast:
    """Matrix products in bfloat16 or fp16, sums, norms and losses in fp32 (torch.autocast)."""

    def __init__(self, device: torch.device, dtype: torch.dtype = torch.bfloat16) -> None:
        self._device = device.type
        self._dtype = dtype
        self.scale: LossScale | Unscaled = LossScale() if dtype == torch.float16 else Unscaled()

    def forward(self) -> AbstractContextManager[Any]:
        """An autocast region."""
        return torch.autocast(self._device, dtype=self._dtype)


@final
class Float8:
    """The products of hidden linear layers in float8, everything else as under `Autocast`.

    Gains speed on GPUs with float8 units (compute capability 8.9 and above) and large layers, once
    the scaling around each product is compiled.
    """

    scale: LossScale | Unscaled = Unscaled()

    def __init__(self, device: torch.device, model: nn.Module) -> None:
        self._device = device.type
        self._products = Float8Products(hidden_matrices(model))

    @contextmanager
    def forward(self) -> Iterator[None]:
        """An autocast region with float8 products."""
        with torch.autocast(self._device, dtype=torch.bfloat16), self._products:
            yield


def build_precision(choice: PrecisionChoice, model: nn.Module, device: torch.device) -> Precision:
    """The precision of a plan. For `tf32` the loop runs inside `matrix_products`."""
    match choice:
        case "fp32" | "tf32":
            return Full()
        case "bf16":
            return Autocast(device)
        case "fp16":
            return Autocast(device, torch.float16)
        case "fp8":
            return Float8(device, model)
        case _:
            assert_never(choice)
