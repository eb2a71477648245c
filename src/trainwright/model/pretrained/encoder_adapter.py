"""Adapters of models of transformers. Needs torch, transformers and PEFT."""

from __future__ import annotations

from typing import Any

from torch import nn

from trainwright.contract.sections.model.adapter import Adapter
from trainwright.model.adapters.inject_adapter import choose_layers, inject_adapter
from trainwright.model.pretrained.sequence_classifier import is_of_encoder


def adapt_encoder(network: nn.Module, adapter: Adapter) -> nn.Module:
    """The network with an adapter in its encoder; its head is trained whole.

    Raises:
        Mistake: a target names no layer. MissingExtra: PEFT is not installed.
    """
    head = names_of_head(network)
    kinds = _kinds(linear=adapter.targets == "all")
    named = network.named_modules()
    layers = [name for name, one in named if isinstance(one, kinds)]
    inside = [name for name in layers if f"{name}.weight" not in head]
    inject_adapter(network, adapter, choose_layers(inside, adapter))
    for name, parameter in network.named_parameters():
        if name in head:
            parameter.requires_grad_(True)
    return network


def names_of_head(network: nn.Module) -> frozenset[str]:
    """Parameters beside the encoder: of the head, and of the pooler before it."""
    prefix = f"{_prefix(network)}."
    names = (name for name, _ in network.named_parameters(remove_duplicate=False))
    return frozenset(name for name in names if not is_of_encoder(name, prefix))


def _prefix(network: Any) -> str:
    prefix: str = network.base_model_prefix
    return prefix


def _kinds(*, linear: bool) -> tuple[type[nn.Module], ...]:
    """Classes of layers that can be adapted."""
    from transformers.pytorch_utils import Conv1D

    return (nn.Linear, Conv1D) if linear else (nn.Linear, Conv1D, nn.Conv2d)
