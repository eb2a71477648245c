"""Precision of the forward pass, and backward with given root gradients. Weights and updates
stay fp32."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any, ClassVar, Literal, Protocol, assert_never, final

import torch
from torch import Tensor, nn
from torch.autograd.graph import _engine_run_backward

from trainwright.checkpoint.state import Snapshot
from trainwright.engine.execution.float8 import Float8Products
from trainwright.optim.muon import hidden_matrices

run_backward = partial(
    _engine_run_backward,
    keep_graph=False,
    create_graph=False,
    inputs=(),
    allow_unreachable=True,
    accumulate_grad=True,
)
"""Accumulate the gradients of a tuple of losses, scaled by a tuple of root gradients; all 0-d.

Equivalent to `loss.backward(gradient)`, which imports the symbolic-shapes library (half a second
before the first step) and compares shapes at every step (an eighth of a small step).
"""


PrecisionChoice = Literal["fp32", "tf32", "bf16", "fp16", "fp8"]

_LEAST_SCALE = 2.0**-16


@final
class Unscaled:
    """No loss scaling."""


@final
class LossScale:
    """Dynamic loss scaling: the loss is multiplied before the backward pass so that small gradients
    do not underflow in fp16, and the gradients are divided by the same factor (Micikevicius et al.
    2018, arXiv:1710.03740, section 3.2).

    The factor adapts as in `torch.amp.GradScaler`: a step with a non-finite number halves it, and
    2,000 steps without one double it. It lives on the device of the loss and is never read by a
    step. It never falls below 2^-16: a gradient that still overflows would do so at any factor.
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
        """Current factor, a 0-d fp32 tensor on the device."""
        if self._scale.device != device:
            self._scale, self._calm = self._scale.to(device), self._calm.to(device)
        return self._scale

    def adapt(self, dropped: float | Tensor) -> None:
        """Update the factor; `dropped` is positive if the step was dropped."""
        found = torch.as_tensor(dropped, dtype=torch.float32, device=self._scale.device)
        torch._amp_update_scale_(
            self._scale, self._calm, found, self._growth, self._backoff, self._interval
        )
        self._scale.clamp_(min=_LEAST_SCALE)

    def snapshot(self) -> Snapshot:
        """The factor, and the steps since it last changed."""
        return Snapshot(tensors={"scale": self._scale, "calm": self._calm})

    def restore(self, snapshot: Snapshot) -> None:
        """Restore the factor."""
        self._scale.copy_(snapshot.tensors["scale"])
        self._calm.copy_(snapshot.tensors["calm"])


class Precision(Protocol):
    """Number format of the forward pass, and its loss scaling."""

    @property
    def scale(self) -> LossScale | Unscaled:
        """Loss scale, if the format needs one."""
        ...

    def forward(self) -> AbstractContextManager[Any]:
        """Context of one forward pass, loss included."""
        ...


@final
class Full:
    """Full precision: everything in the dtype of the parameters."""

    _context = nullcontext()
    scale: LossScale | Unscaled = Unscaled()

    def forward(self) -> AbstractContextManager[Any]:
        """Null context."""
        return self._context


@final
class Autocast:
    """Autocast: matrix products in bfloat16 or fp16; sums, norms and losses in fp32
    (torch.autocast)."""

    def __init__(self, device: torch.device, dtype: torch.dtype = torch.bfloat16) -> None:
        self._device = device.type
        self._dtype = dtype
        self.scale: LossScale | Unscaled = LossScale() if dtype == torch.float16 else Unscaled()

    def forward(self) -> AbstractContextManager[Any]:
        """Autocast region."""
        return torch.autocast(self._device, dtype=self._dtype)


@final
class Float8:
    """Float8 products in hidden linear layers, `Autocast` elsewhere.

    Faster on GPUs with float8 units (compute capability 8.9 and above) and large layers, once the
    scaling around each product is compiled.
    """

    scale: LossScale | Unscaled = Unscaled()

    def __init__(self, device: torch.device, model: nn.Module) -> None:
        self._device = device.type
        self._products = Float8Products(hidden_matrices(model))

    @contextmanager
    def forward(self) -> Iterator[None]:
        """Autocast region with float8 products."""
        with torch.autocast(self._device, dtype=torch.bfloat16), self._products:
            yield


def build_precision(choice: PrecisionChoice, model: nn.Module, device: torch.device) -> Precision:
    """Build the precision of a plan. For `tf32` the loop runs inside `matrix_products`."""
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
