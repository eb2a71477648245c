"""Parameter groups: which parameters are decayed is decided by the type of their module."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import nn

_NEVER_DECAYED = (
    nn.LayerNorm,
    nn.GroupNorm,
    nn.RMSNorm,
    nn.modules.batchnorm._NormBase,  # the common base of all batch and instance norms
    nn.Embedding,
    nn.EmbeddingBag,
)


def parameter_groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Two groups, decayed and not: norms, embeddings and biases are never decayed.

    Every trainable parameter is in exactly one group, once, also when modules share it.
    """
    decayed: list[nn.Parameter] = []
    plain: list[nn.Parameter] = []
    for parameter, is_decayed in _each_once(model):
        (decayed if is_decayed else plain).append(parameter)
    groups: list[dict[str, Any]] = [
        {"params": decayed, "weight_decay": weight_decay},
        {"params": plain, "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]


def _each_once(model: nn.Module) -> Iterator[tuple[nn.Parameter, bool]]:
    seen: set[nn.Parameter] = set()
    for module in model.modules():
        for name, parameter in module.named_parameters(recurse=False):
            if parameter.requires_grad and parameter not in seen:
                seen.add(parameter)
                yield parameter, not (name == "bias" or isinstance(module, _NEVER_DECAYED))
