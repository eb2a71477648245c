"""Matrix products of linear layers in 8-bit floating point."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

FORWARD, BACKWARD = torch.float8_e4m3fn, torch.float8_e5m2
"""Formats of weights and activations, and of the gradients that come back, whose range is wider
(Micikevicius et al. 2022, arXiv:2209.05433, section 3)."""

_MULTIPLE = 16
"""What the kernels need every size of a product to be a multiple of."""


def fits_float8(weight: Tensor) -> bool:
    """Whether a matrix has sizes that the kernels take."""
    return weight.ndim == 2 and not any(size % _MULTIPLE for size in weight.shape)


@final
class Float8Products(TorchFunctionMode):
    """Inside it, the products of some linear layers are computed in float8: x W^T forward, and both
    products of the backward pass.

    Each matrix is scaled by its largest absolute number, so that it uses the range of its format,
    and multiplied in float8 with sums in fp32 ("per-tensor current scaling", Micikevicius et al.
    2022, section 4). Inputs of a number of rows that the kernels do not take are left to the
    products of the region around, in bf16.

    Args:
        weights: of the layers; all others stay as they are. Embeddings and outputs should, as they
            are the most sensitive.
    """

    def __init__(self, weights: Iterable[nn.Parameter]) -> None:
        super().__init__()
        self._weights = {id(weight) for weight in weights if fits_float8(weight)}

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Calls `func`, or what computes the same product in float8."""
        if func is functional.linear and not kwargs and id(args[1]) in self._weights:
            x, weight, *bias = args
            if x.numel() // x.shape[-1] % _MULTIPLE == 0:
                out = float8_linear(x, weight)
                return out if not bias or bias[0] is None else out + bias[0].to(out.dtype)
        return func(*args, **(kwargs or {}))


def float8_linear(x: Tensor, weight: Tensor) -> Tensor:
    """x W^T in bf16, [..., K] times [N, K] to [..., N], computed in float8."""
    rows = x.reshape(-1, x.shape[-1])
    product: Tensor = _Float8Linear.apply(rows, weight)  # type: ignore[no-untyped-call]
    return product.view(*x.shape[:-1], weight.shape[0])


class _Float8Linear(torch.autograd.Function):
    """The matrices that come back are kept in float8: a quarter of the memory of fp32."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        rows, rows_scale = _to_float8(x, FORWARD)
        columns, columns_scale = _to_float8(weight, FORWARD)
        ctx.save_for_backward(rows, rows_scale, columns, columns_scale)
        ctx.formats = x.dtype, weight.dtype
        return _product(rows, columns.t(), rows_scale, columns_scale)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        rows, rows_scale, columns, columns_scale = ctx.saved_tensors
        back, back_scale = _to_float8(gradients[0], BACKWARD)
        # The kernels take the first matrix by rows and the second by columns.
        of_x = _product(back, _by_columns(columns), back_scale, columns_scale)
        of_weight = _product(back.t().contiguous(), _by_columns(rows), back_scale, rows_scale)
        return of_x.to(ctx.formats[0]), of_weight.to(ctx.formats[1])


def _to_float8(x: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """The matrix in float8, and what it must be multiplied by to be `x` (0-d fp32)."""
    most = torch.finfo(dtype).max
    scale = x.abs().amax().float().clamp_min(torch.finfo(torch.float32).tiny * most) / most
    return (x.float() / scale).clamp(-most, most).to(dtype), scale


def _by_columns(matrix: Tensor) -> Tensor:
    return matrix.t().contiguous().t()


def _product(first: Tensor, second: Tensor, first_scale: Tensor, second_scale: Tensor) -> Tensor:
    return torch._scaled_mm(first, second, first_scale, second_scale, out_dtype=torch.bfloat16)
