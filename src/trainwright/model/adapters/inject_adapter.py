"""Adapters inside a network, by PEFT. Needs torch; PEFT where a network has an adapter."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from torch import nn

from trainwright.contract.sections.model.adapter import Adapter
from trainwright.core.errors import Mistake, Problem
from trainwright.model.adapters.need_peft import ADAPTER_PATH, need_peft


def inject_adapter(network: nn.Module, adapter: Adapter, layers: Sequence[str]) -> nn.Module:
    """Adapt the layers of these paths; everything else of the network is frozen.

    What is random is drawn from torch's global generator. The network is the same object, in which
    each adapted layer has its own as `base_layer`.

    Raises:
        MissingExtra: PEFT is not installed.
    """
    need_peft()
    with _quiet_kernels():
        from peft import LoraConfig, inject_adapter_in_model
    is_turned = any(_lies_turned(network.get_submodule(path)) for path in layers)
    config = LoraConfig(
        r=adapter.rank,
        lora_alpha=adapter.alpha,  # type: ignore[arg-type]  # a factor like any other
        lora_dropout=adapter.dropout,
        use_rslora=adapter.kind == "rslora",
        use_dora=adapter.kind == "dora",
        target_modules=list(layers),
        fan_in_fan_out=is_turned,
    )
    inject_adapter_in_model(config, network)
    return network


def adapter_names(network: nn.Module) -> frozenset[str]:
    """Names of the parameters that an adapter has added."""
    return frozenset(
        f"{path}.{name}"
        for path, layer in adapted_layers(network)
        for name, _ in layer.named_parameters()
        if name.partition(".")[0] in layer.adapter_layer_names
    )


def adapted_layers(network: nn.Module) -> list[tuple[str, Any]]:
    """Layers of PEFT in a network, by their path."""
    with _quiet_kernels():
        from peft.tuners.tuners_utils import BaseTunerLayer
    return [(path, one) for path, one in network.named_modules() if isinstance(one, BaseTunerLayer)]


def choose_layers(available: Sequence[str], adapter: Adapter) -> list[str]:
    """Paths that the targets of an adapter name, of those that are `available`.

    Raises:
        Mistake: a target names none.
    """
    if adapter.targets == "all":
        if not available:
            raise _no_target("all", "no linear layer", available)
        return list(available)
    chosen = {target: _named(available, target) for target in adapter.targets}
    for target, found in chosen.items():
        if not found:
            raise _no_target(target, target, available)
    wanted = {path for found in chosen.values() for path in found}
    return [path for path in available if path in wanted]


def _named(available: Sequence[str], target: str) -> list[str]:
    return [one for one in available if one == target or one.endswith(f".{target}")]


def _no_target(target: str, found: str, available: Sequence[str]) -> Mistake:
    names = list(dict.fromkeys(one.rpartition(".")[2] for one in available))
    return Mistake(
        Problem(
            f"the base has no layer {target!r} to adapt"
            if target != "all"
            else "the base has no linear layers to adapt",
            path=f"{ADAPTER_PATH}.targets",
            found=found,
            expected=f"some of {', '.join(names)}" if names else "a base with linear layers",
            fix="remove targets, or name some of these"
            if names
            else "name convolutions in model.adapter.targets, or remove adapter",
        )
    )


def _lies_turned(layer: nn.Module) -> bool:
    """Does the matrix of a layer have its inputs first, as those of GPT-2 in transformers?"""
    return type(layer).__name__ == "Conv1D"


@contextmanager
def _quiet_kernels() -> Iterator[None]:
    """Without what bitsandbytes, which PEFT imports where it finds it, says of its kernels."""
    logger = logging.getLogger("bitsandbytes")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
