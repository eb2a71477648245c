"""The weights of an adapted network without its adapter. Needs torch and PEFT."""

from __future__ import annotations

import copy

import torch
from torch import nn

from trainwright.model.adapters.inject_adapter import adapted_layers


def merged(network: nn.Module) -> nn.Module:
    """A copy of the network in which each adapted layer is one matrix again: that of the base with
    what the adapter adds. The network itself is unchanged."""
    whole = copy.deepcopy(network)
    with torch.no_grad():
        for path, layer in adapted_layers(whole):
            layer.merge(safe_merge=True)
            parent, _, name = path.rpartition(".")
            setattr(whole.get_submodule(parent), name, layer.get_base_layer())
    return whole
