"""Adapters inside a network, by PEFT, also under torch's compiler. Needs torch; PEFT when
called."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, assert_never

import torch
from torch import nn

from trainwright.contract.sections.model.adapter import Dora, Ia3, InLayers, Lora, RsLora, Targets
from trainwright.core.errors import Mistake, Problem
from trainwright.model.adapters.need_peft import ADAPTER_PATH, need_peft

_QUANTIZED = ("Params4bit", "Int8Params")


def let_compiler_read_weights() -> None:
    """Let a compiler trace how DoRA reads the matrix of its base, where PEFT is imported: PEFT asks
    for the module of the matrix's class, at which a graph breaks."""
    if "peft" in sys.modules:
        _substitute()


@cache
def _substitute() -> None:
    from peft.utils.integrations import dequantize_module_weight

    @torch.compiler.substitute_in_graph(dequantize_module_weight, skip_signature_check=True)
    def read_weight(module: nn.Module) -> nn.Parameter:
        weight = module.get_parameter("weight")
        assert type(weight).__name__ not in _QUANTIZED, "the rules refuse a quantised one"
        return weight


def inject_adapter(
    network: nn.Module, adapter: InLayers, layers: Sequence[str], of_inputs: Sequence[str] = ()
) -> nn.Module:
    """Adapt the layers of these paths; everything else of the network is frozen. Of (IA)3, those
    `of_inputs` get factors of their inputs, the others of their outputs.

    What is random is drawn from torch's global generator. The network is the same object, in which
    each adapted layer has its own as `base_layer`.

    Raises:
        MissingExtra: PEFT is not installed.
    """
    need_peft()
    with quiet_kernels():
        from peft import inject_adapter_in_model
    config = _config(adapter, layers, of_inputs)
    config.fan_in_fan_out = any(_lies_turned(network.get_submodule(path)) for path in layers)
    inject_adapter_in_model(config, network)
    return network


def _config(adapter: InLayers, layers: Sequence[str], of_inputs: Sequence[str]) -> Any:
    from peft import IA3Config, LoraConfig

    match adapter:
        case Lora() | RsLora() | Dora():
            return LoraConfig(
                r=adapter.rank,
                lora_alpha=adapter.alpha,  # type: ignore[arg-type]  # a factor like any other
                lora_dropout=adapter.dropout,
                use_rslora=adapter.kind == "rslora",
                use_dora=adapter.kind == "dora",
                target_modules=list(layers),
            )
        case Ia3():
            return IA3Config(target_modules=list(layers), feedforward_modules=list(of_inputs))
        case _:
            assert_never(adapter)


def adapter_names(network: nn.Module) -> frozenset[str]:
    """Names of the parameters that an adapter has added."""
    layers = adapted_layers(network)
    from peft import PromptEmbedding

    prompts = (path for path, one in network.named_modules() if isinstance(one, PromptEmbedding))
    return frozenset(
        f"{path}.{name}"
        for path, layer in layers
        for name, _ in layer.named_parameters()
        if name.partition(".")[0] in layer.adapter_layer_names
    ) | {f"{path}.embedding.weight" for path in prompts}


def adapted_layers(network: nn.Module) -> list[tuple[str, Any]]:
    """Layers of PEFT in a network, by their path."""
    with quiet_kernels():
        from peft.tuners.tuners_utils import BaseTunerLayer
    return [(path, one) for path, one in network.named_modules() if isinstance(one, BaseTunerLayer)]


def choose_layers(available: Sequence[str], targets: Targets) -> list[str]:
    """Paths that the targets of an adapter name, of those that are `available`.

    Raises:
        Mistake: a target names none.
    """
    if targets == "all":
        if not available:
            raise _no_target("all", "no linear layer", available)
        return list(available)
    chosen = {target: _named(available, target) for target in targets}
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
def quiet_kernels() -> Iterator[None]:
    """Import PEFT, or bitsandbytes, which it imports where it finds it, without what that says of
    its kernels."""
    logger = logging.getLogger("bitsandbytes")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
