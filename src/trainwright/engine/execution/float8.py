"""Float8 matrix products of linear layers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

FORWARD, BACKWARD = torch.float8_e4m3fn, torch.float8_e5m2
"""Formats of weights and activations, and of their gradients, which need the wider range
(Micikevicius et al. 2022, arXiv:2209.05433, section 3)."""

_MULTIPLE = 16
"""Every dimension of a product must be a multiple of this."""


def fits_float8(weight: Tensor) -> bool:
    """Do the kernels support a matrix of this shape?"""
    return weight.ndim == 2 and not any(size % _MULTIPLE for size in weight.shape)


@final
class Float8Products(TorchFunctionMode):
    """Context in which selected linear layers compute in float8: x W^T forward, and both products
    of the backward pass.

    Each matrix is scaled by its largest absolute value to use the full range of its format, and
    multiplied in float8 with fp32 accumulation ("per-tensor current scaling", Micikevicius et al.
    2022, section 4). Inputs whose number of rows the kernels do not support fall back to the
    enclosing autocast region, in bf16.

    Args:
        weights: those of the selected layers. Embeddings and output layers, the most sensitive
            ones, should be excluded.
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
        """Call `func`, or compute the same product in float8."""
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
    """Saves its operands in float8 for the backward pass: a quarter of the memory of fp32."""

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
        # The kernels take the first matrix in row-major and the second in column-major layout.
        of_x = _product(back, _by_columns(columns), back_scale, columns_scale)
        of_weight = _product(back.t().contiguous(), _by_columns(rows), back_scale, rows_scale)
        return of_x.to(ctx.formats[0]), of_weight.to(ctx.formats[1])


def _to_float8(x: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """The matrix in float8 and its scale: multiplied by it (0-d fp32) the result is `x`."""
    most = torch.finfo(dtype).max
    scale = x.abs().amax().float().clamp_min(torch.finfo(torch.float32).tiny * most) / most
    return (x.float() / scale).clamp(-most, most).to(dtype), scale


def _by_columns(matrix: Tensor) -> Tensor:
    return matrix.t().contiguous().t()


def _product(first: Tensor, second: Tensor, first_scale: Tensor, second_scale: Tensor) -> Tensor:
    return torch._scaled_mm(first, second, first_scale, second_scale, out_dtype=torch.bfloat16)
