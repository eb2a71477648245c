"""Adapters of models of transformers. Needs torch, transformers and PEFT."""

from __future__ import annotations

from typing import Any

from torch import nn

from trainwright.contract.sections.model.adapter import Ia3, InLayers
from trainwright.core.errors import Mistake, Problem
from trainwright.model.adapters.inject_adapter import choose_layers, inject_adapter, quiet_kernels
from trainwright.model.adapters.need_peft import ADAPTER_PATH, need_peft
from trainwright.model.pretrained.sequence_classifier import encoder_prefix, is_of_encoder


def adapt_encoder(network: nn.Module, adapter: InLayers) -> nn.Module:
    """The network with an adapter in its encoder; its head is trained whole.

    Raises:
        Mistake: a target names no layer. MissingExtra: PEFT is not installed.
    """
    head = names_of_head(network)
    layers = layers_to_adapt(network, adapter)
    inject_into(network, adapter, [name for name in layers if f"{name}.weight" not in head])
    for name, parameter in network.named_parameters():
        if name in head:
            parameter.requires_grad_(True)
    return network


def layers_to_adapt(network: nn.Module, adapter: InLayers) -> list[str]:
    """Paths of the layers that an adapter can adapt, those of the head too."""
    kinds = _kinds(linear=isinstance(adapter, Ia3) or adapter.targets == "all")
    return [name for name, one in network.named_modules() if isinstance(one, kinds)]


def inject_into(network: nn.Module, adapter: InLayers, layers: list[str]) -> None:
    """Adapt those of the layers of a model of transformers that the adapter names; all other
    parameters are frozen.

    Raises:
        Mistake: a target names no layer. MissingExtra: PEFT is not installed.
    """
    if isinstance(adapter, Ia3):
        _inject_factors(network, adapter, layers)
    else:
        inject_adapter(network, adapter, choose_layers(layers, adapter.targets))


def _inject_factors(network: nn.Module, adapter: Ia3, inside: list[str]) -> None:
    """Factors of (IA)3; where PEFT knows the architecture, those of its inputs too."""
    need_peft()
    with quiet_kernels():
        from peft.utils import TRANSFORMERS_MODELS_TO_IA3_FEEDFORWARD_MODULES_MAPPING as OF_INPUTS
        from peft.utils import TRANSFORMERS_MODELS_TO_IA3_TARGET_MODULES_MAPPING as USUAL
    kind = _model_type(network)
    if adapter.targets == "usual" and kind not in USUAL:
        raise Mistake(
            Problem(
                f"there are no usual layers of {kind} for (IA)3",
                path=f"{ADAPTER_PATH}.targets",
                found="usual",
                expected=f"names of layers; usual is known of {', '.join(sorted(USUAL))}",
                fix="name layers in model.adapter.targets",
            )
        )
    targets = tuple(USUAL[kind]) if adapter.targets == "usual" else adapter.targets
    chosen = choose_layers(inside, targets)
    endings = tuple(f".{name}" for name in OF_INPUTS.get(kind, ()))
    inject_adapter(network, adapter, chosen, [one for one in chosen if one.endswith(endings)])


def names_of_head(network: nn.Module) -> frozenset[str]:
    """Parameters beside the encoder: of the head, and of the pooler before it."""
    prefix = encoder_prefix(network)
    names = (name for name, _ in network.named_parameters(remove_duplicate=False))
    return frozenset(name for name in names if not is_of_encoder(name, prefix))


def _model_type(network: Any) -> str:
    kind: str = network.config.model_type
    return kind


def _kinds(*, linear: bool) -> tuple[type[nn.Module], ...]:
    """Classes of layers that can be adapted."""
    from transformers.pytorch_utils import Conv1D

    return (nn.Linear, Conv1D) if linear else (nn.Linear, Conv1D, nn.Conv2d)
