"""Bases of several adapters in one process, each held once. Needs torch."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from weakref import WeakValueDictionary

import torch
from torch import nn

from trainwright.model.adapters.inject_adapter import adapted_layers

_Key = tuple[str, str, torch.device, torch.dtype, tuple[int, ...]]

_HELD: Final[WeakValueDictionary[_Key, nn.Parameter]] = WeakValueDictionary()
_INSIDE = ".base_layer"
"""Where PEFT puts a layer that it adapts."""


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
