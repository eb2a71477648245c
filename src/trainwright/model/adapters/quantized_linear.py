"""Frozen linear layers whose matrix is held in 4 or 8 bits. Needs torch and bitsandbytes.

The classes are those of bitsandbytes, so that PEFT knows them, with a product of their own: the
matrix is dequantised for each product, forwards and backwards, and nothing else is kept. Those of
bitsandbytes turn the bias to the type of the inputs for good, set the type of the product at the
first call, and repack 4 bits at the first evaluation on some CPUs, after which no gradient passes:
what a step computes would depend on the calls before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, assert_never, final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from trainwright.model.adapters.inject_adapter import quiet_kernels

with quiet_kernels():
    from bitsandbytes.functional import dequantize_4bit, int8_vectorwise_quant
    from bitsandbytes.nn.modules import Int8Params, Linear4bit, Linear8bitLt, Params4bit

Quantization = Literal["nf4", "int8"]
_INT8_MOST = 127
_NAMES = {"nf4": "is_loaded_in_4bit", "int8": "is_loaded_in_8bit"}
"""What PEFT reads of a network whose layers are of bitsandbytes."""


@final
class Nf4Linear(Linear4bit):
    """4 bits, and a scale of 8 bits for 64 of them (Dettmers et al. 2023, arXiv:2305.14314,
    section 3)."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__(  # type: ignore[no-untyped-call]
            layer.in_features, layer.out_features, _has_bias(layer), device="meta"
        )
        values = layer.weight.detach().contiguous()
        weight = Params4bit(values, False, None, 64, True, "nf4", module=self)
        self.weight = weight.to(values.device)  # type: ignore[misc]
        self.bias = layer.bias

    def forward(self, x: Float[Tensor, "*B I"]) -> Float[Tensor, "*B O"]:
        """Outputs in the type of a product here: that of the inputs, or of autocast."""
        return _product(self, x)

    def dequantized(self, dtype: torch.dtype) -> Float[Tensor, "O I"]:
        """The matrix that its bits stand for."""
        weight: Any = self.weight
        state: Any = weight.quant_state or self.quant_state
        state.to(weight.device)
        values: Tensor = dequantize_4bit(weight.data, state)
        return values.to(dtype)

    # The bits are those of the files of the base, and in no checkpoint.
    _save_to_state_dict = nn.Module._save_to_state_dict


@final
class Int8Linear(Linear8bitLt):
    """8 bits, and a scale for each row: its largest absolute value (Dettmers et al. 2022,
    arXiv:2208.07339, section 2); inputs are not rounded."""

    def __init__(self, layer: nn.Linear) -> None:
        biased = _has_bias(layer)
        super().__init__(
            layer.in_features, layer.out_features, biased, has_fp16_weights=False, device="meta"
        )
        values = layer.weight.detach().contiguous()
        bits, scale, _ = int8_vectorwise_quant(values.half())
        self.weight = Int8Params(bits, False, False, bits, scale)
        self.bias = layer.bias
        self.scale: Tensor
        self.register_buffer("scale", scale, persistent=False)
        self.state.SCB = scale

    def forward(self, x: Float[Tensor, "*B I"]) -> Float[Tensor, "*B O"]:
        """Outputs in the type of a product here: that of the inputs, or of autocast."""
        # Where PEFT looks for it, on the device of the layer.
        self.state.SCB = self.scale
        return _product(self, x)

    def dequantized(self, dtype: torch.dtype) -> Float[Tensor, "O I"]:
        """The matrix that its bits stand for."""
        return (self.weight.data * (self.scale / _INT8_MOST)[:, None]).to(dtype)

    _save_to_state_dict = nn.Module._save_to_state_dict


QuantizedLinear = Nf4Linear | Int8Linear


@final
class _FrozenProduct(torch.autograd.Function):
    """x W' + b with a W that is dequantised each time."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, bias: Tensor | None, layer: QuantizedLinear) -> Tensor:
        """Outputs in the type of x."""
        ctx.layer = layer
        return functional.linear(x, layer.dequantized(x.dtype), bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Any) -> Any:
        """The gradient of x; the layer is frozen."""
        (gradient,) = gradients
        return gradient @ ctx.layer.dequantized(gradient.dtype), None, None


def _product(layer: QuantizedLinear, x: Tensor) -> Tensor:
    device = x.device.type
    is_mixed = torch.is_autocast_enabled(device)
    dtype = torch.get_autocast_dtype(device) if is_mixed else x.dtype
    bias = layer.bias.to(dtype) if _has_bias(layer) else None
    with torch.autocast(device, enabled=False):
        outputs: Tensor = _FrozenProduct.apply(x.to(dtype), bias, layer)  # type: ignore[no-untyped-call]
    return outputs


def quantize_layers(network: nn.Module, kind: Quantization, paths: Sequence[str]) -> None:
    """Put frozen layers of `kind` in the place of the linear ones at these paths, one after
    another. On the meta device they stay unchanged."""
    setattr(network, _NAMES[kind], True)
    network.requires_grad_(False)
    if torch.get_default_device().type == "meta":
        return
    for path in paths:
        parent, _, name = path.rpartition(".")
        layer = network.get_submodule(path)
        assert isinstance(layer, nn.Linear), "only linear layers are quantised"
        setattr(network.get_submodule(parent), name, _quantized(layer, kind))


def dequantized_layer(layer: QuantizedLinear) -> nn.Linear:
    """A linear layer with the matrix that the bits of another stand for."""
    outputs, inputs = layer.out_features, layer.in_features
    whole = nn.Linear(inputs, outputs, _has_bias(layer), device="meta")
    whole.weight = nn.Parameter(layer.dequantized(torch.float32), requires_grad=False)
    if _has_bias(layer):
        whole.bias = nn.Parameter(layer.bias.detach().clone(), requires_grad=False)
    return whole


def _has_bias(layer: nn.Linear) -> bool:
    bias: Tensor | None = layer.bias
    return bias is not None


def _quantized(layer: nn.Linear, kind: Quantization) -> QuantizedLinear:
    match kind:
        case "nf4":
            return Nf4Linear(layer)
        case "int8":
            return Int8Linear(layer)
        case _:
            assert_never(kind)
