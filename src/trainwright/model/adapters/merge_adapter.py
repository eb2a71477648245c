"""The weights of an adapted network without its adapter, and bases that several adapters share.
Needs torch."""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterable
from typing import Any, Final, cast
from weakref import WeakValueDictionary

import torch
from torch import nn

from trainwright.model.adapters.inject_adapter import adapted_layers

_Key = tuple[str, str, torch.device, torch.dtype, tuple[int, ...]]
_HELD: Final[WeakValueDictionary[_Key, nn.Parameter]] = WeakValueDictionary()

_INSIDE = ".base_layer"
"""Where PEFT puts a layer that it adapts."""


def merged(network: nn.Module) -> nn.Module:
    """A copy of the network in which each adapted layer is one matrix again: that of the base with
    what the adapter adds. What is quantised becomes the numbers that its bits stand for, so that
    the copy computes the same. The network itself is unchanged."""
    whole = copy.deepcopy(network)
    with torch.no_grad():
        for path, layer in adapted_layers(whole):
            base = layer.get_base_layer()
            if _is_quantized(base):
                _put(whole, path, _merged_quantized(layer))
                continue
            layer.merge(safe_merge=True)
            _put(whole, path, base)
        for path, layer in [one for one in whole.named_modules() if _is_quantized(one[1])]:
            _put(whole, path, _dequantized(layer))
    return whole


def _put(network: nn.Module, path: str, layer: nn.Module) -> None:
    parent, _, name = path.rpartition(".")
    setattr(network.get_submodule(parent), name, layer)


def _is_quantized(layer: nn.Module) -> bool:
    # Without bitsandbytes imported, no layer is.
    module = sys.modules.get("trainwright.model.adapters.quantized_linear")
    return module is not None and isinstance(layer, (module.Nf4Linear, module.Int8Linear))


def _dequantized(layer: nn.Module) -> nn.Linear:
    from trainwright.model.adapters.quantized_linear import QuantizedLinear, dequantized_layer

    return dequantized_layer(cast(QuantizedLinear, layer))


def _merged_quantized(layer: Any) -> nn.Linear:
    """The linear layer that a quantised one and its adapter are together."""
    whole, name = _dequantized(layer.get_base_layer()), layer.active_adapters[0]
    if name in getattr(layer, "ia3_l", {}):
        factors = layer.ia3_l[name]
        whole.weight.mul_(factors)
        if "bias" in whole.state_dict() and not layer.is_feedforward:
            whole.bias.mul_(factors.flatten())
    elif name in layer.lora_variant:
        whole.weight.copy_(layer.lora_variant[name].merge_safe(layer, name, whole.weight.data))
    else:
        whole.weight.add_(layer.get_delta_weight(name))
    return whole


def share_base(network: nn.Module, base: str, names: Iterable[str]) -> None:
    """Put the parameters of the base that another network of this process holds in the place of
    these; `base` names the files and the number format that they are from.

    The parameters are frozen for good: what changes one changes all networks that share it. Where
    matrices are joined in one network and apart in the other, each has its own.
    """
    for name in names:
        path, _, leaf = name.rpartition(".")
        module = network.get_submodule(path)
        own = module.get_parameter(leaf)
        known = name.replace(_INSIDE, "")
        key = (f"{base} {type(own).__name__}", known, own.device, own.dtype, tuple(own.shape))
        held = _HELD.setdefault(key, own)
        if held is not own:
            setattr(module, leaf, held)


def unmerge_adapter(network: nn.Module) -> None:
    """Take the adapter out of a network: it computes what its base does. The head of an encoder
    stays that of the adapter."""
    for _, layer in adapted_layers(network):
        layer.enable_adapters(False)
